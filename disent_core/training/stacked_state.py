"""Hold the state of a stacked training run (every seed's parameters and moments) and save it as a checkpoint."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.optim.adam import adam

from disent_core.optimisation.seeds import seeded
from disent_core.storage.weights import read_checkpoint, write_checkpoint

log = logging.getLogger(__name__)

Parameters = dict[str, Tensor]
"""Parameters of all active seeds by name, stacked along the first dimension: [seeds, ...]."""


@dataclass
class TrainingState:
    """Contents of a checkpoint. Lists have one item per seed, stacks one row per active seed.

    `active` has the positions in `seeds` of the seeds still in training, in the order of the stacks' rows.
    """

    seeds: list[int]
    active: list[int]
    parameters: Parameters
    first_moment: Parameters
    second_moment: Parameters
    best: Parameters  # of all seeds, in the order of `seeds`
    best_score: list[float]
    waited: list[int]
    epoch: int = 0
    steps: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)

    def update(self, gradients: Mapping[str, Tensor | None], *, learning_rate: float, weight_decay: float) -> None:
        """Take one step of Adam (Kingma and Ba 2015) with decoupled decay (Loshchilov and Hutter 2019), in place.

        Parameters without a gradient keep their values. `steps` counts the steps before this one.
        """
        names = [name for name, gradient in gradients.items() if gradient is not None]
        # All seeds have taken the same number of steps. The kernel counts steps per tensor.
        steps = torch.full((len(names),), float(self.steps), device=self.parameters[names[0]].device)
        with torch.no_grad():
            adam(
                [self.parameters[name] for name in names],
                # The fused kernel ignores strides and reads memory in order.
                [gradient.contiguous() for gradient in gradients.values() if gradient is not None],
                [self.first_moment[name] for name in names],
                [self.second_moment[name] for name in names],
                [],
                list(steps.unbind()),
                fused=True,
                decoupled_weight_decay=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=learning_rate,
                weight_decay=weight_decay,
                eps=1e-8,
                maximize=False,
            )

    @property
    def is_on_gpu(self) -> bool:
        return any(stack.is_cuda for stack in self.parameters.values())

    def part(self, begin: int, end: int) -> "TrainingState":
        """Return the state of some active seeds; its stacks are views of this state's."""

        def views(stacks: Parameters) -> Parameters:
            return {name: stack[begin:end] for name, stack in stacks.items()}

        return replace(
            self,
            active=self.active[begin:end],
            parameters=views(self.parameters),
            first_moment=views(self.first_moment),
            second_moment=views(self.second_moment),
        )

    def keep(self, scores: Sequence[float], patience: int) -> list[bool]:
        """Keep the best parameters of each seed, and remove seeds after `patience` epochs without a better score.

        `scores` has those of the active seeds; larger is better. Return for each whether it is the seed's best so far.
        """
        is_best, remaining_rows = [], []
        for row, (seed, score) in enumerate(zip(self.active, scores, strict=True)):
            is_better = score > self.best_score[seed]
            is_best.append(is_better)
            self.waited[seed] = 0 if is_better else self.waited[seed] + 1
            if is_better:
                self.best_score[seed] = score
                for name, stack in self.parameters.items():
                    self.best[name][seed] = stack[row]
            if self.waited[seed] < patience:
                remaining_rows.append(row)
        if len(remaining_rows) < len(self.active):
            self.active = [self.active[row] for row in remaining_rows]
            for stacks in (self.parameters, self.first_moment, self.second_moment):
                for name in stacks:
                    stacks[name] = stacks[name][remaining_rows].clone()
        return is_best


def start(
    build: Callable[[], nn.Module],
    seeds: Sequence[int],
    device: str,
    initial: Mapping[int, Parameters] | None = None,
) -> TrainingState:
    """Return a new state with parameters initialised from each seed, or with the `initial` parameters of each seed."""
    modules = []
    for seed in seeds:
        with seeded(seed):
            modules.append(build())
        if initial is not None:
            modules[-1].load_state_dict(initial[seed])
    names = [name for name, _ in modules[0].named_parameters()]
    parameters = {
        name: torch.stack([module.get_parameter(name).detach() for module in modules]).to(device) for name in names
    }
    return TrainingState(
        seeds=list(seeds),
        active=list(range(len(seeds))),
        parameters=parameters,
        first_moment={name: torch.zeros_like(stack) for name, stack in parameters.items()},
        second_moment={name: torch.zeros_like(stack) for name, stack in parameters.items()},
        best={name: stack.clone() for name, stack in parameters.items()},
        best_score=[float("-inf")] * len(seeds),
        waited=[0] * len(seeds),
    )


_STACKS = {"now": "parameters", "first": "first_moment", "second": "second_moment", "best": "best"}
_PLAIN = ("seeds", "active", "best_score", "waited", "epoch", "steps", "history")


def save(checkpoint: Path, run: str, state: TrainingState) -> None:
    """Write the state of a run; `run` is its fingerprint."""
    tensors = {
        f"{prefix}.{name}": stack
        for prefix, attribute in _STACKS.items()
        for name, stack in getattr(state, attribute).items()
    }
    write_checkpoint(checkpoint, run, {name: getattr(state, name) for name in _PLAIN}, tensors)


def resume(checkpoint: Path, run: str, device: str) -> TrainingState | None:
    """Read the state that `save` wrote; None if there is none for this run."""
    saved = read_checkpoint(checkpoint, run, device)
    if saved is None:
        return None
    values, tensors = saved
    stacks: dict[str, Parameters] = {attribute: {} for attribute in _STACKS.values()}
    for key, tensor in tensors.items():
        prefix, name = key.split(".", 1)
        stacks[_STACKS[prefix]][name] = tensor
    state = TrainingState(**values, **stacks)  # pyright: ignore[reportArgumentType] - both have its fields
    training = [state.seeds[index] for index in state.active]
    log.info("resuming after epoch %d; seeds still training: %s", state.epoch, training)
    return state


def best_parameters(checkpoint: Path) -> dict[int, Parameters]:
    """Read the parameters of each seed's best epoch, by seed, on the CPU."""
    with safe_open(checkpoint, framework="pt") as file:
        seeds = json.loads(file.metadata()["state"])["seeds"]
        stacks = {key.removeprefix("best."): file.get_tensor(key) for key in file.keys() if key.startswith("best.")}
    return {seed: {name: stack[i].clone() for name, stack in stacks.items()} for i, seed in enumerate(seeds)}
