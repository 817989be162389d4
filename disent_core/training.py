"""Training on frozen embeddings: `fit` yields epochs, the caller decides what to do with them.

All seeds of a configuration train at once, as one stack of parameters, and each stops by itself. What a step
draws depends on seed and epoch alone, so a run that was cut off and goes on from its checkpoint takes the
same steps, to the bit on CPU.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.func import functional_call, vmap

from disent_core.errors import TrainingError
from disent_core.heads.contract import Epoch
from disent_core.heads.data import Batch
from disent_core.heads.sampling import BatchPlan, PairSampler
from disent_core.tables import atomic_path, fingerprint, rows_table

log = logging.getLogger(__name__)

Parameters = dict[str, Tensor]
"""Parameters of all active seeds: one more dimension, in front."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a head is trained. Two runs with equal configs, data and seeds are the same run.

    `monitor` chooses the epoch to keep: the dev `loss`, or `dev_retrieval`, the mean over both directions of
    accuracy@1 of the meaning embedding. `validation` says what dev is: the corpus's own `dev` split, or a
    `train_fraction`, held out of the training pairs by `split_seed`.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    learning_rate: float
    weight_decay: float = 0.0
    batch_size: int = 512
    max_epochs: int = 1000
    patience: int = 15
    monitor: Literal["loss", "dev_retrieval"] = "loss"
    validation: Literal["dev", "train_fraction"] = "dev"
    validation_fraction: float = 0.1
    split_seed: int = 42
    checkpoint_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "batch_size", "max_epochs", "patience"):
            if not getattr(self, name) > 0:  # nan is not either
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay must not be negative, not {self.weight_decay}")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must be between 0 and 1, not {self.validation_fraction}")


class Head(nn.Module):
    """A trainable head: `forward` gives its loss terms on a batch of pairs, `embed` its embeddings of texts.

    Every loss term is a scalar, a mean over the rows, and their sum is minimised. Both are written for one
    seed; `fit` stacks seeds with `torch.vmap`, so neither may draw random numbers or change its state.
    """

    def embed(self, batch: Batch) -> dict[str, Tensor]:
        """One matrix per embedding name, from `vectors` (and `grouped_states`)."""
        raise NotImplementedError


@dataclass
class _State:
    """Everything that a checkpoint holds. Lists have an entry for each seed, stacks one for each active seed."""

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


def fit(
    build: Callable[[], Head],
    sampler: PairSampler,
    config: TrainConfig,
    seeds: Sequence[int],
    *,
    checkpoint: Path,
    device: str,
    run: str,
) -> Iterator[Epoch]:
    """Train one head per seed, all at once, with Adam and early stopping; yields every epoch's terms.

    Epochs that an earlier, cut-off call has done are yielded again from the checkpoint, not computed.

    Args:
        build: makes a head with fresh random parameters.
        sampler: draws batches from the training data.
        config: optimisation and stopping.
        seeds: of initialisation and batches.
        checkpoint: safetensors file that holds the run's state; it outlives the run, `best_parameters` reads it.
        device: `cpu` or `cuda`.
        run: fingerprint of data, method and configuration: a checkpoint of another run is not used.

    Raises:
        TrainingError: if a loss is not finite, or there is nothing to validate on.
    """
    run = fingerprint(run, asdict(replace(config, checkpoint_seconds=0.0)), list(seeds))
    head = build().to(device)
    state = _resume(checkpoint, run, device) or _start(build, seeds, device)
    yield from (replace(_epoch(entry), is_replayed=True) for entry in state.history)
    plan = sampler.plan(config.validation, config.validation_fraction, config.split_seed, device)
    saved = time.monotonic()
    while state.active and state.epoch < config.max_epochs:
        entry = _one_epoch(head, state, plan, config)
        state.history.append(entry)
        finished = not state.active or state.epoch == config.max_epochs
        if finished or time.monotonic() - saved >= config.checkpoint_seconds:
            _save(checkpoint, run, state)
            saved = time.monotonic()
        yield _epoch(entry)


def best_parameters(checkpoint: Path) -> dict[int, Parameters]:
    """Parameters of each seed's best epoch, by seed, on the CPU."""
    with safe_open(checkpoint, framework="pt") as file:
        seeds = json.loads(file.metadata()["state"])["seeds"]
        stacks = {key.removeprefix("best."): file.get_tensor(key) for key in file.keys() if key.startswith("best.")}
    return {seed: {name: stack[i].clone() for name, stack in stacks.items()} for i, seed in enumerate(seeds)}


