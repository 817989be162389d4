"""What DREAM, MEAT and ORACLE share: two linear maps split a frozen sentence embedding, e = meaning + language."""

import torch
from torch import Tensor

from disent_core.heads.data import SIDES, Batch
from disent_core.linear import Linear
from disent_core.training import Head


class LinearHead(Head):
    """`meaning`, `language`: dim -> dim with bias, no activation. It has no loss of its own."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.meaning = Linear(dim, dim)
        self.language = Linear(dim, dim)

    def embed(self, batch: Batch) -> Batch:
        """`meaning` and `language`, each [texts, dim]."""
        return {"meaning": self.meaning(batch["vectors"]), "language": self.language(batch["vectors"])}

    def encode(self, batch: Batch) -> Batch:
        """`meaning` and `language` of all texts of the step, one product each: [roles, pairs, dim]."""
        return batch | {
            "meaning": self.meaning(batch["role_vectors"]),
            "language": self.language(batch["role_vectors"]),
        }

    def terms(self, encoded: Batch) -> Batch:
        """None."""
        return {}


def of_pairs(encoded: Batch, name: str) -> Tensor:
    """Rows of sources, then of targets, without any partners: [2 pairs, dim]."""
    return encoded[name][: len(SIDES)].flatten(0, 1)


def languages(encoded: Batch) -> Tensor:
    """Labels of the rows of `of_pairs`."""
    return torch.cat([encoded[f"{side}_language"] for side in SIDES])
