"""Express what each embedding of a head computes after the encoder, as modules of sentence-transformers if possible.

A route is a list of modules from token states to one vector. What sentence-transformers can't compute exactly is a
module of `modeling_disent`, which is shipped in the folder: an export that is almost right would rank differently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from disent_core.embedding_names import ALIASES
from disent_core.encoders.checkpoint import DensePooler
from disent_core.encoders.contract import Pooling
from disent_core.encoders.fine_tunable import VectorMap
from disent_core.errors import TrainingError
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.dream_head import LinearHead, OracleHead
from disent_core.methods.facet_head import FacetFirstHead, FacetHead, TrainedFacet
from disent_core.methods.families.frozen import TrainedHead
from disent_core.methods.families.seed_by_seed import FineTuned
from disent_core.methods.families.unseeded import Solved
from disent_core.methods.fmda_head import FmdaHead
from disent_core.methods.infonce_head import InfoNceHead
from disent_core.methods.lexicon_head import TrainedLexicon, table_seed
from disent_core.methods.modules.hashed_words import HashedNgramTable
from disent_core.methods.modules.word_rows import TABLE_ROWS
from disent_core.methods.spec import learned

Route = tuple[Any, ...]
"""Modules of sentence-transformers, or shipped ones. A module that several routes share is saved once."""
_SHIPPED = "disent_core.export.modeling_disent"
_UNKNOWN = "no module of sentence-transformers, nor the shipped one, computes its embeddings"


def shipped() -> Any:
    """Return the shipped module, which needs sentence-transformers."""
    return import_module(_SHIPPED)


def needs_code(route: Route) -> bool:
    """Return whether a step is from the shipped module, which loads with `trust_remote_code=True` only."""
    return any(type(step).__module__ == _SHIPPED for step in route)


@dataclass(frozen=True)
class Routes:
    """The routes that a head's folder computes."""

    steps: Mapping[str, Route]  # by embedding or, if the head needs the language of a text, by language
    by_language: bool = False  # whether the names are languages
    left_out: tuple[str, ...] = ()  # routes that were not chosen

    @property
    def needs_code(self) -> bool:
        return any(map(needs_code, self.steps.values()))

    @property
    def widths(self) -> dict[str, int]:
        sized = {name: [step for step in route if hasattr(step, "get_embedding_dimension")]
                 for name, route in self.steps.items()}  # fmt: skip
        return {name: steps[-1].get_embedding_dimension() for name, steps in sized.items()}

    @property
    def side_by_side(self) -> list[str]:
        """Return the routes whose vectors are several parts side by side."""
        return [name for name, route in self.steps.items() if len(getattr(route[-1], "widths", ())) > 1]

    @property
    def reads_words(self) -> bool:
        return any(getattr(step, "settings", {}).get("words") for route in self.steps.values() for step in route)

    def learned(self, head: SavedHead) -> "Routes":
        """Return the routes of embeddings that training had data for."""
        names = learned(head.method.embeddings, head.description)
        kept = {
            name: route for name, route in self.steps.items() if name in names or name not in head.method.embeddings
        }
        return replace(self, steps=kept)

    def chosen(self, names: Sequence[str] | None) -> "Routes":
        """Return the named routes; None: those without the shipped module or, if there are none, all."""
        if names is None:
            names = [name for name, route in self.steps.items() if not needs_code(route)] or list(self.steps)
        names = [name if name in self.steps else ALIASES.get(name, name) for name in names]
        if unknown := [name for name in names if name not in self.steps]:
            raise ValueError(f"this head has no route {unknown[0]!r}; choose one of {', '.join(self.steps)}")
        names = [name for name in self.steps if name in names]  # the first is the default, whose width is the model's
        left_out = tuple(name for name in self.steps if name not in names)
        return replace(self, steps={name: self.steps[name] for name in names}, left_out=left_out)

    @property
    def default(self) -> str | None:
        """The route of queries, documents and texts without a task: the meaning, or else the first route."""
        if self.by_language:
            return None
        return "meaning" if "meaning" in self.steps else next(iter(self.steps))


def routes_of(head: SavedHead, seed: int | None, pooled: Route) -> Routes:
    """Return all routes of a head; `pooled` are the steps from token states to the encoder's sentence vector."""
    trained = head.trained
    if isinstance(trained, Solved):
        return Routes(_of_languages(trained, head, pooled), by_language=True)
    if isinstance(trained, FineTuned):
        return Routes({trained.embedding: pooled + _after_tuning(trained.with_weights_of(seed))})
    if isinstance(trained, TrainedFacet) and seed is not None:
        return _of_step(_facet(trained.head(seed), seed), pooled)
    if isinstance(trained, TrainedLexicon) and seed is not None:
        config = trained.config
        widths = [config.template_units, config.residual_units]
        return _of_step(_views({}, None, [], widths, trained.words[seed], seed, table_rows=config.table_rows), ())
    if isinstance(trained, TrainedHead) and seed is not None:
        return _of_module(trained.heads[seed], pooled, head)
    raise refusal(head, "it tags the slots of sentences" if head.method.labels else _UNKNOWN)


