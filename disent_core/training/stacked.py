"""Train heads on frozen embeddings, all seeds at once; `fit` yields one epoch at a time.

The seeds of a configuration train as one stack of parameters, and each seed stops early on its own. The random draws of
a step depend only on seed and epoch, so an interrupted run resumes from its checkpoint with the same steps, to the bit
on a CPU.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim.adam import adam

from disent_core.errors import TrainingError, commas
from disent_core.matmul import set_precision
from disent_core.optimisation.seeds import seeded
from disent_core.storage.tables import fingerprint
from disent_core.storage.weights import read_checkpoint, write_checkpoint
from disent_core.training.config import TrainConfig
from disent_core.training.data import Batch
from disent_core.training.epoch import Epoch, Fit
from disent_core.training.needs import SIDES
from disent_core.training.sampling import BatchPlan, PairSampler

log = logging.getLogger(__name__)

ADVERSARIAL = "adversarial"
"""Loss term by which a head hides the language from its adversary; it also changes as the adversary trains."""

Parameters = dict[str, Tensor]
"""Parameters of all active seeds by name, stacked along the first dimension: [seeds, ...]."""

_CACHED = 1_000_000
"""Values of a batch (4 MB of float32) that a step on the CPU processes at once; more would not fit in the cache."""


# --- state ------------------------------------------------------------------------------------------------


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

    def part(self, begin: int, end: int) -> "TrainingState":
        """Return the state of some active seeds; its stacks are views of this state's."""
        stacks = {of: {name: stack[begin:end] for name, stack in getattr(self, of).items()} for of in _OF_ACTIVE}
        return replace(self, active=self.active[begin:end], **stacks)

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
            for of in _OF_ACTIVE:
                stacks = {name: stack[remaining_rows].clone() for name, stack in getattr(self, of).items()}
                setattr(self, of, stacks)
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
_OF_ACTIVE = ("parameters", "first_moment", "second_moment")
_PLAIN = ("seeds", "active", "best_score", "waited", "epoch", "steps", "history")


def _save(checkpoint: Path, run: str, state: TrainingState) -> None:
    tensors = {
        f"{prefix}.{name}": stack
        for prefix, attribute in _STACKS.items()
        for name, stack in getattr(state, attribute).items()
    }
    write_checkpoint(checkpoint, run, {name: getattr(state, name) for name in _PLAIN}, tensors)


def _resume(checkpoint: Path, run: str, device: str) -> TrainingState | None:
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


# --- training ---------------------------------------------------------------------------------------------


