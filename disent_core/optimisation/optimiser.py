"""Configure and run Adam: weight decay, learning-rate schedule and gradient clipping in one place."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """How an optimiser updates weights.

    Attributes:
        learning_rate: learning rate of Adam.
        betas: decay rates of Adam's two moments.
        weight_decay: strength of the weight decay, whose form is `decay`.
        decay: `decoupled` as in AdamW; `decoupled_matrices` the same, but biases and norms are exempt, as in
            sentence-transformers; `l2` is added to the gradient.
        warmup: the learning rate rises from 0 during this fraction of all steps if it is below 1, else during
            this number of steps.
        schedule: after the warm-up the rate is `constant`, or falls to 0 (`linear`), as
            `get_linear_schedule_with_warmup` of transformers; `linear_from_one` is one step ahead, so that no step
            has rate 0.
        clip: largest norm of all gradients together; None does not clip.
        fused: use one kernel for all parameters. It rounds differently from a kernel for each.
    """

    learning_rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    decay: Literal["decoupled", "decoupled_matrices", "l2"] = "decoupled"
    warmup: float = 0.0
    schedule: Literal["constant", "linear", "linear_from_one"] = "constant"
    clip: float | None = None
    fused: bool = True

    def factor(self, step: int, steps: int) -> float:
        """Factor of the learning rate at a step, counted from 0, out of `steps`."""
        warmup = math.ceil(self.warmup * steps) if self.warmup < 1 else self.warmup
        if self.schedule == "linear_from_one":
            warmup = max(warmup, 1)
            return min((step + 1) / warmup, (steps - step) / max(steps - warmup, 1))
        if step < warmup:
            return step / warmup
        return 1.0 if self.schedule == "constant" else max(0.0, (steps - step) / max(1.0, steps - warmup))


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