def refusal(head: SavedHead, reason: str) -> TrainingError:
    """Return the error for a head that can't be exported."""
    remedy = "Use it from Python: disent.load"
    return TrainingError(f"{head.path}: {head.description['name']} can't be exported: {reason}. {remedy}")


# --- modules of sentence-transformers -----------------------------------------------------------------------


def pooling_steps(pooling: Pooling, model: Any, dim: int) -> Route | None:
    """Return the steps from token states to the encoder's sentence vector; None if its pooler can't be expressed."""
    if pooling in ("cls", "mean"):
        return (_pool("cls" if pooling == "cls" else "mean", dim),)
    pooler = model.pooler
    if isinstance(pooler, DensePooler):
        return _pool("cls", dim), _affine(pooler.linear, nn.Tanh()), _sentence_transformers().Normalize()
    dense = getattr(pooler, "dense", None)
    if isinstance(dense, nn.Linear) and isinstance(getattr(pooler, "activation", None), nn.Tanh):
        return _pool("cls", dim), _affine(dense, nn.Tanh())
    return None


def _sentence_transformers() -> Any:
    return import_module("sentence_transformers.sentence_transformer.modules")


def _pool(mode: Literal["cls", "mean", "max"], dim: int) -> nn.Module:
    """Reduce token states to one vector: the state at position 0, or the mean or maximum over tokens."""
    return _sentence_transformers().Pooling(dim, mode)


def _dense(
    weight: Tensor, bias: Tensor | None, activation: nn.Module | None = None, *, of_tokens: bool = False
) -> nn.Module:
    """Compute W x + b of the vector, or of every token's state, then the activation. `weight` is [outer, inner]."""
    return _sentence_transformers().Dense(
        weight.shape[1],
        weight.shape[0],
        bias=bias is not None,
        activation_function=activation or nn.Identity(),
        init_weight=weight,
        init_bias=bias,
        module_input_name="token_embeddings" if of_tokens else "sentence_embedding",
    )


def _affine(layer: nn.Linear, activation: nn.Module | None = None, *, scale: float = 1.0) -> nn.Module:
    return _dense(scale * layer.weight.detach(), None if layer.bias is None else layer.bias.detach(), activation)


def _of_languages(trained: Solved, head: SavedHead, pooled: Route) -> dict[str, Route]:
    """Return the linear map of each language in a closed form; reject one that also reads the other texts."""
    if head.method.is_transductive(head.settings):
        raise refusal(head, "it subtracts the mean of all texts embedded together, so it is not a function of one text")
    solution, routes = trained.solution, {}
    for language in sorted(trained.languages, key=list(head.description["languages"]).index):
        mean, matrix = (solution.get(f"{name}.{language}") for name in ("mean", "weight"))
        scaled: Route = ()
        if mean is not None and matrix is not None:  # an alignment of vectors of norm 1
            weight, bias, scaled = matrix.T, -(mean @ matrix), (_sentence_transformers().Normalize(),)
        elif mean is not None:
            weight, bias = torch.eye(len(mean)), -mean
        elif matrix is not None:
            weight, bias = matrix.T, solution[f"bias.{language}"]
        else:
            raise refusal(head, "its formula is not known to be linear")
        routes[language] = (*pooled, *scaled, _dense(weight.float().contiguous(), bias.float()))
    return routes


def _of_module(module: nn.Module, pooled: Route, head: SavedHead) -> Routes:
    if isinstance(module, OracleHead):
        module = module.base
    if isinstance(module, LinearHead):
        return Routes({name: (*pooled, _affine(getattr(module, name))) for name in ("meaning", "language")})
    if isinstance(module, InfoNceHead):  # of vectors of norm 1 times the root of their width
        first, *others = (layer for layer in module.layers if isinstance(layer, nn.Linear))
        steps = [_affine(first, nn.GELU() if others else None, scale=first.in_features**0.5), *map(_affine, others)]
        return Routes({"meaning": (*pooled, _sentence_transformers().Normalize(), *steps)})
    if isinstance(module, FmdaHead):
        return _of_step(_attention(module, head.description["dim"]), pooled)
    if isinstance(module, FacetFirstHead):
        units = [module.config.template_units, module.config.residual_units]
        step = _views(_linear("units", module.units), module.language, units, [], None, 0)  # it erases nothing
        steps = _of_step(step, pooled).steps
        return Routes({**steps, **_of_units(module, [step for step in pooled if needs_code((step,))])})
    raise refusal(head, _UNKNOWN)


