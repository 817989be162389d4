"""Run Adam as configured, on all weights or on the rows of a large table that a step reads."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from disent_core.optimisation.config import OptimiserConfig


class Optimiser:
    """Adam over some parameters, without those that need no gradient."""

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


_BLOCK = 512  # rows updated at once


class RowAdam(torch.optim.Optimizer):
    """Adam over a `table` [rows, dim] that changes moments and values only in the rows of a sparse gradient.

    `torch.optim.SparseAdam` gives the same values but takes three times as long: it makes a new sparse tensor for every
    intermediate result.
    """

    def __init__(
        self, table: nn.Parameter, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__([table], {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update the rows of the gradient; a row that occurs twice gets the sum."""
        (group,) = self.param_groups
        (table,) = group["params"]
        rows, gradient = _by_row(table.grad)
        state = self.state[table]
        if not state:
            state |= {"step": torch.zeros(()), "mean": torch.zeros_like(table), "square": torch.zeros_like(table)}
        state["step"] += 1
        first, second = group["betas"]
        step = int(state["step"])
        # Both bias corrections of Adam as one factor of the learning rate (Kingma and Ba 2015, end of Section 2).
        rate = group["lr"] * math.sqrt(1 - second**step) / (1 - first**step)
        # A block of rows at a time ([512, dim] of each of four matrices) stays in the cache.
        for chosen, of_rows in zip(rows.split(_BLOCK), gradient.split(_BLOCK), strict=True):
            mean = state["mean"].index_select(0, chosen).lerp_(of_rows, 1 - first)
            square = state["square"].index_select(0, chosen).mul_(second).addcmul_(of_rows, of_rows, value=1 - second)
            state["mean"].index_copy_(0, chosen, mean)
            state["square"].index_copy_(0, chosen, square)
            table.index_add_(0, chosen, mean.div_(square.sqrt_().add_(group["eps"])), alpha=-rate)


def _by_row(gradient: Tensor | None) -> tuple[Tensor, Tensor]:
    if gradient is None or not gradient.is_sparse:
        raise ValueError("the gradient is not sparse: look the rows up by F.embedding with sparse=True")
    rows = gradient._indices()[0]  # in F.embedding, in the order in which they were looked up
    if bool((rows.diff() > 0).all()):
        return rows, gradient._values()
    gradient = gradient.coalesce()
    return gradient.indices()[0], gradient.values()


class RowOptimiser(Optimiser):
    """`RowAdam` over one table, with the schedule of an `OptimiserConfig`; it neither decays nor clips."""

    def __init__(self, table: nn.Parameter, config: OptimiserConfig) -> None:
        self.config, self.parameters = replace(config, clip=None), [table]
        self.adam = RowAdam(table, config.learning_rate, config.betas)