class Head(nn.Module):
    """A trainable head: `forward` returns its loss terms on a batch of pairs, `embed` its embeddings of texts.

    Every loss term is a scalar, a mean over the rows, and their weighted sum is minimised. All member functions are
    written for one seed; `fit` stacks seeds with `torch.vmap`, so they must not draw random numbers or change state.

    A head with an adversary names that submodule in `adversary`. Each step first trains the adversary on
    `adversary_terms` with everything else frozen, then the other parameters on `terms` with the adversary frozen. Both
    read the result of `encode`, which is computed once, without the adversary. Parameters that require no gradient are
    not trained. `monitored` names the embedding whose dev retrieval is measured.

    A head that `has_gradient` computes the gradient of its loss itself; training on a CPU uses that instead of
    autograd's.
    """

    adversary: str = ""
    monitored: str = "meaning"
    has_gradient: bool = False

    def embed(self, batch: Batch) -> Batch:
        """Return one matrix per embedding name, from `vectors` (and `grouped_states`)."""
        raise NotImplementedError

    def encode(self, batch: Batch) -> Batch:
        """Return the batch with the tensors that its loss terms share."""
        return batch

    def terms(self, encoded: Batch) -> Batch:
        raise NotImplementedError

    def adversary_terms(self, encoded: Batch) -> Batch:
        """Return the loss terms that the adversary minimises."""
        raise NotImplementedError

    def terms_and_gradient(
        self, parameters: Parameters, batch: Batch, weights: Mapping[str, float]
    ) -> tuple[Batch, Parameters]:
        """Return one seed's loss terms on a batch, and the gradient of their weighted sum for each parameter."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Batch:
        return self.terms(self.encode(batch))


def fit(
    build: Callable[[], Head],
    sampler: PairSampler,
    config: TrainConfig,
    run: Fit,
    initial: Mapping[int, Parameters] | None = None,
) -> Iterator[Epoch]:
    """Train one head per seed, all at once, with Adam and early stopping; yield every epoch's terms.

    Epochs computed by an interrupted call are yielded again from the checkpoint, a safetensors file. It is kept after
    the run; `best_parameters` reads it. `build` makes a head with fresh random parameters; `initial` parameters, by
    seed, may replace them.
    """
    identity = fingerprint(run.inputs, asdict(replace(config, checkpoint_seconds=0.0)), list(run.seeds))
    head = build().to(run.device)
    set_precision(head, config.precision)
    state = _resume(run.checkpoint, identity, run.device) or start(build, run.seeds, run.device, initial)
    yield from (replace(_epoch(record), is_replayed=True) for record in state.history)
    plan = sampler.plan(config.validation, config.validation_fraction, config.split_seed, run.device)
    saved = time.monotonic()
    while state.active and state.epoch < config.max_epochs:
        record = _one_epoch(head, state, plan, config)
        state.history.append(record)
        finished = not state.active or state.epoch == config.max_epochs
        if finished or time.monotonic() - saved >= config.checkpoint_seconds:
            _save(run.checkpoint, identity, state)
            saved = time.monotonic()
        yield _epoch(record)


def _one_epoch(head: Head, state: TrainingState, plan: BatchPlan, config: TrainConfig) -> dict[str, Any]:
    started = time.monotonic()
    seeds = [state.seeds[index] for index in state.active]
    batches = plan.training_batches(seeds, state.epoch, config.batch_size, drop_last=config.drop_last)
    epoch_config = config.in_epoch(state.epoch)
    terms = {"train": _means([(rows, _steps(head, state, batch, epoch_config)) for rows, batch in batches])}
    with torch.inference_mode():
        draws_of_epoch = state.epoch if config.validation_draws == "each_epoch" else None
        batches = plan.validation_batches(config.batch_size, draws_of_epoch)
        terms["dev"] = _means([(rows, _dev_terms(head, state.parameters, batch, config)) for rows, batch in batches])
        if config.monitor == "dev_retrieval":
            terms["dev"]["accuracy_at_1"] = _dev_retrieval(head, state.parameters, plan, len(seeds))
    state.epoch += 1
    return {
        "number": state.epoch,
        "seeds": seeds,
        "terms": terms,
        "is_best": state.keep(_scores(terms["dev"], config), config.patience),
        "steps": state.steps,
        "seconds": time.monotonic() - started,
    }


def _steps(head: Head, state: TrainingState, batch: Batch, config: TrainConfig) -> Batch:
    """Take one step for every seed: all at once on a GPU, as many at a time as fit in the cache on a CPU.

    With a head that computes its own gradient, one at a time.
    """
    is_on_gpu = any(stack.is_cuda for stack in state.parameters.values())
    seeds, is_written = len(state.active), head.has_gradient and not is_on_gpu
    values_per_seed = sum(value[0].numel() for value in batch.values())  # the first dimension is the seeds
    fitting = 1 if is_written else max(1, _CACHED // max(1, values_per_seed))
    group_size = seeds if is_on_gpu else fitting
    group_terms = [
        (_written_step if is_written else _step)(
            head,
            state.part(seed, seed + group_size),
            {name: value[seed : seed + group_size] for name, value in batch.items()},
            config,
        )
        for seed in range(0, seeds, group_size)
    ]
    state.steps += 1
    return {name: torch.cat([terms[name] for terms in group_terms]) for name in group_terms[0]}


def _step(head: Head, state: TrainingState, batch: Batch, config: TrainConfig) -> Batch:
    """Update the adversary, if there is one, then everything else; return all loss terms."""
    # All parameters that require a gradient; the adversary's have its name as prefix.
    trained = {name for name, parameter in head.named_parameters() if parameter.requires_grad}
    of_adversary = {name for name in trained if head.adversary and name.startswith(f"{head.adversary}.")}
    leaves = _leaves(state, trained - of_adversary)
    logged: Batch = {}
    if of_adversary:
        encoded = _stacked(head, head.encode, leaves, batch)
        of_fixed, to_adversary = {name: value.detach() for name, value in encoded.items()}, _leaves(state, of_adversary)
        logged = _stacked(head, head.adversary_terms, to_adversary, of_fixed)
        losses, rate = torch.stack(list(logged.values())).sum(dim=0), config.adversary_learning_rate
        _descend(state, to_adversary, losses, rate or config.learning_rate, config.weight_decay)
        terms = _stacked(head, head.terms, leaves, encoded)
    else:
        terms = _stacked(head, head.forward, leaves, batch)
    total = _total(terms, config)
    _descend(state, leaves, total, config.learning_rate, config.weight_decay)
    return {name: value.detach() for name, value in (terms | logged | {"total": total}).items()}


def _written_step(head: Head, state: TrainingState, batch: Batch, config: TrainConfig) -> Batch:
    """Update the parameters of one seed with the head's own gradient; return all loss terms."""
    parameters, pairs = ({name: value.squeeze(0) for name, value in of.items()} for of in (state.parameters, batch))
    terms, gradient = (
        {name: value.unsqueeze(0) for name, value in of.items()}
        for of in head.terms_and_gradient(parameters, pairs, config.weights)
    )
    total = _total(terms, config)
    state.update(gradient, learning_rate=config.learning_rate, weight_decay=config.weight_decay)
    return terms | {"total": total}