def curve_table(epochs: Sequence[Epoch], *, method: str, encoder: str, trained_on: str) -> pa.Table:
    """The `training_curve` table: one term of one epoch of one seed a row."""
    rows = [
        {
            "method": method,
            "encoder": encoder,
            "trained_on": trained_on,
            "seed": seed,
            "epoch": epoch.number,
            "split": split,
            "term": term,
            "value": values[index],
            "is_best": epoch.is_best[index],
        }
        for epoch in epochs
        for split, terms in epoch.terms.items()
        for term, values in terms.items()
        for index, seed in enumerate(epoch.seeds)
    ]
    return rows_table(rows, "training_curve")


# --- one epoch --------------------------------------------------------------------------------------------


def _one_epoch(head: Head, state: _State, plan: BatchPlan, config: TrainConfig) -> dict[str, Any]:
    started = time.monotonic()
    seeds = [state.seeds[index] for index in state.active]
    train: list[tuple[int, Mapping[str, Tensor]]] = []
    for rows, batch in plan.training_batches(seeds, state.epoch, config.batch_size):
        train.append((rows, _step(head, state, batch, config)))
    terms = {"train": _means(train)}
    with torch.inference_mode():
        batches = plan.validation_batches(len(seeds), config.batch_size)
        terms["dev"] = _means([(rows, _terms(head, state.parameters, batch)) for rows, batch in batches])
        if config.monitor == "dev_retrieval":
            terms["dev"]["accuracy_at_1"] = _dev_retrieval(head, state.parameters, plan, len(seeds))
    state.epoch += 1
    is_best = _keep_best(state, terms, config)
    return {
        "number": state.epoch,
        "seeds": seeds,
        "terms": terms,
        "is_best": is_best,
        "steps": state.steps,
        "seconds": time.monotonic() - started,
    }


def _terms(head: Head, parameters: Parameters, batch: Batch) -> dict[str, Float[Tensor, " seeds"]]:
    def of_one_seed(own: Parameters, rows: Batch) -> dict[str, Tensor]:
        return functional_call(head, own, (rows,))

    terms = vmap(of_one_seed)(parameters, batch)
    return terms | {"total": torch.stack(list(terms.values())).sum(dim=0)}


def _step(head: Head, state: _State, batch: Batch, config: TrainConfig) -> dict[str, Tensor]:
    names = list(state.parameters)
    leaves = {name: state.parameters[name].requires_grad_() for name in names}
    terms = _terms(head, leaves, batch)
    gradients = torch.autograd.grad(terms["total"].sum(), [leaves[name] for name in names], allow_unused=True)
    state.parameters = {name: leaf.detach() for name, leaf in leaves.items()}
    state.steps += 1
    with torch.no_grad():
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is not None:
                _adam(state, name, gradient, config)
    return {name: value.detach() for name, value in terms.items()}


