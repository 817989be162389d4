"""The training loop of everything in this package: Adam over rows of examples, resumable to the bit on CPU.

A loop of its own and not sentence-transformers' trainer: that one's checkpoints are pickled, and it goes on
from them with other batches and dropout. Here everything random in a step (its rows, its dropout) is drawn
from seed and step alone, so that a run that was cut off takes the same steps as one that was not.
"""

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from disent_core.errors import TrainingError
from disent_core.progress import Progress
from disent_core.storage.checkpoints import read_checkpoint, write_checkpoint
from disent_core.storage.tables import fingerprint

log = logging.getLogger(__name__)

_SAVE_SHARE = 0.1
"""Checkpoints take at most this share of the time: those of a large encoder are gigabytes."""

Loss = Callable[[Int[Tensor, " rows"]], Float[Tensor, " values"]]
"""The loss of these rows of the examples, one value for each thing that it is about: a pair, an item, a word."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How something is trained.

    `warmup` is a fraction of all steps where it is below 1, else a number of steps: the learning rate rises
    from 0 during them, and falls to 0 during the rest where `falls`; as `get_linear_schedule_with_warmup` of
    transformers. `weight_decay` is AdamW's where `decoupled` (then biases and norms are exempt, as in
    sentence-transformers), else L2 on the gradient. `clip` bounds the norm of all gradients together. A step
    minimises the sum of its losses where `summed`, else their mean.
    """

    epochs: int
    learning_rate: float
    batch_size: int = 32
    weight_decay: float = 0.0
    decoupled: bool = True
    warmup: float = 0.0
    falls: bool = False
    clip: float | None = None
    summed: bool = False

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by at a step, counted from 0, of so many."""
        warmup = math.ceil(self.warmup * steps) if self.warmup < 1 else self.warmup
        if step < warmup:
            return step / warmup
        return max(0.0, (steps - step) / max(1.0, steps - warmup)) if self.falls else 1.0


@dataclass(frozen=True)
class Pass:
    """One pass over the examples of a stage: its mean loss, and the stage's steps so far."""

    stage: str
    number: int
    loss: float
    steps: int
    seconds: float
    is_replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Run:
    """Whose training it is: `identity` stands for data, settings and everything that was trained before."""

    stage: str
    identity: str
    seed: int
    checkpoint: Path
    checkpoint_seconds: float = 30.0


def optimise(module: nn.Module, loss: Loss, examples: int, recipe: Recipe, run: Run) -> Iterator[Pass]:
    """Train the module in place; yields every pass, those that the checkpoint has done as well.

    The finished checkpoint stays, without the moments: the next call with an equal run loads its weights and
    computes nothing.

    Args:
        module: what is trained: all of its parameters that need a gradient.
        loss: of rows of the examples; calls the module.
        examples: how many there are.
        recipe: optimisation.
        run: seed, checkpoint and identity; a checkpoint of another identity is not used.

    Raises:
        TrainingError: if the loss is not finite, or there is no example.
    """
    if not examples:
        raise TrainingError(f"{run.stage}: there is nothing to train on. Add examples")
    run = replace(run, identity=fingerprint(run.identity, run.stage, run.seed, examples, asdict(recipe)))
    state = _State(module, recipe, examples)
    state.resume(run)
    yield from [Pass(*entry, is_replayed=True) for entry in state.history]
    progress: Progress | None = None
    started = saved = time.monotonic()
    pause = run.checkpoint_seconds
    while state.steps < state.total:
        state.step(loss, run.seed)
        if progress is None:  # after the first step, which prepares what all read: it says nothing of their rate
            progress = Progress(log, state.total, "steps", what=f"{run.stage}, seed {run.seed}", first=state.steps)
        now = time.monotonic()
        if ended := state.steps % state.per_epoch == 0:
            state.close_epoch(run.stage, now - started)
            started = now
        if state.steps == state.total or now - saved >= pause:
            state.save(run)
            saved = time.monotonic()
            pause = max(run.checkpoint_seconds, (saved - now) / _SAVE_SHARE)
        progress.advance(state.steps)
        if ended:
            yield Pass(*state.history[-1])


