"""DREAM and MEAT: two linear maps split a frozen sentence embedding e into a meaning and a language, e = m + l.

DREAM (Tiyajamorn et al. 2021, EMNLP) compares a sentence with its translation and with random sentences. In MEAT
(Kuroda et al. 2022, COLING) translations swap their language embeddings instead, and an adversary reads the language
off the meaning embedding.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import Positive, Rate
from disent_core.training.config import CONVERGED, SPACE, TrainConfig
from disent_core.training.needs import Draw

Partner = Literal["same_language", "next_in_batch", "random_batch_row", "half_batch"]


@dataclass(frozen=True, kw_only=True)
class DreamConfig(TrainConfig):
    """Options on which the paper and the public code differ; the defaults are the paper's.

    Attributes:
        partner: the random sentence that a sentence is compared with: any training sentence of its language
            (`same_language`); the `next_in_batch` of that language, which halves the work; `random_batch_row`, the
            authors' code: the same as `same_language` for the language loss, and both sides of any other pair for the
            meaning loss; `half_batch`, ORACLE's code: the second half of the batch has the partners of the first, which
            leaves 256 pairs of 512.
        language_repulsion: add max(0, cos(s_l, t_l)), which the authors' code computes but does not use.
        without: groups of losses to leave out, as in the paper's Table 6.
    """

    learning_rate: Rate = 1e-4
    partner: Partner = "same_language"
    language_repulsion: bool = False
    without: tuple[Literal["language", "meaning"], ...] = ()


def draws(config: DreamConfig) -> tuple[Draw, ...]:
    by_partner: dict[Partner, tuple[Draw, ...]] = {
        "same_language": ("partner",),
        "next_in_batch": ("next_in_batch",),
        "random_batch_row": ("other_pair", "partner"),
        "half_batch": ("second_half",),
    }
    return by_partner[config.partner]


METHOD = FrozenHeadMethod(
    name="dream",
    presets={
        "paper": DreamConfig(validation="train_fraction"),
        "converged": DreamConfig(validation="train_fraction", **CONVERGED),
        "fast": DreamConfig(validation="train_fraction", partner="next_in_batch", precision="bfloat16"),
        "official_code": DreamConfig(
            validation="train_fraction", partner="random_batch_row", validation_draws="each_epoch", patience=10
        ),
    },
    head="disent_core.methods.dream_head:DreamHead",
    embeddings=("meaning", "language"),
    draws=draws,
    space={**SPACE, "partner": ("same_language", "next_in_batch"), "language_repulsion": (False, True)},
)


@dataclass(frozen=True, kw_only=True)
class MeatConfig(TrainConfig):
    """Options that the method's descriptions leave open.

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
                "adversary_learning_rate has no effect with adversarial = 'grad_reversal', where one step trains all; "
                "leave it out"
            )


MEAT = FrozenHeadMethod(
    name="meat",
    presets={
        "paper": MeatConfig(validation="train_fraction", monitor="loss_without_adversarial"),
        "converged": MeatConfig(validation="train_fraction", monitor="loss_without_adversarial", **CONVERGED),
        "official_code": MeatConfig(validation="train_fraction", drop_last=True),
    },
    head="disent_core.methods.dream_head:MeatHead",
    embeddings=("meaning", "language"),
)
