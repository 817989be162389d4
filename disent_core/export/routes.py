"""What each embedding of a head computes after the encoder, in the operations that sentence-transformers has.

A route is a list of steps from token states to one vector. An embedding that these steps do not give exactly has no
route: an export that is almost right would rank other neighbours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from disent_core.encoders.checkpoint import DensePooler
from disent_core.encoders.contract import Pooling
from disent_core.encoders.fine_tunable import VectorMap
from disent_core.errors import TrainingError
from disent_core.experiment.saved_heads import SavedHead
from disent_core.heads.facet_first import FacetFirstHead
from disent_core.heads.families.closed_form import Solved
from disent_core.heads.families.fine_tuned import FineTuned
from disent_core.heads.families.frozen import TrainedHead
from disent_core.heads.modules.linear_split import LinearHead
from disent_core.heads.oracle import OracleHead


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


Route = tuple[Pool | Affine | UnitNorm, ...]


@dataclass(frozen=True)
class Routes:
    """What a head's folder computes.

    Attributes:
        steps: steps of each route by its name, an embedding or, if the head needs the language of a text, a language.
        by_language: whether the names are languages.
        left_out: embeddings without a route.
    """

    steps: Mapping[str, Route]
    by_language: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def default(self) -> str | None:
        """The route of queries and documents, and of a text without a task; none where a text has to tell its language.

        The meaning, where there is one.
        """
        if self.by_language:
            return None
        return "meaning" if "meaning" in self.steps else next(iter(self.steps))


def routes_of(head: SavedHead, seed: int | None, pooled: Route) -> Routes:
    """Return the routes of a head.

    Args:
        head: the head.
        seed: one of its seeds; None if its method is deterministic.
        pooled: steps from token states to the encoder's sentence vector.

    Raises:
        TrainingError: if no embedding of it can be exported; the message says why.
    """
    trained = head.trained
    if isinstance(trained, Solved):
        return Routes(_of_languages(trained, head, pooled), by_language=True)
    if isinstance(trained, FineTuned):
        return Routes({trained.embedding: pooled + _after_tuning(trained.with_weights_of(seed), head)})
    if isinstance(trained, TrainedHead) and seed is not None:
        steps = _of_module(trained.heads[seed], pooled)
        if steps:
            names = head.method.embeddings
            return Routes({name: steps[name] for name in names if name in steps}, left_out=_absent(names, steps))
    raise refusal(head, _REASONS.get(head.method.name, "no module of sentence-transformers computes its embeddings"))


_REASONS = {
    "lexicon": "it reads words and n-grams, not the tokens of an encoder",
    "bertscore": "it compares the tokens of two texts and has no vector of one",
}


def refusal(head: SavedHead, reason: str) -> TrainingError:
    """The error of a head that can't be exported."""
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
    settings: Any = trained.config
    if "test" in (getattr(settings, "source", None), getattr(settings, "center", None)):
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


def _after_tuning(source: nn.Module, head: SavedHead) -> Route:
    """The steps after the sentence vector: those of a tuned map, none for a tuned encoder."""
    if not isinstance(source, VectorMap):
        return ()
    if not isinstance(source.map, nn.Linear):
        raise refusal(head, "its map has two layers beside a residual connection")
    return (_affine(source.map),)


def _of_module(module: nn.Module, pooled: Route) -> dict[str, Route]:
    if isinstance(module, OracleHead):
        module = module.base
    if isinstance(module, LinearHead):
        return {name: (*pooled, _affine(getattr(module, name))) for name in ("meaning", "language")}
    if isinstance(module, FacetFirstHead):
        sizes = [module.config.template_units, module.config.residual_units]
        parts = zip(module.units.weight.detach().split(sizes), module.units.bias.detach().split(sizes), strict=True)
        # max_j (W h_j) + b = max_j (W h_j + b): the bias is the same for every token.
        steps = [(Affine(w.clone(), b.clone(), of_tokens=True), Pool("max"), UnitNorm()) for w, b in parts]
        return dict(zip(("template", "residual"), steps, strict=True))
    return {}


def _absent(names: tuple[str, ...], steps: Mapping[str, Route]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in steps)
