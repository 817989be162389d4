"""Steps of the shipped module, `modeling_disent`: settings and weights of its classes, from disent's heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from disent_core.encoders.fine_tunable import VectorMap
from disent_core.methods.facet_first_head import FacetFirstHead
from disent_core.methods.facet_head import FacetHead
from disent_core.methods.families.mated_pairs import table_seed
from disent_core.methods.fmda_head import FmdaHead
from disent_core.methods.modules.hashed_words import HashedNgramTable


@dataclass(frozen=True)
class Computed:
    """A head of several embeddings: a class of `modeling_disent` with its settings and weights.

    `embeddings` are the names that it computes; `reads_words` says whether it needs the words of the texts.
    """

    kind: Literal["FacetHead", "AttentionHead", "ResidualMap"]
    settings: dict[str, Any]
    weights: dict[str, Tensor]
    embeddings: tuple[str, ...]
    reads_words: bool = False


_PARTS = ("meaning", "template", "residual")


def facet(head: FacetHead, seed: int) -> Computed:
    """Return the step of Facet."""
    config, weights = head.config, _linear("language", head.language)
    units = [config.template_units, config.residual_units] if head.units is not None else []
    if head.units is not None:
        weights |= _linear("units", head.units)
    for number, eraser in enumerate(head.erasers):
        weights |= {f"{name}_{number}": value for name, value in eraser.state_dict().items()}
    widths = [config.template_words, config.residual_words] if head.words is not None else []
    return _of_parts(head.language, units, widths, weights, head.words, seed)


def facet_first(head: FacetFirstHead) -> Computed:
    """Return the step of the first generation of Facet, which erases nothing."""
    units = [head.config.template_units, head.config.residual_units]
    weights = _linear("language", head.language) | _linear("units", head.units)
    return _of_parts(head.language, units, [], weights, None, 0)


def lexicon(words: HashedNgramTable, widths: Sequence[int], dim: int, seed: int) -> Computed:
    """The step of `lexicon`, which has no language embedding; `dim` is the width of states that it does not read."""
    step = _of_parts(None, [], list(widths), {}, words, seed)
    return Computed(step.kind, step.settings | {"dim": dim}, step.weights, _PARTS, reads_words=True)


def _of_parts(
    language: nn.Linear | None,
    units: list[int],
    widths: list[int],
    weights: dict[str, Tensor],
    words: HashedNgramTable | None,
    seed: int,
) -> Computed:
    languages = 0 if language is None else language.out_features
    settings = {"dim": 0 if language is None else language.in_features, "units": units, "words": widths}
    settings |= {"languages": languages, "known": 0, "seed": table_seed(seed)}
    for number, width in enumerate(units + widths):
        weights.setdefault(f"centre_{number}", torch.zeros(width))
        weights.setdefault(f"basis_{number}", torch.zeros(width, width))
    if words is not None:
        settings["known"] = len(words.known)
        weights |= {"known": words.known, "table": words.table.detach().half()}
    embeddings = (*_PARTS, *(() if language is None else ("language",)))
    return Computed("FacetHead", settings, weights, embeddings, reads_words=words is not None)


def attention(head: FmdaHead, dim: int) -> Computed:
    """Return the step of FMDA, in one stage or two."""
    config, inner = head.config, head.attention
    parts = {"language": head.language, "meaning": head.meaning, "query": inner.query, "key": inner.key}
    parts |= {"template_value": inner.template_value, "residual_value": inner.residual_value}
    weights = {f"maps.{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}
    switches = ("ffn", "activation", "attention_scale", "attention_special", "residual_attention")
    settings = {"dim": dim} | {name: getattr(config, name) for name in switches}
    return Computed("AttentionHead", settings, weights, (*_PARTS, "language"))


def residual_map(source: VectorMap, embedding: str) -> Computed:
    """Return the step of a tuned map of two layers."""
    weights = {f"map.{name}": value for name, value in source.map.state_dict().items()}
    return Computed("ResidualMap", {"dim": source.dim}, weights, (embedding,))


def _linear(name: str, layer: nn.Linear) -> dict[str, Tensor]:
    return {f"{name}.weight": layer.weight.detach(), f"{name}.bias": layer.bias.detach()}