def _of_units(module: FacetFirstHead, states: Sequence[nn.Module]) -> dict[str, Route]:
    """Return template and residual of facet_first; `states` stacks the states of several layers if it reads several."""
    sizes = [module.config.template_units, module.config.residual_units]
    weights, biases = (value.detach().split(sizes) for value in (module.units.weight, module.units.bias))
    normalize = _sentence_transformers().Normalize
    # max_j (W h_j) + b = max_j (W h_j + b): the bias is the same for every token.
    return {
        name: (*states, _dense(w.clone(), b.clone(), of_tokens=True), _pool("max", len(w)), normalize())
        for name, w, b in zip(("template", "residual"), weights, biases, strict=True)
    }


# --- modules that are shipped -------------------------------------------------------------------------------


def _of_step(step: Any, pooled: Route) -> Routes:
    embeddings = {name: shipped().Embedding(name, list(widths)) for name, widths in step.widths.items()}
    return Routes({name: (*pooled, step, embedding) for name, embedding in embeddings.items()})


def _after_tuning(source: nn.Module) -> Route:
    """Return the steps after the sentence vector: those of a tuned map, none for a tuned encoder."""
    if not isinstance(source, VectorMap):
        return ()
    if isinstance(source.map, nn.Linear):
        return (_affine(source.map),)
    # x + W2 gelu(W1 x + b1) + b2 is one network of two layers, because x = gelu(x) - gelu(-x).
    inner, _, outer = (cast("nn.Linear", layer) for layer in source.map.children())
    same, none = torch.eye(source.dim), torch.zeros(2 * source.dim)
    widened = _dense(torch.cat([inner.weight.detach(), same, -same]), torch.cat([inner.bias.detach(), none]), nn.GELU())
    return widened, _dense(torch.cat([outer.weight.detach(), same, -same], dim=1), outer.bias.detach())


def _step(kind: str, settings: dict[str, Any], weights: Mapping[str, Tensor]) -> Any:
    """Return a module with weights; buffers that are not given stay zero."""
    module = getattr(shipped(), kind)(settings)
    module.load_state_dict({**dict(module.named_buffers()), **weights})
    return module


def _facet(head: FacetHead, seed: int) -> Any:
    config, weights, units, widths = head.config, {}, [], []
    if head.units is not None:
        units, weights = [config.template_units, config.residual_units], _linear("units", head.units)
    if head.words is not None:
        widths = [config.template_words, config.residual_words]
    for number, eraser in enumerate(head.erasers):
        weights |= {f"{name}_{number}": value for name, value in eraser.state_dict().items()}
    return _views(weights, head.language, units, widths, head.words, seed, sentence_weight=config.sentence_weight)


def _views(
    weights: dict[str, Tensor],
    language: nn.Linear | None,
    units: list[int],
    widths: list[int],
    words: HashedNgramTable | None,
    seed: int,
    table_rows: int = TABLE_ROWS,
    sentence_weight: float = 0.0,
) -> Any:
    """Return a step of two parts, from token states (widths `units`), words (`widths`), or both."""
    settings: dict[str, Any] = {"dim": 0, "units": units, "words": widths, "languages": 0, "known": 0}
    settings |= {"seed": table_seed(seed), "table_rows": table_rows, "unseen": 1.0, "sentence_weight": sentence_weight}
    if language is not None:
        settings |= {"dim": language.in_features, "languages": language.out_features}
        weights |= _linear("language", language)
    if words is not None:
        settings |= {"known": len(words.known), "unseen": words.unseen}
        weights |= {"known": words.known, "table": words.table.detach().half()}
    return _step("FacetHead", settings, weights)


def _attention(head: FmdaHead, dim: int) -> Any:
    """Return the step of FMDA, in one stage or two."""
    inner = head.attention
    parts = {"language": head.language, "meaning": head.meaning, "query": inner.query, "key": inner.key}
    parts |= {"template_value": inner.template_value, "residual_value": inner.residual_value}
    weights = {f"maps.{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}
    switches = ("ffn", "activation", "attention_scale", "attention_special", "residual_attention")
    return _step("AttentionHead", {"dim": dim} | {name: getattr(head.config, name) for name in switches}, weights)


def _linear(name: str, layer: nn.Linear) -> dict[str, Tensor]:
    return {f"{name}.weight": layer.weight.detach(), f"{name}.bias": layer.bias.detach()}
