"""Train one module at a time: a task defines a step; the loop runs it, validates, stops early and saves checkpoints.

Everything random in a step is drawn from seed, stage and step alone. A run interrupted even in the middle of an epoch
therefore resumes from its checkpoint and ends with the same weights, to the bit on a CPU.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.errors import TrainingError
from disent_core.optimisation.config import OptimiserConfig
from disent_core.optimisation.optimiser import Optimiser
from disent_core.optimisation.seeds import derived_seed, generator, seeded
from disent_core.progress import Progress
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import read_checkpoint, write_checkpoint

log = logging.getLogger(__name__)

SAVE_SHARE = 0.1  # largest share of the time that checkpoints may take: those of a large encoder are gigabytes

Batch = TypeVar("Batch")
Tensors = dict[str, Tensor]
Terms = Mapping[str, Tensor]  # scalar loss terms by name; `total` is minimised
Monitor = Literal["last", "loss", "dev_accuracy"]


@dataclass
class _RunState:
    """Progress of a run: the finished epochs, and `step` steps of the next one.

    `sums` of the loss terms, `examples` and `seconds` cover the current epoch so far. `waited` counts epochs since the
    best one.
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


def _snapshot(task: "TrainingTask[Any]") -> Tensors:
    """Return everything that the next step reads: trained parameters, buffers and the optimisers' moments."""
    tensors = {f"module.{name}": value for name, value in _trained(task).items()}
    for name, optimiser in task.optimisers.items():
        for index, moments in optimiser.adam.state_dict()["state"].items():
            tensors |= {f"{name}.{index}.{kind}": value for kind, value in moments.items()}
    return tensors


@torch.no_grad()
def _restore(task: "TrainingTask[Any]", saved: Mapping[str, Tensor]) -> None:
    """Copy what `_snapshot` returned back into the task."""
    tensors = _trained(task)
    for name, value in _group(saved, "module").items():
        tensors[name].copy_(value)
    for optimiser_name, optimiser in task.optimisers.items():
        moments: dict[int, Tensors] = {}
        for name, value in _group(saved, optimiser_name).items():
            index, kind = name.split(".", 1)
            moments.setdefault(int(index), {})[kind] = value
        optimiser.adam.load_state_dict({"state": moments, "param_groups": optimiser.adam.state_dict()["param_groups"]})


def _trained(module: nn.Module) -> Tensors:
    """Return trained parameters and buffers, by name."""
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    return trained | dict(module.named_buffers())


def _group(tensors: Mapping[str, Tensor], group: str) -> Tensors:
    prefix = f"{group}."
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


