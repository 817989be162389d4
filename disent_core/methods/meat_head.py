"""The head of MEAT: two linear maps, its losses, and the discriminator."""

from torch import Tensor, nn

from disent_core.losses import similarity
from disent_core.methods.dream_head import LinearHead, both
from disent_core.methods.families.frozen import sum_of_means
from disent_core.methods.meat import MeatConfig
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import ADVERSARIAL

OTHER = {"source": "target", "target": "source"}


class MeatHead(LinearHead):
    """`meaning`, `language`: dim -> dim with bias; `discriminator`: dim -> languages, of the meaning."""

    def __init__(self, dim: int, n_languages: int, config: MeatConfig) -> None:
        super().__init__(dim)
        self.config = config
        self.discriminator = nn.Linear(dim, n_languages)
        self.adversary = "" if config.adversarial == "grad_reversal" else "discriminator"

    def terms(self, encoded: Batch) -> Batch:
        """Return the four terms: each is a mean over the pairs, summed over both sides."""
        return {
            "reconstruction": sum_of_means(self._distance(encoded, side, side) for side in SIDES),
            "cross_reconstruction": sum_of_means(self._distance(encoded, side, OTHER[side]) for side in SIDES),
            "language_repulsion": similarity.hinged_cosine(
                encoded["source_language_vectors"], encoded["target_language_vectors"]
            ).mean(),
            ADVERSARIAL: 2 * self._adversarial(encoded).mean(),
        }

    def adversary_terms(self, encoded: Batch) -> Batch:
        """Return the cross-entropy of the discriminator, summed over both sides."""
        return {"discriminator": 2 * self._identified(encoded, both(encoded, "meaning_vectors")).mean()}

    def _distance(self, encoded: Batch, side: str, whose: str) -> Tensor:
        """Return a side's meaning plus the language of `whose` side should give the sentence vector of `whose` side."""
        reconstructed = encoded[f"{side}_meaning_vectors"] + encoded[f"{whose}_language_vectors"]
        distance = similarity.cosine_distance if self.config.reconstruction == "cosine" else similarity.squared_error
        return distance(reconstructed, encoded[f"{whose}_vectors"])

    def _adversarial(self, encoded: Batch) -> Tensor:
        meaning = both(encoded, "meaning_vectors")
        if self.config.adversarial == "uniform_ce":
            return similarity.uniform_cross_entropy(self.discriminator(meaning))
        if self.config.adversarial == "negative_ce":
            return -self._identified(encoded, meaning)
        return self._identified(encoded, _reversed(meaning))

    def _identified(self, encoded: Batch, meaning: Tensor) -> Tensor:
        return similarity.cross_entropy(self.discriminator(meaning), both(encoded, "language"))


def _reversed(rows: Tensor) -> Tensor:
    """Return the same values with the sign of their gradient reversed."""
    return 2 * rows.detach() - rows
