"""ORACLE: an orthogonality constraint against semantic leakage (Ki, Park and Kim 2024, RepL4NLP).

Two regularisers for DREAM or MEAT, or by themselves: the language embeddings of a language cluster (intra-class,
Eq. 5); meaning and language embedding of a sentence are orthogonal (inter-class, Eq. 6). The public code has further
variants, which `variant` selects by the names in that code.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from disent_core.methods.dream import DreamConfig, MeatConfig
from disent_core.methods.dream import draws as dream_draws
from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import OF_PUBLISHED_CODE, Positive, Rate
from disent_core.training.config import CONVERGED, TrainConfig

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
class Terms:
    """Terms that a variant adds, and base terms that it keeps (None: all).

    `intra` adds the clusters; `parallel` adds 1 - cos(s_m, t_m) to them. `leakage` is the penalty on cos(x_m, x_l) of
    either side, `languages` the penalty on cos(s_l, t_l); `share` is a factor of their sum that makes it a mean.
    """

    intra: bool = False
    parallel: bool = False
    leakage: Form | None = None
    languages: Form | None = None
    share: float = 1.0
    keeps: frozenset[str] | None = None


VARIANTS: dict[Variant, Terms] = {
    "paper": Terms(intra=True, leakage="hinge"),
    "oracle_new": Terms(intra=True, languages="hinge"),
    "oracle_old": Terms(intra=True, parallel=True, leakage="abs", languages="hinge"),
    "oracle_abs": Terms(intra=True, languages="abs"),
    "oracle_main": Terms(leakage="hinge", share=1 / 2),
    "oracle_all": Terms(leakage="hinge", languages="hinge", share=1 / 3),
    "oracle_orth": Terms(languages="hinge"),
    "oracle_pair": Terms(intra=True),
    "alone1": Terms(intra=True, parallel=True, leakage="abs", languages="hinge", keeps=frozenset()),
    "alone2": Terms(leakage="abs", languages="hinge", keeps=_MEANING),
    "alone3": Terms(leakage="abs", languages="hinge", keeps=_MEANING_AND_LANGUAGE),
    "alone4": Terms(intra=True, parallel=True, leakage="abs", languages="hinge", keeps=frozenset({"adversarial"})),
    "alone5": Terms(intra=True, parallel=True, leakage="abs", languages="hinge", keeps=_MEANING_AND_LANGUAGE),
}


@dataclass(frozen=True, kw_only=True)
class OracleConfig(TrainConfig):
    """Options on which the paper and the public code differ; the defaults are the paper's.

    Attributes:
        variant: which regularisers are added and which terms of the base are kept; see `docs/methods.md`.
        separation: penalty on cosines that should be 0, instead of the variant's own.
        intra_class_scope: language embeddings that should be alike: those of a language or, as in the public code,
            those of all rows of a side.
        intra_class_diagonal: count each row's similarity with itself.
        without: regularisers to leave out, as in the paper's Table 4. `weights` accepts both under these names.
    """

    base_terms: ClassVar[frozenset[str]] = frozenset()

    learning_rate: Rate = 1e-5
    max_epochs: Positive = 10_000
    patience: Positive = 10
    variant: Variant = field(default="paper", metadata=OF_PUBLISHED_CODE)
    separation: Form | None = None
    intra_class_scope: Literal["same_language", "batch"] = field(default="same_language", metadata=OF_PUBLISHED_CODE)
    intra_class_diagonal: bool = field(default=False, metadata=OF_PUBLISHED_CODE)
    without: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        missing = (VARIANTS[self.variant].keeps or frozenset()) - self.base_terms
        if missing:
            raise ValueError(f"variant = {self.variant!r} needs a base with the terms {', '.join(sorted(missing))}")


_PAPER: dict[str, Any] = {"validation": "train_fraction"}
_OFFICIAL: dict[str, Any] = {**_PAPER, "intra_class_scope": "batch", "intra_class_diagonal": True}
METHOD = FrozenHeadMethod(
    name="oracle",
    presets={
        "paper": OracleConfig(**_PAPER),
        "converged": OracleConfig(**_PAPER, **CONVERGED),
        "official_code": OracleConfig(**_OFFICIAL, variant="alone1"),
    },
    head="disent_core.methods.dream_head:oracle_head",
    embeddings=EMBEDDINGS,
)


@dataclass(frozen=True, kw_only=True)
class DreamOracleConfig(OracleConfig, DreamConfig):
    """The options of both methods.

    Attributes:
        without: groups of DREAM's losses (`language`, `meaning`) and regularisers of ORACLE to leave out.
    """

    base_terms: ClassVar[frozenset[str]] = _MEANING_AND_LANGUAGE

    without: tuple[Literal["language", "meaning", "intra_class", "inter_class"], ...] = ()  # pyright: ignore[reportIncompatibleVariableOverride]


DREAM_ORACLE = FrozenHeadMethod(
    name="dream_oracle",
    presets={
        "paper": DreamOracleConfig(**_PAPER),
        "converged": DreamOracleConfig(**_PAPER, **CONVERGED),
        "fast": DreamOracleConfig(**_PAPER, partner="next_in_batch", precision="bfloat16"),
        "official_code": DreamOracleConfig(**_OFFICIAL, variant="oracle_new", partner="half_batch"),
    },
    head="disent_core.methods.dream_head:dream_oracle_head",
    embeddings=EMBEDDINGS,
    draws=dream_draws,
)


@dataclass(frozen=True, kw_only=True)
class MeatOracleConfig(OracleConfig, MeatConfig):
    """The options of both methods."""

    base_terms: ClassVar[frozenset[str]] = frozenset({"adversarial"})


MEAT_ORACLE = FrozenHeadMethod(
    name="meat_oracle",
    presets={
        "paper": MeatOracleConfig(**_PAPER, monitor="loss_without_adversarial"),
        "converged": MeatOracleConfig(**_PAPER, monitor="loss_without_adversarial", **CONVERGED),
        "official_code": MeatOracleConfig(**_OFFICIAL, variant="oracle_new", drop_last=True),
    },
    head="disent_core.methods.dream_head:meat_oracle_head",
    embeddings=EMBEDDINGS,
)
