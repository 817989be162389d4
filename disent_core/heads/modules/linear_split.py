"""What DREAM, MEAT and ORACLE share: two linear maps split a frozen sentence embedding, e = meaning + language."""

import torch
from torch import Tensor

from disent_core.matmul import Linear
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import Head


class LinearHead(Head):
    """`meaning`, `language`: dim -> dim with bias, no activation. It has no loss terms."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.meaning = Linear(dim, dim)
        self.language = Linear(dim, dim)

    def embed(self, batch: Batch) -> Batch:
        """Return `meaning` and `language`, each [texts, dim]."""
        return {"meaning": self.meaning(batch["vectors"]), "language": self.language(batch["vectors"])}

    def encode(self, batch: Batch) -> Batch:
        """Add `source_meaning_vectors`, `source_language_vectors`, and so on."""
        return batch | self.split(batch["role_vectors"], batch["role_vectors"])

    def split(self, for_meaning: Tensor, for_language: Tensor) -> Batch:
        """Apply each map in one product: its rows are sources, targets and, if there are any, the partners of both."""
        meaning, language = self.meaning(for_meaning).unbind(0), self.language(for_language).unbind(0)
        return {
            f"{role}_{name}_vectors": rows
            for name, by_role in (("meaning", meaning), ("language", language))
            for role, rows in zip(ROLES, by_role, strict=False)
        }

    def terms(self, encoded: Batch) -> Batch:
        """Return no terms."""
        return {}


ROLES = (*SIDES, *(f"{side}_partner" for side in SIDES))


def both(encoded: Batch, name: str) -> Tensor:
    """Values of sources, then of targets: [2 pairs, ...]."""
    return torch.cat([encoded[f"{side}_{name}"] for side in SIDES])
