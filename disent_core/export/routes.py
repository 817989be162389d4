"""What each embedding of a head computes after the encoder, if possible in operations that sentence-transformers has.

A route is a list of steps from token states to one vector. What its own modules do not give exactly is a step of the
module that is shipped in the folder: an export that is almost right would rank other neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from disent_core.encoders.checkpoint import DensePooler
from disent_core.encoders.contract import Pooling
from disent_core.encoders.fine_tunable import VectorMap
from disent_core.errors import TrainingError
from disent_core.export import computed
from disent_core.export.computed import Computed
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.dream_head import LinearHead
from disent_core.methods.facet_first_head import FacetFirstHead
from disent_core.methods.facet_head import TrainedFacet
from disent_core.methods.families.frozen import TrainedHead
from disent_core.methods.families.seed_by_seed import FineTuned
from disent_core.methods.families.unseeded import Solved
from disent_core.methods.fmda_head import FmdaHead
from disent_core.methods.lexicon_head import TrainedLexicon
from disent_core.methods.oracle_head import OracleHead


@dataclass(frozen=True)
class Pool:
    """Token states to one vector: the state at position 0, or the mean or maximum over tokens."""

    mode: Literal["cls", "mean", "max"]


@dataclass(frozen=True)
class Affine:
    """W x + b of the vector, or of every token's state; then tanh, if `tanh`. `weight` is [outer, inner]."""

    weight: Tensor
    bias: Tensor | None
    of_tokens: bool = False
    tanh: bool = False


@dataclass(frozen=True)
class UnitNorm:
    """Divide the vector by its length."""


@dataclass(frozen=True)
class States:
    """The token states of several layers, side by side, instead of those of the last."""

    layers: tuple[int, ...]
    dim: int


Route = tuple[Pool | Affine | UnitNorm | States | Computed, ...]


def needs_code(route: Route) -> bool:
    """Whether a step is one of the shipped module, which is loaded with `trust_remote_code=True` only."""
    return any(isinstance(step, States | Computed) for step in route)


@dataclass(frozen=True)
class Routes:
    """What a head's folder computes.

    Attributes:
        steps: steps of each route by its name, an embedding or, if the head needs the language of a text, a language.
        by_language: whether the names are languages.
        left_out: routes that were not chosen.
    """

    steps: Mapping[str, Route]
    by_language: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def needs_code(self) -> bool:
        """Whether the folder has the shipped module."""
        return any(map(needs_code, self.steps.values()))

    @property
    def reads_words(self) -> bool:
        """Whether a step reads the words of the texts."""
        steps = (step for route in self.steps.values() for step in route)
        return any(isinstance(step, Computed) and step.reads_words for step in steps)

    def chosen(self, names: Sequence[str] | None) -> "Routes":
        """Return some of the routes; None: those without the shipped module or, if there are none, all."""
        if names is None:
            names = [name for name, route in self.steps.items() if not needs_code(route)] or list(self.steps)
        if unknown := [name for name in names if name not in self.steps]:
            raise ValueError(f"this head has no route {unknown[0]!r}; choose one of {', '.join(self.steps)}")
        left_out = tuple(name for name in self.steps if name not in names)
        return replace(self, steps={name: self.steps[name] for name in names}, left_out=left_out)

    @property
    def default(self) -> str | None:
        """The route of queries and documents, and of a text without a task; none where a text has to tell its language.

        The meaning, where there is one.
        """
        if self.by_language:
            return None
        return "meaning" if "meaning" in self.steps else next(iter(self.steps))


def routes_of(head: SavedHead, seed: int | None, pooled: Route) -> Routes:
    """Return all routes of a head.

    Args:
        head: the head.
        seed: one of its seeds; None if its method is deterministic.
        pooled: steps from token states to the encoder's sentence vector.
    """
    trained = head.trained
    if isinstance(trained, Solved):
        return Routes(_of_languages(trained, head, pooled), by_language=True)
    if isinstance(trained, FineTuned):
        return Routes({trained.embedding: pooled + _after_tuning(trained.with_weights_of(seed), trained.embedding)})
    if isinstance(trained, TrainedFacet) and seed is not None:
        return _of_step(computed.facet(trained.head(seed), seed), pooled)
    if isinstance(trained, TrainedLexicon) and seed is not None:
        widths = [trained.config.template_units, trained.config.residual_units]
        return _of_step(computed.lexicon(trained.words[seed], widths, head.description["dim"], seed), ())
    if isinstance(trained, TrainedHead) and seed is not None:
        return _of_module(trained.heads[seed], pooled, head)
    raise refusal(head, "it tags the slots of sentences" if head.method.labels else _UNKNOWN)


