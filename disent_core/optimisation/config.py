"""Configure Adam: weight decay, learning-rate schedule and gradient clipping in one place."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    learning_rate: float  # learning rate of Adam
    betas: tuple[float, float] = (0.9, 0.999)  # decay rates of Adam's two moments
    weight_decay: float = 0.0  # strength of the weight decay, whose form is `decay`
    # `decoupled` as in AdamW; `decoupled_matrices` the same, but biases and norms are exempt, as in
    # sentence-transformers; `l2` is added to the gradient.
    decay: Literal["decoupled", "decoupled_matrices", "l2"] = "decoupled"
    # The rate rises from 0 during this fraction of all steps if it is below 1, else during this number of steps.
    warmup: float = 0.0
    # After the warm-up the rate is `constant`, or falls to 0 (`linear`), as `get_linear_schedule_with_warmup` of
    # transformers; `linear_from_one` is one step ahead, so that no step has rate 0; `cosine` falls to 0 as in
    # Loshchilov and Hutter 2017, Equation 5, without restarts.
    schedule: Literal["constant", "linear", "linear_from_one", "cosine"] = "constant"
    clip: float | None = None  # largest norm of all gradients together; None does not clip
    fused: bool = True  # use one kernel for all parameters. It rounds differently from a kernel for each

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0, out of `steps`."""
        warmup = math.ceil(self.warmup * steps) if self.warmup < 1 else self.warmup
        if self.schedule == "linear_from_one":
            warmup = max(warmup, 1)
            return min((step + 1) / warmup, (steps - step) / max(steps - warmup, 1))
        if step < warmup:
            return step / warmup
        if self.schedule == "constant":
            return 1.0
        left = max(0.0, (steps - step) / max(1.0, steps - warmup))
        return left if self.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2
