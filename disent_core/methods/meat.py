"""MEAT: meaning embeddings that a discriminator cannot tell the language of (Kuroda et al. 2022, COLING).

Two linear maps as in DREAM, but no random sentences: translations swap their language embeddings, and an
adversary reads the language off the meaning embedding.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import Positive, Rate
from disent_core.training.config import CONVERGED, TrainConfig


@dataclass(frozen=True, kw_only=True)
class MeatConfig(TrainConfig):
    """Switches of what the method's descriptions leave open.

    Attributes:
        reconstruction: distance between a sentence vector and its reconstruction.
        adversarial: the loss that hides the language from the discriminator. `uniform_ce` asks for a uniform output,
            `negative_ce` for a wrong one; each step trains the discriminator first. `grad_reversal` trains both at
            once, the discriminator on its loss and the maps on its negative (Ganin and Lempitsky 2015).
    """

    learning_rate: Rate = 1e-5
    max_epochs: Positive = 10_000
    patience: Positive = 10
    reconstruction: Literal["cosine", "mse"] = "cosine"
    adversarial: Literal["uniform_ce", "grad_reversal", "negative_ce"] = "uniform_ce"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adversarial == "grad_reversal" and self.adversary_learning_rate is not None:
            raise ValueError(
                "adversary_learning_rate has no meaning with adversarial = 'grad_reversal': one step for all"
            )


METHOD = FrozenHeadMethod(
    name="meat",
    presets={
        "paper": MeatConfig(validation="train_fraction", monitor="loss_without_adversarial"),
        "converged": MeatConfig(validation="train_fraction", monitor="loss_without_adversarial", **CONVERGED),
        "official_code": MeatConfig(validation="train_fraction", drop_last=True),
    },
    head="disent_core.methods.dream_head:MeatHead",
    embeddings=("meaning", "language"),
)
