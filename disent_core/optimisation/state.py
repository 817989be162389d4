"""Save and restore everything that an interrupted training loop needs: its progress, and what its next step reads."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from disent_core.optimisation.optimiser import Optimiser
from disent_core.storage.checkpoints import read_checkpoint, write_checkpoint

Tensors = dict[str, Tensor]


@dataclass
class RunState:
    """Progress of a run: the epochs that are done, and `step` steps of the next one.

    `sums` of the loss terms, `examples` and `seconds` cover the current epoch so far. `waited` counts the epochs since
    the best one.
    """

    steps: int = 0
    step: int = 0
    examples: int = 0
    seconds: float = 0.0
    sums: dict[str, float | Tensor] = field(default_factory=dict)
    best_score: float = -math.inf
    waited: int = 0
    is_finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


def snapshot(module: nn.Module, optimisers: Mapping[str, Optimiser]) -> Tensors:
    """Return everything that the next step reads: trained parameters, buffers and the optimisers' moments."""
    tensors = {f"module.{name}": value for name, value in module.named_parameters() if value.requires_grad}
    tensors |= {f"module.{name}": value for name, value in module.named_buffers()}
    for name, optimiser in optimisers.items():
        for index, moments in optimiser.adam.state_dict()["state"].items():
            tensors |= {f"{name}.{index}.{kind}": value for kind, value in moments.items()}
    return tensors


@torch.no_grad()
def restore(module: nn.Module, optimisers: Mapping[str, Optimiser], saved: Mapping[str, Tensor]) -> None:
    """Copy what `snapshot` returned back into the module and the optimisers."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    for key in (key for key in saved if key.startswith("module.")):
        tensors[key.removeprefix("module.")].copy_(saved[key])
    for name, optimiser in optimisers.items():
        moments: dict[int, Tensors] = {}
        for key in (key for key in saved if key.startswith(f"{name}.")):
            _, index, kind = key.split(".", 2)
            moments.setdefault(int(index), {})[kind] = saved[key]
        optimiser.adam.load_state_dict({"state": moments, "param_groups": optimiser.adam.state_dict()["param_groups"]})


def save(checkpoint: Path, identity: str, state: RunState, now: Tensors, best: Tensors) -> None:
    """Write the progress, what the next step reads, and the best weights so far."""
    tensors = {f"now.{name}": value for name, value in now.items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    write_checkpoint(checkpoint, identity, asdict(state), tensors)


def resume(checkpoint: Path, identity: str) -> tuple[RunState, Tensors, Tensors] | None:
    """Read what `save` wrote; None if there is no checkpoint of this run, or it is damaged."""
    saved = read_checkpoint(checkpoint, identity)
    if saved is None:
        return None
    groups: dict[str, Tensors] = {"now": {}, "best": {}}
    for key, tensor in saved[1].items():
        group, name = key.split(".", 1)
        groups[group][name] = tensor
    return RunState(**saved[0]), groups["now"], groups["best"]