def _adam(state: _State, name: str, gradient: Tensor, config: TrainConfig) -> None:
    """Adam of Kingma and Ba 2015, with the decoupled weight decay of Loshchilov and Hutter 2019.

    Written out, and in torch's own order of operations, so that the state of a seed can leave the stack and
    a checkpoint is plain tensors.
    """
    beta1, beta2, epsilon = 0.9, 0.999, 1e-8
    parameter, first, second = state.parameters[name], state.first_moment[name], state.second_moment[name]
    if config.weight_decay:
        parameter.mul_(1 - config.learning_rate * config.weight_decay)
    first.lerp_(gradient, 1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    scale = (second.sqrt() / (1 - beta2**state.steps) ** 0.5).add_(epsilon)
    parameter.addcdiv_(first, scale, value=-config.learning_rate / (1 - beta1**state.steps))


def _means(terms: Sequence[tuple[int, Mapping[str, Tensor]]]) -> dict[str, list[float]]:
    """Mean over the rows of an epoch, of each term and seed."""
    total = sum(rows for rows, _ in terms)
    names = terms[0][1] if terms else ()
    means = {
        name: (torch.stack([rows * values[name].double() for rows, values in terms]).sum(dim=0) / total)
        for name in names
    }
    for name, values in means.items():
        if not torch.isfinite(values).all():
            raise TrainingError(
                f"the loss term {name!r} is not finite ({values.tolist()}). "
                "Lower the learning rate, or look for degenerate vectors in the embeddings"
            )
    return {name: values.tolist() for name, values in means.items()}


def _dev_retrieval(head: Head, parameters: Parameters, plan: BatchPlan, seeds: int) -> list[float]:
    accuracies = []
    for index in range(seeds):
        own = {name: stack[index] for name, stack in parameters.items()}
        source, target = (
            torch.cat([_meaning(head, own, batch) for batch in plan.validation_texts(side)])
            for side in ("source", "target")
        )
        accuracies.append((accuracy_at_1(source, target) + accuracy_at_1(target, source)) / 2)
    return accuracies


def _meaning(head: Head, own: Parameters, batch: Batch) -> Tensor:
    embedded = functional_call(_Embedding(head), {f"head.{name}": value for name, value in own.items()}, batch)
    return nn.functional.normalize(embedded["meaning"], dim=-1)


class _Embedding(nn.Module):
    """`functional_call` calls `forward` only: this one's is the head's `embed`."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return self.head.embed(batch)


def accuracy_at_1(queries: Float[Tensor, "n dim"], pool: Float[Tensor, "n dim"]) -> float:
    """Share of the queries whose nearest candidate is the one of their row; rows have unit norm."""
    hits = [
        (block @ pool.T).argmax(dim=1).eq(torch.arange(start, start + len(block), device=pool.device)).sum()
        for start, block in zip(range(0, len(queries), 4096), queries.split(4096), strict=True)
    ]
    return int(sum(hits)) / len(queries)


def _keep_best(state: _State, terms: Mapping[str, Mapping[str, list[float]]], config: TrainConfig) -> list[bool]:
    """Keep what is best so far, and take seeds that have waited long enough out of the stack."""
    dev = terms["dev"]
    scores = dev["accuracy_at_1"] if config.monitor == "dev_retrieval" else [-loss for loss in dev["total"]]
    is_best, stay = [], []
    for row, (seed, score) in enumerate(zip(list(state.active), scores, strict=True)):
        better = score > state.best_score[seed]
        is_best.append(better)
        state.waited[seed] = 0 if better else state.waited[seed] + 1
        if better:
            state.best_score[seed] = score
            for name, stack in state.parameters.items():
                state.best[name][seed] = stack[row]
        if state.waited[seed] < config.patience:
            stay.append(row)
    if len(stay) < len(state.active):
        _select(state, stay)
    return is_best


def _select(state: _State, rows: Sequence[int]) -> None:
    state.active = [state.active[row] for row in rows]
    for stacks in (state.parameters, state.first_moment, state.second_moment):
        for name in stacks:
            stacks[name] = stacks[name][list(rows)].clone()


# --- state ------------------------------------------------------------------------------------------------


def _start(build: Callable[[], Head], seeds: Sequence[int], device: str) -> _State:
    heads = []
    for seed in seeds:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            heads.append(build())
    names = [name for name, _ in heads[0].named_parameters()]
    parameters = {name: torch.stack([head.get_parameter(name).detach() for head in heads]).to(device) for name in names}
    return _State(
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


def _save(checkpoint: Path, run: str, state: _State) -> None:
    tensors = {
        f"{prefix}.{name}": stack.detach().cpu().contiguous()
        for prefix, attribute in _STACKS.items()
        for name, stack in getattr(state, attribute).items()
    }
    plain = json.dumps({name: getattr(state, name) for name in _PLAIN})
    with atomic_path(checkpoint) as beside:
        save_file(tensors, beside, metadata={"run": run, "state": plain})


def _resume(checkpoint: Path, run: str, device: str) -> _State | None:
    if not checkpoint.is_file():
        return None
    stacks: dict[str, Parameters] = {attribute: {} for attribute in _STACKS.values()}
    try:
        with safe_open(checkpoint, framework="pt", device=device) as file:
            metadata = file.metadata() or {}
            if metadata.get("run") != run:
                return None
            for key in file.keys():
                prefix, name = key.split(".", 1)
                stacks[_STACKS[prefix]][name] = file.get_tensor(key)
    except SafetensorError as error:
        log.warning("%s is damaged (%s): training starts anew", checkpoint, error)
        return None
    plain: dict[str, Any] = json.loads(metadata["state"])
    state = _State(**plain, **stacks)  # pyright: ignore[reportArgumentType] - the names of both are _State's
    log.info("resuming after epoch %d, seeds %s still train", state.epoch, state.active)
    return state


def _epoch(entry: Mapping[str, Any]) -> Epoch:
    return Epoch(
        number=entry["number"],
        seeds=tuple(entry["seeds"]),
        terms={
            split: {name: tuple(values) for name, values in terms.items()} for split, terms in entry["terms"].items()
        },
        is_best=tuple(entry["is_best"]),
        steps=entry["steps"],
        seconds=entry["seconds"],
    )
