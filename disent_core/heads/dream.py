"""The head of DREAM: two linear maps, its losses, and a classifier of languages."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from disent_core.heads.families.frozen import sum_of_means
from disent_core.heads.modules.attention import permuted
from disent_core.heads.modules.dream_gradient import terms_and_gradient
from disent_core.heads.modules.linear_split import ROLES, LinearHead, both
from disent_core.losses import similarity
from disent_core.methods.dream import DreamConfig
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked_state import Parameters


class DreamHead(LinearHead):
    """`meaning`, `language`: dim -> dim with bias; `identity`: dim -> languages."""

    def __init__(self, dim: int, n_languages: int, config: DreamConfig) -> None:
        super().__init__(dim)
        self.config = config
        self.identity = nn.Linear(dim, n_languages)
        has_papers_terms = type(self) is DreamHead and not (config.without or config.language_repulsion)
        self.has_gradient = config.partner == "next_in_batch" and has_papers_terms

    def terms_and_gradient(
        self, parameters: Parameters, batch: Batch, weights: Mapping[str, float]
    ) -> tuple[Batch, Parameters]:
        """Return the terms of the paper, and the gradient of their weighted sum."""
        return terms_and_gradient(parameters, batch, weights, self.meaning.precision)

    def encode(self, batch: Batch) -> Batch:
        """Add `source_meaning_vectors`, `target_partner_language_vectors`, and so on."""
        if self.config.partner == "random_batch_row":
            pairs, other_pairs, partners = batch["role_vectors"].split(2)
            return batch | self.split(torch.cat([pairs, other_pairs]), torch.cat([pairs, partners]))
        encoded = super().encode(batch)
        if self.config.partner == "next_in_batch":
            for side in SIDES:
                following = batch[f"{side}_next_in_batch"]
                before = following.argsort()  # the inverse of that permutation
                for name in ("meaning_vectors", "language_vectors"):
                    encoded[f"{side}_partner_{name}"] = permuted(encoded[f"{side}_{name}"], following, before)
        return encoded

    def terms(self, encoded: Batch) -> Batch:
        """Loss terms of Section 3: each is a mean over the pairs, summed over both sides."""
        terms = {"reconstruction": sum_of_means(self._reconstruction(encoded, side) for side in SIDES)}
        if "meaning" not in self.config.without:
            pair, *partners = _cosines(encoded, "meaning")
            terms["meaning_parallel"] = 1 - pair.mean()
            terms["meaning_random"] = sum_of_means(cosine.clamp_min(0) for cosine in partners)
        if "language" not in self.config.without:
            pair, *partners = _cosines(encoded, "language")
            terms["language_embedding"] = sum_of_means(1 - cosine for cosine in partners)
            logits = self.identity(both(encoded, "language_vectors"))
            terms["language_identification"] = 2 * similarity.cross_entropy(logits, both(encoded, "language")).mean()
            if self.config.language_repulsion:
                terms["language_repulsion"] = pair.clamp_min(0).mean()
        return terms

    def _reconstruction(self, encoded: Batch, side: str) -> Tensor:
        total = encoded[f"{side}_meaning_vectors"] + encoded[f"{side}_language_vectors"]
        return similarity.squared_error(total, encoded[f"{side}_vectors"])


def _cosines(encoded: Batch, name: str) -> tuple[Tensor, ...]:
    """Cosines of source and target, and of each with its partner."""
    return similarity.cosines([encoded[f"{role}_{name}_vectors"] for role in ROLES], ((0, 1), (0, 2), (1, 3)))
