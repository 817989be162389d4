"""Run Adam as configured."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from disent_core.optimisation.config import OptimiserConfig


class Optimiser:
    """Adam over some parameters; parameters that need no gradient are left out."""

    def __init__(self, parameters: Iterable[nn.Parameter], config: OptimiserConfig) -> None:
        self.config = config
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        # Biases and the weights of norms are vectors, all other weights matrices.
        only_matrices = config.decay == "decoupled_matrices"
        exempt = [parameter for parameter in self.parameters if only_matrices and parameter.ndim < 2]
        decayed = [parameter for parameter in self.parameters if not (only_matrices and parameter.ndim < 2)]
        groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": exempt, "weight_decay": 0.0}]
        self.adam = torch.optim.Adam(
            [group for group in groups if group["params"]],
            lr=config.learning_rate,
            betas=config.betas,
            fused=config.fused,
            decoupled_weight_decay=config.decay != "l2",
        )

    def set_rate(self, step: int, steps: int) -> None:
        """Set the learning rate of a step, counted from 0, out of `steps`."""
        for group in self.adam.param_groups:
            group["lr"] = self.config.learning_rate * self.config.factor(step, steps)

    def minimise(self, loss: Tensor) -> None:
        """Take one step that lowers the loss; no other parameter gets a gradient."""
        self.adam.zero_grad(set_to_none=True)
        loss.backward(inputs=self.parameters)
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.adam.step()
