"""Training step by step, one seed after another: for what is too large, or too irregular, for a stack of seeds.

`fit` yields epochs, as `disent_core.training.stacked.fit` does. Everything random in a step (its rows, its dropout) is
drawn from seed, epoch and step alone, so a run that was cut off in the middle of an epoch and goes on from its
checkpoint takes the same steps, to the bit on CPU.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from torch import Tensor, nn

from disent_core.encoders.fine_tunable_map import Source
from disent_core.errors import TrainingError
from disent_core.matmul import Precision
from disent_core.settings import Settings
from disent_core.storage.tables import fingerprint
from disent_core.training.data import Batch
from disent_core.training.epoch import Epoch
from disent_core.training.stepwise_state import Tensors, TuningState, everything, randomness, restore, resume, save

log = logging.getLogger(__name__)

_LOG_SECONDS = 5.0
_SAVE_SHARE = 0.1
"""Checkpoints take at most this share of the time: those of a large encoder are gigabytes."""


@dataclass(frozen=True, kw_only=True)
class TuningConfig(Settings):
    """How something is tuned. Two runs with equal configs, data and seeds are the same run.

    Attributes:
        learning_rate: of Adam, constant.
        weight_decay: decoupled (AdamW).
        batch_size: examples a step.
        epochs: passes over the training data.
        monitor: the epoch that is kept: the `last`, that of the lowest dev `loss`, or of the highest
            `dev_accuracy` of the nearest neighbour.
        patience: epochs without a better one that end a seed's training, unless `monitor` is `last`.
        precision: of an encoder's arithmetic; `bfloat16` is autocast, weights stay float32.
        train_embeddings: whether an encoder's token embeddings are tuned too.
        checkpoint_seconds: between checkpoints, which may come in the middle of an epoch.
    """

    learning_rate: float
    weight_decay: float = 0.0
    batch_size: int
    epochs: int
    monitor: Literal["last", "loss", "dev_accuracy"] = "last"
    patience: int = 2
    precision: Precision = "float32"
    train_embeddings: bool = True
    checkpoint_seconds: float = 30.0

    def __post_init__(self) -> None:
        self.check_positive("learning_rate", "batch_size", "epochs", "patience")
        self.check_not_negative("weight_decay")


class Trainee(nn.Module):
    """What one seed trains: `source` is kept, everything else (classifiers, discriminators) only helps.

    `optimisers` are by name. Modules hold everything that a step changes, as parameters or buffers.
    """

    source: Source
    optimisers: dict[str, torch.optim.Optimizer]

    def batches(self, epoch: int) -> Sequence[Batch]:
        """The steps of an epoch; the same at every call. `rows` has an entry for each example."""
        raise NotImplementedError

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """Take a step; returns the mean of each loss term over the examples, `total` among them."""
        raise NotImplementedError

    def validate(self) -> Mapping[str, float]:
        """Terms on dev: `total` and `accuracy_at_1` among them."""
        raise NotImplementedError

    def kept(self) -> dict[str, Tensor]:
        """The parameters that are tuned and that embedding texts needs."""
        return {name: value for name, value in self.source.named_parameters() if value.requires_grad}


def adam(parameters: Sequence[nn.Parameter], learning_rate: float, weight_decay: float = 0.0) -> torch.optim.AdamW:
    """Adam, or AdamW where weights decay; one kernel for all parameters."""
    own = [parameter for parameter in parameters if parameter.requires_grad]
    return torch.optim.AdamW(own, lr=learning_rate, weight_decay=weight_decay, fused=True)


def fit(
    build: Callable[[int], Trainee],
    config: TuningConfig,
    seeds: Sequence[int],
    *,
    checkpoint: Path,
    run: str,
) -> Iterator[Epoch]:
    """Train one seed after another; yields every epoch of every seed, `steps` counting through all seeds.

    Epochs that an earlier, cut-off call has done are yielded again from the checkpoint, not computed.

    Args:
        build: makes what a seed trains; the seed's random numbers are set.
        config: optimisation and stopping.
        seeds: of initialisation, batches and dropout.
        checkpoint: safetensors file that holds the run's state; it outlives the run, `best_of` reads it.
        run: fingerprint of data, method and encoder: a checkpoint of another run is not used.

    Raises:
        TrainingError: if a loss is not finite.
    """
    run = fingerprint(run, asdict(replace(config, checkpoint_seconds=0.0)), list(seeds))
    state, now, best = resume(checkpoint, run) or (TuningState(), {}, {})
    yield from (replace(_epoch(entry), is_replayed=True) for entry in state.history)
    session = _Session(state, best, config, seeds, checkpoint, run)
    while state.turn < len(seeds):
        with randomness(seeds[state.turn], "start"):
            trainee = build(seeds[state.turn])
        restore(trainee, trainee.optimisers, now)
        now = {}
        for entry in session.train(trainee, seeds[state.turn]):
            yield _epoch(entry)


def best_of(checkpoint: Path) -> Tensors:
    """What every seed of a finished run keeps: `SEED.NAME` to tensor, on the CPU."""
    with safe_open(checkpoint, framework="pt") as file:
        return {key.removeprefix("best."): file.get_tensor(key) for key in file.keys() if key.startswith("best.")}


class _Session:
    """One call of `fit`: what it has done so far, when it saved and when it told of it."""

    def __init__(
        self, state: TuningState, best: Tensors, config: TuningConfig, seeds: Sequence[int], checkpoint: Path, run: str
    ) -> None:
        self.state, self.best, self.config, self.seeds = state, best, config, seeds
        self.checkpoint, self.run = checkpoint, run
        self.saved = self.logged = self.started = time.monotonic()
        self.first, self.pause = state.steps, config.checkpoint_seconds

    def train(self, trainee: Trainee, seed: int) -> Iterator[dict[str, Any]]:
        """Train a seed to its end."""
        state = self.state
        turn = state.turn
        while state.turn == turn:
            batches = trainee.batches(state.epoch)
            trainee.train()
            mark = time.monotonic()
            for batch in batches[state.step :]:
                with randomness(seed, state.epoch, state.step):
                    self._add(trainee.step(batch), len(batch["rows"]))
                now = time.monotonic()
                state.seconds, mark = state.seconds + now - mark, now
                self._tell(seed, len(batches))
                if now - self.saved >= self.pause:
                    self._save(trainee)
            dev = trainee.validate()
            state.seconds += time.monotonic() - mark
            entry = self._close_epoch(trainee, seed, dev)
            if state.turn == len(self.seeds) or time.monotonic() - self.saved >= self.pause:
                self._save(trainee if state.turn == turn else None)
            yield entry

    def _add(self, terms: Mapping[str, Tensor], examples: int) -> None:
        state = self.state
        values = torch.stack([value.detach().double() for value in terms.values()]).tolist()
        for name, value in zip(terms, values, strict=True):
            state.sums[name] = state.sums.get(name, 0.0) + value * examples
        state.step, state.steps, state.examples = state.step + 1, state.steps + 1, state.examples + examples

    def _close_epoch(self, trainee: Trainee, seed: int, dev: Mapping[str, float]) -> dict[str, Any]:
        state, config = self.state, self.config
        train = {name: value / state.examples for name, value in state.sums.items()}
        _check_finite(train | {f"dev {name}": value for name, value in dev.items()})
        state.epoch += 1
        score = {"last": float(state.epoch), "loss": -dev["total"], "dev_accuracy": dev["accuracy_at_1"]}[
            config.monitor
        ]
        better = score > state.best_score
        state.waited = 0 if better else state.waited + 1
        if better:
            state.best_score = score
            self.best |= {f"{seed}.{name}": value.detach().cpu().clone() for name, value in trainee.kept().items()}
        terms = {"train": train, "dev": dict(dev)}
        own = {"number": state.epoch, "seed": seed, "is_best": better, "steps": state.steps, "seconds": state.seconds}
        state.history.append({**own, "terms": terms})
        state.step, state.examples, state.seconds, state.sums = 0, 0, 0.0, {}
        if state.epoch == config.epochs or state.waited >= config.patience:
            state.turn, state.epoch, state.waited, state.best_score = state.turn + 1, 0, 0, -math.inf
        return state.history[-1]

    def _tell(self, seed: int, steps_an_epoch: int) -> None:
        state, now = self.state, time.monotonic()
        if now - self.logged < _LOG_SECONDS:
            return
        self.logged, rate = now, (state.steps - self.first) / (now - self.started)
        seeds_left = len(self.seeds) - state.turn
        left = (seeds_left * self.config.epochs - state.epoch) * steps_an_epoch - state.step
        log.info(
            "seed %d, epoch %d of %d, step %d of %d, loss %.4f: %.1f steps a second, %.0f s left",
            seed, state.epoch + 1, self.config.epochs, state.step, steps_an_epoch,
            state.sums["total"] / state.examples, rate, left / rate,
        )  # fmt: skip

    def _save(self, trainee: Trainee | None) -> None:
        """Write state, best weights and, in the middle of a seed, everything that its next step reads."""
        began = time.monotonic()
        now = {} if trainee is None else everything(trainee, trainee.optimisers)
        save(self.checkpoint, self.run, self.state, now, self.best)
        self.saved = time.monotonic()
        self.pause = max(self.config.checkpoint_seconds, (self.saved - began) / _SAVE_SHARE)


def _check_finite(terms: Mapping[str, float]) -> None:
    for name, value in terms.items():
        if not math.isfinite(value):
            remedy = "Lower the learning rate, or look for degenerate vectors in the embeddings"
            raise TrainingError(f"the loss term {name!r} is not finite ({value}). {remedy}")


def _epoch(entry: Mapping[str, Any]) -> Epoch:
    terms = {split: {name: (value,) for name, value in own.items()} for split, own in entry["terms"].items()}
    return Epoch(
        number=entry["number"],
        seeds=(entry["seed"],),
        terms=terms,
        is_best=(entry["is_best"],),
        steps=entry["steps"],
        seconds=entry["seconds"],
    )