def _leaves(state: TrainingState, trained: Set[str]) -> Parameters:
    """Return the parameters as leaves that share the state's memory; only the `trained` ones get gradients."""
    return {name: stack.detach().requires_grad_(name in trained) for name, stack in state.parameters.items()}


def _descend(
    state: TrainingState, leaves: Parameters, losses: Float[Tensor, " seeds"], rate: float, weight_decay: float
) -> None:
    trained = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    # A seed's parameters only affect its own loss, so the gradient of the sum holds every seed's gradient.
    gradients = torch.autograd.grad(losses.sum(), list(trained.values()), allow_unused=True)
    state.update(dict(zip(trained, gradients, strict=True)), learning_rate=rate, weight_decay=weight_decay)


def _dev_terms(head: Head, parameters: Parameters, batch: Batch, config: TrainConfig) -> Batch:
    """Return all loss terms on pairs that are the same for every seed."""
    if not head.adversary:
        terms = _stacked(head, head.forward, parameters, batch, seeds=None)
        return terms | {"total": _total(terms, config)}
    encoded = _stacked(head, head.encode, parameters, batch, seeds=None)
    terms = _stacked(head, head.terms, parameters, encoded)
    return terms | _stacked(head, head.adversary_terms, parameters, encoded) | {"total": _total(terms, config)}


def _stacked(
    head: Head, call: Callable[[Batch], Batch], parameters: Parameters, batch: Batch, *, seeds: int | None = 0
) -> Batch:
    """Call a method of the head for every seed at once; `seeds` is the batch's seed dimension, None if shared."""
    of_one_seed = partial(_of_one_seed, head, call)
    # A single seed runs without vmap.
    if all(len(stack) == 1 for stack in parameters.values()):
        single = batch if seeds is None else {name: value.squeeze(0) for name, value in batch.items()}
        results = of_one_seed({name: stack.squeeze(0) for name, stack in parameters.items()}, single)
        return {name: value.unsqueeze(0) for name, value in results.items()}
    return vmap(of_one_seed, in_dims=(0, seeds))(parameters, batch)


class _Bound(nn.Module):
    """A module whose `forward` is any method of the head, because `functional_call` only calls `forward`."""

    def __init__(self, head: Head, call: Callable[[Batch], Batch]) -> None:
        super().__init__()
        self.head, self.call = head, call

    def forward(self, batch: Batch) -> Batch:
        return self.call(batch)


def _of_one_seed(head: Head, call: Callable[[Batch], Batch], values: Parameters, batch: Batch) -> Batch:
    return functional_call(_Bound(head, call), {f"head.{name}": value for name, value in values.items()}, (batch,))


