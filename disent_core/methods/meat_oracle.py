"""MEAT with ORACLE's regularisers (Ki, Park and Kim 2024)."""

from dataclasses import dataclass
from typing import ClassVar

from disent_core.methods.families import FrozenHeadMethod
from disent_core.methods.meat import MeatConfig
from disent_core.methods.oracle import OracleConfig
from disent_core.training.config import CONVERGED


@dataclass(frozen=True, kw_only=True)
class MeatOracleConfig(OracleConfig, MeatConfig):
    """The switches of both methods."""

    base_terms: ClassVar[frozenset[str]] = frozenset({"adversarial"})


METHOD = FrozenHeadMethod(
    name="meat_oracle",
    presets={
        "paper": MeatOracleConfig(validation="train_fraction", monitor="loss_without_adversarial"),
        "converged": MeatOracleConfig(validation="train_fraction", monitor="loss_without_adversarial", **CONVERGED),
        "official_code": MeatOracleConfig(
            validation="train_fraction",
            variant="oracle_new",
            intra_class_scope="batch",
            intra_class_diagonal=True,
            drop_last=True,
        ),
    },
    head="disent_core.heads.oracle:meat_oracle_head",
    embeddings=("meaning", "language"),
    needs=frozenset(),
)
