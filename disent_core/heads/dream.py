"""DREAM: language-agnostic meaning embeddings (Tiyajamorn et al. 2021, EMNLP).

Two linear maps split a frozen sentence embedding e into a meaning and a language embedding, e = m + l.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from disent_core import losses
from disent_core.heads.data import SIDES, Batch
from disent_core.heads.frozen import FrozenHeadMethod, sum_of_means
from disent_core.training import Head, TrainConfig


@dataclass(frozen=True, kw_only=True)
class DreamConfig(TrainConfig):
    """`without` leaves out a group of losses, as in the paper's Table 6."""

    learning_rate: float = 1e-4
    without: tuple[Literal["language", "meaning"], ...] = ()


class DreamHead(Head):
    """`meaning`, `language`: dim -> dim with bias; `identity`: dim -> languages."""

    def __init__(self, dim: int, n_languages: int, config: DreamConfig) -> None:
        super().__init__()
        self.without = frozenset(config.without)
        self.meaning = nn.Linear(dim, dim)
        self.language = nn.Linear(dim, dim)
        self.identity = nn.Linear(dim, n_languages)

    def embed(self, batch: Batch) -> dict[str, Tensor]:
        """`meaning` and `language`, each [texts, dim]."""
        return {"meaning": self.meaning(batch["vectors"]), "language": self.language(batch["vectors"])}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Loss terms of Section 3: every one a mean over the pairs, summed over both sides."""
        own = {side: self.embed({"vectors": batch[f"{side}_vectors"]}) for side in SIDES}
        partner = {side: self.embed({"vectors": batch[f"{side}_partner_vectors"]}) for side in SIDES}
        terms = {"reconstruction": sum_of_means(self._reconstruction(batch, own, side) for side in SIDES)}
        if "meaning" not in self.without:
            terms["meaning_parallel"] = losses.cosine_distance(
                own["source"]["meaning"], own["target"]["meaning"]
            ).mean()
            terms["meaning_random"] = sum_of_means(
                losses.hinged_cosine(own[side]["meaning"], partner[side]["meaning"]) for side in SIDES
            )
        if "language" not in self.without:
            terms["language_embedding"] = sum_of_means(
                losses.cosine_distance(own[side]["language"], partner[side]["language"]) for side in SIDES
            )
            terms["language_identification"] = sum_of_means(
                losses.identification(self.identity(own[side]["language"]), batch[f"{side}_language"]) for side in SIDES
            )
        return terms

    def _reconstruction(self, batch: Batch, own: dict[str, dict[str, Tensor]], side: str) -> Tensor:
        total = own[side]["meaning"] + own[side]["language"]
        return losses.squared_error(total, batch[f"{side}_vectors"])


METHOD = FrozenHeadMethod(
    name="dream",
    presets={"paper": DreamConfig(validation="train_fraction")},
    head=DreamHead,
    embeddings=("meaning", "language"),
    needs=frozenset(),
    draws=("partner",),
)
