"""DREAM: language-agnostic meaning embeddings (Tiyajamorn et al. 2021, EMNLP).

Two linear maps split a frozen sentence embedding e into a meaning and a language embedding, e = m + l.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from disent_core import losses
from disent_core.heads.data import Batch
from disent_core.heads.frozen import FrozenHeadMethod
from disent_core.heads.linear import LinearHead, languages, of_pairs
from disent_core.heads.sampling import Draw
from disent_core.training import TrainConfig

Partner = Literal["same_language", "random_batch_row", "half_batch"]
SOURCE, TARGET, SOURCE_PARTNER, TARGET_PARTNER = range(4)


@dataclass(frozen=True, kw_only=True)
class DreamConfig(TrainConfig):
    """Switches that paper and public code read differently; the defaults are the paper's.

    `partner`: the random sentences. `same_language` draws them from all training sentences of the anchor's
    language. `random_batch_row`, the authors' code, does so for the language loss; for the meaning loss it takes
    both sides of another pair, of any languages. `half_batch`, ORACLE's code: the batch's second half serves the
    first, of any languages, which leaves 256 pairs of 512. `language_repulsion` adds max(0, cos(s_l, t_l)), which
    the authors' code computes and leaves out. `without` leaves out a group of losses, as in the paper's Table 6.
    """

    learning_rate: float = 1e-4
    partner: Partner = "same_language"
    language_repulsion: bool = False
    without: tuple[Literal["language", "meaning"], ...] = ()


class DreamHead(LinearHead):
    """`meaning`, `language`: dim -> dim with bias; `identity`: dim -> languages."""

    def __init__(self, dim: int, n_languages: int, config: DreamConfig) -> None:
        super().__init__(dim)
        self.config = config
        self.identity = nn.Linear(dim, n_languages)

    def encode(self, batch: Batch) -> Batch:
        """`meaning` and `language` of source, target and their partners: [roles, pairs, dim]."""
        if self.config.partner != "random_batch_row":
            return super().encode(batch)
        pairs, others, partners = batch["role_vectors"].split(2)
        return batch | {
            "meaning": self.meaning(torch.cat([pairs, others])),
            "language": self.language(torch.cat([pairs, partners])),
        }

    def terms(self, encoded: Batch) -> dict[str, Tensor]:
        """Loss terms of Section 3: every one a mean over the pairs, summed over both sides."""
        total = of_pairs(encoded, "meaning") + of_pairs(encoded, "language")
        found = {"reconstruction": 2 * losses.squared_error(total, of_pairs(encoded, "role_vectors")).mean()}
        if "meaning" not in self.config.without:
            found |= self._meaning_terms(losses.cosines(encoded["meaning"].transpose(0, 1)))
        if "language" not in self.config.without:
            found |= self._language_terms(losses.cosines(encoded["language"].transpose(0, 1)))
            identified = losses.identification(self.identity(of_pairs(encoded, "language")), languages(encoded))
            found["language_identification"] = 2 * identified.mean()
        return found

    def _meaning_terms(self, cosine: Tensor) -> dict[str, Tensor]:
        from_partners = cosine[:, SOURCE, SOURCE_PARTNER].clamp_min(0) + cosine[:, TARGET, TARGET_PARTNER].clamp_min(0)
        return {"meaning_parallel": 1 - cosine[:, SOURCE, TARGET].mean(), "meaning_random": from_partners.mean()}

    def _language_terms(self, cosine: Tensor) -> dict[str, Tensor]:
        to_partners = cosine[:, SOURCE, SOURCE_PARTNER] + cosine[:, TARGET, TARGET_PARTNER]
        found = {"language_embedding": 2 - to_partners.mean()}
        if self.config.language_repulsion:
            found["language_repulsion"] = cosine[:, SOURCE, TARGET].clamp_min(0).mean()
        return found


def draws(config: DreamConfig) -> tuple[Draw, ...]:
    """What the sampler draws for each choice of `partner`."""
    by_partner: dict[Partner, tuple[Draw, ...]] = {
        "same_language": ("partner",),
        "random_batch_row": ("other_pair", "partner"),
        "half_batch": ("second_half",),
    }
    return by_partner[config.partner]


METHOD = FrozenHeadMethod(
    name="dream",
    presets={
        "paper": DreamConfig(validation="train_fraction"),
        "official_code": DreamConfig(
            validation="train_fraction", partner="random_batch_row", validation_draws="each_epoch", patience=10
        ),
    },
    head=DreamHead,
    embeddings=("meaning", "language"),
    needs=frozenset(),
    draws=draws,
)
