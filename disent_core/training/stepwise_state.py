"""Where a tuning run is, on disk: its state between two steps, and the random numbers of each step."""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from disent_core.storage.checkpoints import read_checkpoint, write_checkpoint
from disent_core.storage.tables import fingerprint

log = logging.getLogger(__name__)

Tensors = dict[str, Tensor]
Optimisers = Mapping[str, torch.optim.Optimizer]


@dataclass
class TuningState:
    """Where a run is: `turn` seeds and `epoch` epochs of the next are done, and `step` steps of that epoch."""

    turn: int = 0
    epoch: int = 0
    step: int = 0
    steps: int = 0  # of all seeds
    examples: int = 0  # of the epoch so far, as are these
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    best_score: float = -math.inf
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


# --- checkpoints ------------------------------------------------------------------------------------------


def everything(module: nn.Module, optimisers: Optimisers) -> Tensors:
    """All that the next step reads: trained parameters, buffers and the optimisers' moments."""
    found = {f"module.{name}": value for name, value in module.named_parameters() if value.requires_grad}
    found |= {f"module.{name}": value for name, value in module.named_buffers()}
    for name, optimiser in optimisers.items():
        for index, moments in optimiser.state_dict()["state"].items():
            found |= {f"{name}.{index}.{key}": value for key, value in moments.items()}
    return found


@torch.no_grad()
def restore(module: nn.Module, optimisers: Optimisers, saved: Tensors) -> None:
    """Put what `everything` found back in its place; nothing where nothing was saved."""
    if not saved:
        return
    places = dict(module.named_parameters()) | dict(module.named_buffers())
    for key in (key for key in saved if key.startswith("module.")):
        places[key.removeprefix("module.")].copy_(saved[key])
    for name, optimiser in optimisers.items():
        moments: dict[int, Tensors] = {}
        for key in (key for key in saved if key.startswith(f"{name}.")):
            _, index, kind = key.split(".", 2)
            moments.setdefault(int(index), {})[kind] = saved[key]
        optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})


def save(checkpoint: Path, run: str, state: TuningState, now: Tensors, best: Tensors) -> None:
    """Write a run's state, what its next step reads, and what every seed keeps so far."""
    tensors = {f"best.{name}": value for name, value in best.items()}
    tensors |= {f"now.{name}": value for name, value in now.items()}
    write_checkpoint(checkpoint, run, asdict(state), tensors)


def resume(checkpoint: Path, run: str) -> tuple[TuningState, Tensors, Tensors] | None:
    """What `save` wrote; None where there is nothing of this run, or it is damaged."""
    found = read_checkpoint(checkpoint, run)
    if found is None:
        return None
    parts: dict[str, Tensors] = {"now": {}, "best": {}}
    for key, tensor in found[1].items():
        part, name = key.split(".", 1)
        parts[part][name] = tensor
    state = TuningState(**found[0])
    log.info("resuming after %d steps: %d seeds are done", state.steps, state.turn)
    return state, parts["now"], parts["best"]


# --- random numbers ---------------------------------------------------------------------------------------


@contextmanager
def randomness(seed: int, *what: object) -> Iterator[None]:
    """Random numbers that depend on seed and purpose alone; those of the caller are left as they were."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(derived_seed(seed, *what))
        yield


def derived_seed(seed: int, *what: object) -> int:
    """A seed for each purpose: draws of one do not shift those of another."""
    return int(fingerprint(seed, *what)[:15], 16)


def generator(seed: int, *what: object) -> torch.Generator:
    """A generator of that seed, on the CPU."""
    return torch.Generator().manual_seed(derived_seed(seed, *what))