_UNKNOWN = "no module of sentence-transformers, nor the shipped one, computes its embeddings"


def refusal(head: SavedHead, reason: str) -> TrainingError:
    """Return the error of a head that can't be exported."""
    remedy = "Use it from Python: disent.load"
    return TrainingError(f"{head.path}: {head.description['name']} can't be exported: {reason}. {remedy}")


def pooling_steps(pooling: Pooling, model: Any) -> Route | None:
    """Steps from token states to the encoder's sentence vector; None if sentence-transformers has none for its pooler.

    Args:
        pooling: of the encoder.
        model: the encoder's model, with its pooler if `pooling` uses it.
    """
    if pooling in ("cls", "mean"):
        return (Pool("cls" if pooling == "cls" else "mean"),)
    pooler = model.pooler
    if isinstance(pooler, DensePooler):
        return Pool("cls"), _affine(pooler.linear, tanh=True), UnitNorm()
    dense = getattr(pooler, "dense", None)
    if isinstance(dense, nn.Linear) and isinstance(getattr(pooler, "activation", None), nn.Tanh):
        return Pool("cls"), _affine(dense, tanh=True)
    return None


def _affine(layer: nn.Linear, *, tanh: bool = False) -> Affine:
    return Affine(layer.weight.detach(), None if layer.bias is None else layer.bias.detach(), tanh=tanh)


def _of_languages(trained: Solved, head: SavedHead, pooled: Route) -> dict[str, Route]:
    """A closed form over the vectors of a language is a linear map; but not if it reads the other texts too."""
    if head.method.is_transductive(head.settings):
        raise refusal(head, "it subtracts the mean of the texts that are embedded together: no function of one text")
    solution, routes = trained.solution, {}
    for language in sorted(trained.languages, key=list(head.description["languages"]).index):
        if (mean := solution.get(f"mean.{language}")) is not None:
            weight, bias = torch.eye(len(mean)), -mean
        elif (matrix := solution.get(f"weight.{language}")) is not None:
            weight, bias = matrix.T, solution[f"bias.{language}"]
        else:
            raise refusal(head, "its formula is not known to be linear")
        routes[language] = (*pooled, Affine(weight.float().contiguous(), bias.float()))
    return routes


def _after_tuning(source: nn.Module, embedding: str) -> Route:
    """Return the steps after the sentence vector: those of a tuned map, none for a tuned encoder."""
    if not isinstance(source, VectorMap):
        return ()
    return (_affine(source.map) if isinstance(source.map, nn.Linear) else computed.residual_map(source, embedding),)


def _of_step(step: Computed, pooled: Route) -> Routes:
    return Routes(dict.fromkeys(step.embeddings, (*pooled, step)))


def _of_module(module: nn.Module, pooled: Route, head: SavedHead) -> Routes:
    if isinstance(module, OracleHead):
        module = module.base
    if isinstance(module, LinearHead):
        return Routes({name: (*pooled, _affine(getattr(module, name))) for name in ("meaning", "language")})
    if isinstance(module, FmdaHead):
        return _of_step(computed.attention(module, head.description["dim"]), pooled)
    if isinstance(module, FacetFirstHead):
        steps = _of_step(computed.facet_first(module), pooled).steps
        return Routes({**steps, **_of_units(module, [step for step in pooled if isinstance(step, States)])})
    raise refusal(head, _UNKNOWN)


def _of_units(module: FacetFirstHead, states: Sequence[States]) -> dict[str, Route]:
    sizes = [module.config.template_units, module.config.residual_units]
    parts = zip(module.units.weight.detach().split(sizes), module.units.bias.detach().split(sizes), strict=True)
    # max_j (W h_j) + b = max_j (W h_j + b): the bias is the same for every token.
    steps = [(*states, Affine(w.clone(), b.clone(), of_tokens=True), Pool("max"), UnitNorm()) for w, b in parts]
    return dict(zip(("template", "residual"), steps, strict=True))
