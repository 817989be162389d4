"""ORACLE: an orthogonality constraint against semantic leakage (Ki, Park and Kim 2024, RepL4NLP).

Two regularisers for DREAM or MEAT, or by themselves: the language embeddings of a language cluster (intra-class,
Eq. 5); meaning and language embedding of a sentence are orthogonal (inter-class, Eq. 6). The public code has further
variants, which `variant` selects by the names in that code.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from disent_core.heads.families.frozen import FrozenHeadMethod, sum_of_means
from disent_core.heads.modules.linear_split import LinearHead
from disent_core.losses import similarity
from disent_core.settings import OF_PUBLISHED_CODE
from disent_core.training.config import TrainConfig
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import Head

Form = Literal["hinge", "abs", "square"]
Variant = Literal[
    "paper", "oracle_new", "oracle_old", "oracle_abs", "oracle_main", "oracle_all", "oracle_orth", "oracle_pair",
    "alone1", "alone2", "alone3", "alone4", "alone5",
]  # fmt: skip
EMBEDDINGS = ("meaning", "language")
Part = Literal["intra_class", "inter_class"]

_MEANING = frozenset({"meaning_parallel", "meaning_random"})
_MEANING_AND_LANGUAGE = _MEANING | {"language_embedding"}


@dataclass(frozen=True)
class _Terms:
    """Terms that a variant adds, and terms of the base that it keeps (None: all).

    `intra` adds the clusters; `parallel` adds 1 - cos(s_m, t_m) to them. `leakage` is the penalty on cos(x_m, x_l) of
    either side, `languages` the penalty on cos(s_l, t_l); `share` is a factor of their sum that makes it a mean.
    """

    intra: bool = False
    parallel: bool = False
    leakage: Form | None = None
    languages: Form | None = None
    share: float = 1.0
    keeps: frozenset[str] | None = None


_VARIANTS: dict[Variant, _Terms] = {
    "paper": _Terms(intra=True, leakage="hinge"),
    "oracle_new": _Terms(intra=True, languages="hinge"),
    "oracle_old": _Terms(intra=True, parallel=True, leakage="abs", languages="hinge"),
    "oracle_abs": _Terms(intra=True, languages="abs"),
    "oracle_main": _Terms(leakage="hinge", share=1 / 2),
    "oracle_all": _Terms(leakage="hinge", languages="hinge", share=1 / 3),
    "oracle_orth": _Terms(languages="hinge"),
    "oracle_pair": _Terms(intra=True),
    "alone1": _Terms(intra=True, parallel=True, leakage="abs", languages="hinge", keeps=frozenset()),
    "alone2": _Terms(leakage="abs", languages="hinge", keeps=_MEANING),
    "alone3": _Terms(leakage="abs", languages="hinge", keeps=_MEANING_AND_LANGUAGE),
    "alone4": _Terms(intra=True, parallel=True, leakage="abs", languages="hinge", keeps=frozenset({"adversarial"})),
    "alone5": _Terms(intra=True, parallel=True, leakage="abs", languages="hinge", keeps=_MEANING_AND_LANGUAGE),
}


@dataclass(frozen=True, kw_only=True)
class OracleConfig(TrainConfig):
    """Switches that paper and public code read differently; the defaults are the paper's.

    Attributes:
        variant: which regularisers are added and which terms of the base are kept, see `docs/methods.md`.
        separation: penalty on cosines that should be 0, in place of the one that the variant has.
        intra_class_scope: language embeddings that should be alike: those of a language or, as in the public code,
            those of all rows of a side.
        intra_class_diagonal: count each row's similarity with itself.
        without: regularisers to leave out, as in the paper's Table 4. `weights` has factors for both by these names.
    """

    base_terms: ClassVar[frozenset[str]] = frozenset()

    learning_rate: float = 1e-5
    max_epochs: int = 10_000
    patience: int = 10
    variant: Variant = field(default="paper", metadata=OF_PUBLISHED_CODE)
    separation: Form | None = None
    intra_class_scope: Literal["same_language", "batch"] = field(default="same_language", metadata=OF_PUBLISHED_CODE)
    intra_class_diagonal: bool = field(default=False, metadata=OF_PUBLISHED_CODE)
    without: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        missing = (_VARIANTS[self.variant].keeps or frozenset()) - self.base_terms
        if missing:
            raise ValueError(f"variant = {self.variant!r} needs a base with the terms {', '.join(sorted(missing))}")


class OracleHead(Head):
    """A `base` head with the two regularisers."""

    def __init__(self, base: LinearHead, n_languages: int, config: OracleConfig) -> None:
        super().__init__()
        self.base, self.n_languages, self.config = base, n_languages, config
        self.adversary = f"base.{base.adversary}" if base.adversary else ""

    def embed(self, batch: Batch) -> Batch:
        """See the base."""
        return self.base.embed(batch)

    def encode(self, batch: Batch) -> Batch:
        """See the base."""
        return self.base.encode(batch)

    def adversary_terms(self, encoded: Batch) -> Batch:
        """See the base."""
        return self.base.adversary_terms(encoded)

    def terms(self, encoded: Batch) -> Batch:
        """The base's terms, `intra_class` and `inter_class`."""
        variant, terms = _VARIANTS[self.config.variant], self.base.terms(encoded)
        if variant.keeps is not None:
            terms = {name: value for name, value in terms.items() if name in variant.keeps}
        if variant.intra and "intra_class" not in self.config.without:
            terms["intra_class"] = 2 - sum_of_means(self._similarity(encoded, side) for side in SIDES)
            if variant.parallel:
                translations = (_rows(encoded, side, "meaning_vectors") for side in SIDES)
                terms["intra_class"] = terms["intra_class"] + similarity.cosine_distance(*translations).mean()
        if (variant.leakage or variant.languages) and "inter_class" not in self.config.without:
            terms["inter_class"] = variant.share * self._inter_class(variant, encoded)
        return terms

    def _similarity(self, encoded: Batch, side: str) -> Tensor:
        """Mean cosine of each row's language embedding with those of its cluster."""
        rows, labels = (_rows(encoded, side, name) for name in ("language_vectors", "language"))
        if self.config.intra_class_scope == "batch":
            members = torch.ones_like(rows[:, :1])
        else:
            members = one_hot(labels, self.n_languages).to(rows.dtype)
        return similarity.mean_pairwise_cosine(rows, members, diagonal=self.config.intra_class_diagonal)

    def _inter_class(self, variant: _Terms, encoded: Batch) -> Tensor:
        meaning, language = ([_rows(encoded, side, f"{name}_vectors") for side in SIDES] for name in EMBEDDINGS)
        penalties = []
        if variant.leakage:
            form = self.config.separation or variant.leakage
            cosines = (similarity.cosine(*pair) for pair in zip(meaning, language, strict=True))
            penalties += [similarity.orthogonality_penalty(cosine, form=form) for cosine in cosines]
        if variant.languages:
            form = self.config.separation or variant.languages
            penalties.append(similarity.orthogonality_penalty(similarity.cosine(*language), form=form))
        return sum_of_means(penalties)


def _rows(encoded: Batch, side: str, name: str) -> Tensor:
    """Values of a side's texts; with `half_batch` the pairs of the batch's second half are included."""
    rows = encoded[f"{side}_{name}"]
    if f"{side}_second_half_language" not in encoded:
        return rows
    drawn = "second_half" if name == "language" else "partner"
    return torch.cat([rows, encoded[f"{side}_{drawn}_{name}"]])


def over(base: Callable[[int, int, Any], LinearHead]) -> Callable[[int, int, Any], OracleHead]:
    """Return a builder of ORACLE over the heads that `base` builds."""
    return lambda dim, n_languages, config: OracleHead(base(dim, n_languages, config), n_languages, config)


METHOD = FrozenHeadMethod(
    name="oracle",
    presets={
        "paper": OracleConfig(validation="train_fraction"),
        "official_code": OracleConfig(
            validation="train_fraction", variant="alone1", intra_class_scope="batch", intra_class_diagonal=True
        ),
    },
    head=over(lambda dim, n_languages, config: LinearHead(dim)),
    embeddings=EMBEDDINGS,
    needs=frozenset(),
)
