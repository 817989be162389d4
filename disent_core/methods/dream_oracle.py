"""DREAM with ORACLE's regularisers (Ki, Park and Kim 2024)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from disent_core.methods.dream import DreamConfig, draws
from disent_core.methods.families import FrozenHeadMethod
from disent_core.methods.oracle import OracleConfig
from disent_core.training.config import CONVERGED


@dataclass(frozen=True, kw_only=True)
class DreamOracleConfig(OracleConfig, DreamConfig):
    """The switches of both methods.

    Attributes:
        without: groups of DREAM's losses (`language`, `meaning`) and regularisers of ORACLE to leave out.
    """

    base_terms: ClassVar[frozenset[str]] = frozenset({"meaning_parallel", "meaning_random", "language_embedding"})

    without: tuple[Literal["language", "meaning", "intra_class", "inter_class"], ...] = ()  # pyright: ignore[reportIncompatibleVariableOverride]


METHOD = FrozenHeadMethod(
    name="dream_oracle",
    presets={
        "paper": DreamOracleConfig(validation="train_fraction"),
        "converged": DreamOracleConfig(validation="train_fraction", **CONVERGED),
        "fast": DreamOracleConfig(validation="train_fraction", partner="next_in_batch", precision="bfloat16"),
        "official_code": DreamOracleConfig(
            validation="train_fraction",
            variant="oracle_new",
            partner="half_batch",
            intra_class_scope="batch",
            intra_class_diagonal=True,
        ),
    },
    head="disent_core.heads.oracle:dream_oracle_head",
    embeddings=("meaning", "language"),
    needs=frozenset(),
    draws=draws,
)