class TrainingTask(nn.Module, Generic[Batch]):
    """A module and how to train it. It holds everything that a step changes: parameters, buffers and optimiser moments.

    A subclass sets `optimisers`, of which `main` minimises the loss, and overrides `batches` and `loss`, and `validate`
    if there is dev data.
    """

    optimisers: dict[str, Optimiser]

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Return the batches of an epoch, counted from 0: as many in every epoch, and the same at every call."""
        raise NotImplementedError

    def loss(self, batch: Batch) -> tuple[Terms, int]:
        """Return the means of the loss terms, including `total`, and the number of examples that they average."""
        raise NotImplementedError

    def step(self, batch: Batch) -> tuple[Terms, int]:
        """Take a step and return what `loss` returns."""
        terms, examples = self.loss(batch)
        self.optimisers["main"].minimise(terms["total"])
        return terms, examples

    def validate(self) -> Mapping[str, float]:
        """Return loss terms on dev, with `total` and `accuracy_at_1`; empty without dev data."""
        return {}

    def kept(self) -> Tensors:
        """Return the tensors to keep from the best epoch: trained parameters and buffers, by name."""
        return _trained(self)


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    stage: str = ""  # name in messages and random numbers, for training in several stages
    identity: str  # fingerprint of data, settings and everything that was trained before
    seed: int  # random seed of batches and dropout
    epochs: int = 1  # passes over the data
    max_steps: int | None = None  # training steps, in place of `epochs`
    # The epoch to keep: the `last`, the one with the lowest dev `loss`, or with the highest `dev_accuracy`.
    monitor: Monitor = "last"
    patience: int = 1  # epochs without improvement after which training stops, unless `monitor` is `last`
    checkpoint: Path  # file of the state
    checkpoint_seconds: float = 30.0  # seconds between two checkpoints

    @property
    def title(self) -> str:
        return ", ".join(part for part in (self.stage, f"seed {self.seed}") if part)


@dataclass(frozen=True)
class EpochReport:
    """One pass over the data: means of the loss terms by split (`train`, `dev`), and the run's steps by its end.

    `is_best`: there is dev data, and its score is the best so far. `is_replayed`: an earlier call computed the epoch.
    """

    stage: str
    number: int
    steps: int
    terms: Mapping[str, Mapping[str, float]]
    is_best: bool
    seconds: float
    is_replayed: bool = field(default=False, compare=False)


def train(task: TrainingTask, run: TrainingRun) -> Iterator[EpochReport]:
    """Train a task in place; after the last epoch it holds the weights of the epoch that `monitor` selects.

    Epochs that an earlier call has computed are reported again from the checkpoint. The checkpoint of a finished run
    stays: the next call with the same run loads its weights and computes nothing.
    """
    loop = _Loop(task, run)
    yield from (EpochReport(**report, is_replayed=True) for report in loop.state.history)
    while not loop.state.is_finished:
        yield loop.epoch()


class _Loop:
    """One call of `train`: the task, the state of the run, and the time of the last checkpoint."""

    def __init__(self, task: TrainingTask, run: TrainingRun) -> None:
        self.task, self.run = task, run
        self.per_epoch = len(task.batches(0))
        if not self.per_epoch:
            raise TrainingError(f"{run.title}: there is nothing to train on. Add examples")
        self.total = run.max_steps or run.epochs * self.per_epoch
        settings = {**asdict(run), "checkpoint": "", "checkpoint_seconds": 0.0}
        optimisers = {name: asdict(optimiser.config) for name, optimiser in task.optimisers.items()}
        self.identity = fingerprint(settings, optimisers, self.per_epoch)
        self.state, self.best = _RunState(), Tensors()
        if (saved := read_checkpoint(run.checkpoint, self.identity)) is not None:
            values, tensors = saved
            self.state, self.best = _RunState(**values), _group(tensors, "best")
            _restore(task, _group(tensors, "now"))
            if self.state.is_finished:
                self._restore_best()
            log.info("%s: resuming after step %d of %d", run.title, self.state.steps, self.total)
        self.progress: Progress | None = None
        self.saved, self.pause = time.monotonic(), run.checkpoint_seconds

    def epoch(self) -> EpochReport:
        """Take the remaining steps of an epoch, and validate."""
        state, task = self.state, self.task
        batches = task.batches(len(state.history))
        end = min(self.per_epoch, self.total - state.steps + state.step)
        task.train()
        mark = time.monotonic()
        for batch in batches[state.step : end]:
            self._step(batch)
            now = time.monotonic()
            state.seconds, mark = state.seconds + now - mark, now
            if state.step < end and now - self.saved >= self.pause:
                self._save()
        dev = dict(task.validate())
        state.seconds += time.monotonic() - mark
        report = self._close_epoch(dev)
        if state.is_finished or time.monotonic() - self.saved >= self.pause:
            self._save()
        return report

    def _step(self, batch: object) -> None:
        state, task = self.state, self.task
        for optimiser in task.optimisers.values():
            optimiser.set_rate(state.steps, self.total)
        with seeded(derived_seed(self.run.seed, self.run.stage, "step", state.steps)):
            terms, examples = task.step(batch)
        for name, value in terms.items():  # sums stay on the device: reading a value would wait for the step
            state.sums[name] = state.sums.get(name, 0.0) + value.detach().double() * examples
        state.step, state.steps, state.examples = state.step + 1, state.steps + 1, state.examples + examples
        if self.progress is None:  # the first step is slower than the others, so the rate is measured without it
            self.progress = Progress(log, self.total, f"steps of {self.run.title}", first=state.steps)
        self.progress.advance(state.steps, lambda: f"loss {float(state.sums['total']) / max(state.examples, 1):.4g}")

    def _close_epoch(self, dev: Mapping[str, float]) -> EpochReport:
        state, run = self.state, self.run
        train = {name: float(value) / max(state.examples, 1) for name, value in state.sums.items()}
        for name, value in (train | {f"dev {name}": value for name, value in dev.items()}).items():
            if not math.isfinite(value):
                remedy = "Lower the learning rate, or look for degenerate vectors in the embeddings"
                step = f"{run.title}, step {state.steps}"
                raise TrainingError(f"{step}: the loss term {name!r} is not finite ({value}). {remedy}")
        number = len(state.history) + 1
        # Larger is better, whatever is monitored; `last` makes every epoch the best so far.
        scores = {"last": float(number), "loss": -dev.get("total", 0.0), "dev_accuracy": dev.get("accuracy_at_1", 0.0)}
        score = scores[run.monitor]
        is_better = score > state.best_score
        state.waited = 0 if is_better else state.waited + 1
        if is_better:
            state.best_score = score
            if run.monitor != "last":
                self.best = {name: value.detach().cpu().clone() for name, value in self.task.kept().items()}
        terms = {"train": train, "dev": dict(dev)} if dev else {"train": train}
        report = EpochReport(run.stage, number, state.steps, terms, bool(dev) and is_better, state.seconds)
        state.history.append({key: value for key, value in vars(report).items() if key != "is_replayed"})
        state.step, state.examples, state.seconds, state.sums = 0, 0, 0.0, {}
        state.is_finished = state.steps == self.total or state.waited >= run.patience
        if state.is_finished and run.monitor != "last":
            self._restore_best()
        return report

    @torch.no_grad()
    def _restore_best(self) -> None:
        for name, tensor in self.task.kept().items():
            tensor.copy_(self.best[name])

    def _save(self) -> None:
        """Write the state: the best weights and, unless the run is finished, everything that the next step reads."""
        began, is_finished = time.monotonic(), self.state.is_finished
        groups = {"best": self.task.kept() if is_finished else self.best}
        if not is_finished:
            groups["now"] = _snapshot(self.task)
        self.state.sums = {name: float(value) for name, value in self.state.sums.items()}
        tensors = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
        write_checkpoint(self.run.checkpoint, self.identity, asdict(self.state), tensors)
        self.saved = time.monotonic()
        self.pause = max(self.run.checkpoint_seconds, (self.saved - began) / SAVE_SHARE)


class ExamplesTask(TrainingTask[Tensor]):
    """A task that trains all weights of a network, which `loss_of_rows` calls, on shuffled batches of `examples` rows.

    The loss has a value per pair, span or word, whichever it compares. The mean of a batch's values is minimised, or
    their sum (`is_summed`).
    """

    def __init__(
        self,
        network: nn.Module,
        loss_of_rows: Callable[[Int[Tensor, " rows"]], Float[Tensor, " values"]],
        examples: int,
        optimiser: OptimiserConfig,
        *,
        batch_size: int,
        run: TrainingRun,
        is_summed: bool = False,
    ) -> None:
        super().__init__()
        self.network, self.loss_of_rows, self.examples = network, loss_of_rows, examples
        self.batch_size, self.run, self.is_summed = batch_size, run, is_summed
        self.optimisers = {"main": Optimiser(network.parameters(), optimiser)}

    def batches(self, epoch: int) -> Sequence[Tensor]:
        random = generator(self.run.seed, self.run.stage, "epoch", epoch)
        return torch.randperm(self.examples, generator=random).split(self.batch_size) if self.examples else ()

    def loss(self, batch: Tensor) -> tuple[Terms, int]:
        values = self.loss_of_rows(batch)
        return {"total": values.sum() / max(len(values), 1)}, len(values)

    def step(self, batch: Tensor) -> tuple[Terms, int]:
        terms, count = self.loss(batch)
        self.optimisers["main"].minimise(terms["total"] * count if self.is_summed else terms["total"])
        return terms, count
