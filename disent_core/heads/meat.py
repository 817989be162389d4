"""MEAT: meaning embeddings that a discriminator cannot tell the language of (Kuroda et al. 2022, COLING).

Two linear maps as in DREAM, but no random sentences: translations swap their language embeddings, and an
adversary reads the language off the meaning embedding.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from disent_core.heads.families.frozen import FrozenHeadMethod, sum_of_means
from disent_core.heads.modules.linear_split import LinearHead, both
from disent_core.losses import similarity
from disent_core.training.config import TrainConfig
from disent_core.training.data import Batch
from disent_core.training.needs import SIDES
from disent_core.training.stacked import ADVERSARIAL

OTHER = {"source": "target", "target": "source"}


@dataclass(frozen=True, kw_only=True)
class MeatConfig(TrainConfig):
    """Switches of what the method's descriptions leave open.

    Attributes:
        reconstruction: distance between a sentence vector and its reconstruction.
        adversarial: the loss that hides the language from the discriminator. `uniform_ce` asks for a uniform output,
            `negative_ce` for a wrong one; each step trains the discriminator first. `grad_reversal` trains both at
            once, the discriminator on its loss and the maps on its negative (Ganin and Lempitsky 2015).
    """

    learning_rate: float = 1e-5
    max_epochs: int = 10_000
    patience: int = 10
    reconstruction: Literal["cosine", "mse"] = "cosine"
    adversarial: Literal["uniform_ce", "grad_reversal", "negative_ce"] = "uniform_ce"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adversarial == "grad_reversal" and self.adversary_learning_rate is not None:
            raise ValueError(
                "adversary_learning_rate has no meaning with adversarial = 'grad_reversal': one step for all"
            )


class MeatHead(LinearHead):
    """`meaning`, `language`: dim -> dim with bias; `discriminator`: dim -> languages, of the meaning."""

    def __init__(self, dim: int, n_languages: int, config: MeatConfig) -> None:
        super().__init__(dim)
        self.config = config
        self.discriminator = nn.Linear(dim, n_languages)
        self.adversary = "" if config.adversarial == "grad_reversal" else "discriminator"

    def terms(self, encoded: Batch) -> Batch:
        """The four terms: each is a mean over the pairs, summed over both sides."""
        return {
            "reconstruction": sum_of_means(self._distance(encoded, side, side) for side in SIDES),
            "cross_reconstruction": sum_of_means(self._distance(encoded, side, OTHER[side]) for side in SIDES),
            "language_repulsion": similarity.hinged_cosine(
                encoded["source_language_vectors"], encoded["target_language_vectors"]
            ).mean(),
            ADVERSARIAL: 2 * self._adversarial(encoded).mean(),
        }

    def adversary_terms(self, encoded: Batch) -> Batch:
        """Cross-entropy of the discriminator, summed over both sides."""
        return {"discriminator": 2 * self._identified(encoded, both(encoded, "meaning_vectors")).mean()}

    def _distance(self, encoded: Batch, side: str, whose: str) -> Tensor:
        """A side's meaning plus the language of `whose` side should give the sentence vector of `whose` side."""
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
    """The same values with the sign of their gradient reversed."""
    return 2 * rows.detach() - rows


METHOD = FrozenHeadMethod(
    name="meat",
    presets={
        "paper": MeatConfig(validation="train_fraction", monitor="loss_without_adversarial"),
        "official_code": MeatConfig(validation="train_fraction", drop_last=True),
    },
    head=MeatHead,
    embeddings=("meaning", "language"),
    needs=frozenset(),
)