class _State:
    """Everything that a checkpoint holds: weights and moments in the module and its optimiser, and the tally."""

    def __init__(self, module: nn.Module, recipe: Recipe, examples: int) -> None:
        self.module, self.recipe, self.examples = module, recipe, examples
        self.names = {name: value for name, value in module.named_parameters() if value.requires_grad}
        self.device = next(iter(self.names.values())).device
        self.optimiser = _adam(list(self.names.values()), recipe)
        self.per_epoch = math.ceil(examples / recipe.batch_size)
        self.total = self.per_epoch * recipe.epochs
        self.steps = 0
        self.tally = torch.zeros(2, dtype=torch.float64, device=self.device)  # sum of the epoch's losses, and how many
        self.history: list[tuple[str, int, float, int, float]] = []

    def step(self, loss: Loss, seed: int) -> None:
        epoch, place = divmod(self.steps, self.per_epoch)
        order = torch.randperm(self.examples, generator=generator(seed, "epoch", epoch))
        rows = order[place * self.recipe.batch_size :][: self.recipe.batch_size]
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(derived_seed(seed, "step", self.steps))
            values = loss(rows)
            self.optimiser.zero_grad(set_to_none=True)
            (values.sum() if self.recipe.summed else values.mean()).backward()
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(list(self.names.values()), self.recipe.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.learning_rate * self.recipe.factor(self.steps, self.total)
        self.optimiser.step()
        self.steps += 1
        own = values.detach().double()
        self.tally += torch.stack([own.sum(), own.new_tensor(len(own))])

    def close_epoch(self, stage: str, seconds: float) -> None:
        total, count = self.tally.tolist()
        if not math.isfinite(total):
            remedy = "Lower the learning rate, or look for degenerate vectors"
            raise TrainingError(f"the loss of {stage} is not finite at step {self.steps}. {remedy}")
        self.history.append((stage, len(self.history) + 1, total / max(count, 1.0), self.steps, seconds))
        self.tally.zero_()

    def save(self, run: Run) -> None:
        tensors = {f"now.{name}": value for name, value in self.module.state_dict().items()}
        if self.steps < self.total:
            for name, value in self.names.items():
                moments = self.optimiser.state.get(value, {})
                tensors |= {f"{key}.{name}": moment for key, moment in moments.items() if key != "step"}
        plain = {"steps": self.steps, "tally": self.tally.tolist(), "history": self.history}
        write_checkpoint(run.checkpoint, run.identity, plain, tensors)

    def resume(self, run: Run) -> None:
        found = read_checkpoint(run.checkpoint, run.identity, str(self.device))
        if found is None:
            return
        plain, tensors = found
        self._restore(tensors, plain)
        log.info("%s, seed %d: resuming after step %d of %d", run.stage, run.seed, self.steps, self.total)

    def _restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        parts: dict[str, dict[str, Tensor]] = {"now": {}, "exp_avg": {}, "exp_avg_sq": {}}
        for key, value in tensors.items():
            kind, name = key.split(".", 1)
            parts[kind][name] = value
        self.module.load_state_dict(parts.pop("now"))
        self.steps = plain["steps"]
        self.tally.copy_(torch.tensor(plain["tally"], dtype=torch.float64))
        self.history = [tuple(entry) for entry in plain["history"]]
        for name in parts["exp_avg"]:
            moments = {kind: of[name] for kind, of in parts.items()}
            self.optimiser.state[self.names[name]] = {"step": torch.tensor(float(self.steps)), **moments}


def _adam(parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Adam:
    exempt = [one for one in parameters if recipe.decoupled and one.ndim < 2]
    decayed = [one for one in parameters if not (recipe.decoupled and one.ndim < 2)]
    return torch.optim.Adam(
        [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": exempt, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        fused=True,
        decoupled_weight_decay=recipe.decoupled,
    )


def generator(seed: int, *what: object) -> torch.Generator:
    """A generator of its own for each purpose: draws of one do not shift those of another."""
    return torch.Generator().manual_seed(derived_seed(seed, *what))


def derived_seed(seed: int, *what: object) -> int:
    """A seed for each purpose."""
    return int.from_bytes(hashlib.sha256(json.dumps([seed, *what]).encode()).digest()[:7])