def _total(terms: Batch, config: TrainConfig) -> Float[Tensor, " seeds"]:
    if not terms:
        raise ValueError("no loss term is left. Take something out of `without`")
    if unknown := config.weights.keys() - terms.keys():
        raise ValueError(f"weights names {commas(sorted(unknown))}, but the loss terms are {commas(sorted(terms))}")
    # Terms are [seeds], so the weighted sum over terms is the total of each seed.
    return torch.stack([value * config.weights.get(name, 1.0) for name, value in terms.items()]).sum(dim=0)


def _scores(dev: Mapping[str, list[float]], config: TrainConfig) -> list[float]:
    if config.monitor == "dev_retrieval":
        return dev["accuracy_at_1"]
    if config.monitor == "loss" or ADVERSARIAL not in dev:
        return [-loss for loss in dev["total"]]
    # The score is -(total - weight * adversarial), the loss without its adversarial term.
    weight = config.weights.get(ADVERSARIAL, 1.0)
    return [weight * adversarial - loss for adversarial, loss in zip(dev[ADVERSARIAL], dev["total"], strict=True)]


def _means(terms: Sequence[tuple[int, Mapping[str, Tensor]]]) -> dict[str, list[float]]:
    total = sum(rows for rows, _ in terms)
    names = terms[0][1] if terms else ()
    # Summed in float64 and weighted by batch size, because the last batch of an epoch may be smaller.
    means: dict[str, list[float]] = {}
    for name in names:
        summed = torch.stack([rows * values[name].double() for rows, values in terms]).sum(dim=0)
        means[name] = (summed / total).tolist()
        if not all(map(math.isfinite, means[name])):
            remedy = "Lower the learning rate, or look for degenerate vectors in the embeddings"
            raise TrainingError(f"the loss term {name!r} is not finite ({means[name]}). {remedy}")
    return means


def _dev_retrieval(head: Head, parameters: Parameters, plan: BatchPlan, seeds: int) -> list[float]:
    accuracies, language_pair = [], plan.dev.language_pair
    for index in range(seeds):
        values = {name: stack[index] for name, stack in parameters.items()}
        source, target = (
            torch.cat([_monitored(head, values, batch) for batch in plan.validation_texts(side)]) for side in SIDES
        )
        accuracies.append(accuracy_by_pair(source, target, language_pair))
    return accuracies


def _monitored(head: Head, values: Parameters, batch: Batch) -> Tensor:
    return nn.functional.normalize(_of_one_seed(head, head.embed, values, batch)[head.monitored], dim=-1)


def accuracy_at_1(queries: Float[Tensor, "n dim"], pool: Float[Tensor, "n dim"]) -> float:
    """Return the share of queries whose nearest candidate is in the same row; rows have unit norm."""
    hits = [
        (block @ pool.T).argmax(dim=1).eq(torch.arange(start, start + len(block), device=pool.device)).sum()
        for start, block in zip(range(0, len(queries), 4096), queries.split(4096), strict=True)
    ]
    return int(sum(hits)) / len(queries)


def accuracy_by_pair(
    source: Float[Tensor, "n dim"], target: Float[Tensor, "n dim"], language_pair: Int[Tensor, " n"]
) -> float:
    """Return accuracy@1, averaged over both directions and over language pairs; rows have unit norm.

    Each language pair is ranked among its own rows: a mixture repeats an English text for every pair, and only one of
    equal candidates counts as right.
    """
    accuracies = []
    for number in language_pair.unique():
        rows = (language_pair == number).nonzero().squeeze(1).to(source.device)
        left, right = source[rows], target[rows]
        accuracies.append((accuracy_at_1(left, right) + accuracy_at_1(right, left)) / 2)
    return sum(accuracies) / len(accuracies)


def _epoch(record: Mapping[str, Any]) -> Epoch:
    terms = {split: {name: tuple(values) for name, values in of.items()} for split, of in record["terms"].items()}
    seeds, is_best = tuple(record["seeds"]), tuple(record["is_best"])
    return Epoch(**{**record, "terms": terms, "seeds": seeds, "is_best": is_best})
