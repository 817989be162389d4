"""DREAM: language-agnostic meaning embeddings (Tiyajamorn et al. 2021, EMNLP).

Two linear maps split a frozen sentence embedding e into a meaning and a language embedding, e = m + l.
"""

from dataclasses import dataclass
from typing import Literal

from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import Rate
from disent_core.training.config import CONVERGED, SPACE, TrainConfig
from disent_core.training.needs import Draw

Partner = Literal["same_language", "next_in_batch", "random_batch_row", "half_batch"]


@dataclass(frozen=True, kw_only=True)
class DreamConfig(TrainConfig):
    """Switches that paper and public code read differently; the defaults are the paper's.

    Attributes:
        partner: the random sentence that a sentence is compared with. `same_language` draws it from all training
            sentences of the language. `next_in_batch` takes the batch's next sentence of that language, which is as
            random as batches are and halves the work. `random_batch_row`, the authors' code, does so for the language
            loss; for the meaning loss it takes both sides of another pair, of any languages. `half_batch`, ORACLE's
            code, takes the batch's second half as partners of the first, which leaves 256 pairs of 512.
        language_repulsion: add max(0, cos(s_l, t_l)), which the authors' code computes and leaves out.
        without: groups of losses to leave out, as in the paper's Table 6.
    """

    learning_rate: Rate = 1e-4
    partner: Partner = "same_language"
    language_repulsion: bool = False
    without: tuple[Literal["language", "meaning"], ...] = ()


def draws(config: DreamConfig) -> tuple[Draw, ...]:
    """Return random texts that the sampler draws for each choice of `partner`."""
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
