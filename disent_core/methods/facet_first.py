"""The first generation of Facet: embed the template of an utterance and the slot values that fill it separately.

Each unit applies one linear map to every token of a text and keeps the maximum. Half of the units are the template,
half the residual; both, at unit norm and side by side, are the meaning, so the cosine of two meanings is the mean of
the cosines of their templates and residuals. Pairs of slot swaps (utterances that differ in slot values only) teach
the template what slot values must not change; as hard negatives among translations they leave the values to the
residual. Reasons and failures: docs/own-method.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from disent_core.methods.families import FrozenHeadMethod
from disent_core.settings import Decay, Positive, PositiveFloat, Rate, Width
from disent_core.training.config import TrainConfig
from disent_core.training.needs import Draw, Need


@dataclass(frozen=True, kw_only=True)
class FacetFirstConfig(TrainConfig):
    """How the template and residual embeddings are trained.

    Attributes:
        schedule: `cosine` lowers the learning rate epoch by epoch to almost 0 in the last of `max_epochs` (Loshchilov
            and Hutter 2017, Equation 5, without restarts). Early stopping would cut it off, so `patience` is as long.
        template_units: width of the template embedding.
        residual_units: width of the residual embedding.
        temperature: divisor of the cosines between meanings in the contrastive loss.
        template_temperature: divisor of the cosines between templates, larger because many templates are alike.
        without: leave out the contrastive loss of templates (`template_contrast`), or the slot swaps, which are
            utterances with other slot values, as hard negatives of translations (`mate_negatives`).
    """

    learning_rate: Rate = 1e-2
    schedule: Literal["constant", "cosine"] = "cosine"
    weight_decay: Decay = 1.0
    max_epochs: Positive = 20
    patience: Positive = 20
    monitor: Literal["loss", "loss_without_adversarial", "dev_retrieval"] = "dev_retrieval"
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    template_units: Width = 512
    residual_units: Width = 512
    temperature: PositiveFloat = 0.05
    template_temperature: PositiveFloat = 0.1
    without: tuple[Literal["template_contrast", "mate_negatives"], ...] = ()

    def in_epoch(self, epoch: int) -> "FacetFirstConfig":
        """Return the settings with the learning rate of the epoch."""
        if self.schedule == "constant":
            return self
        factor = (1 + math.cos(math.pi * epoch / self.max_epochs)) / 2
        return replace(self, learning_rate=factor * self.learning_rate)


def draws(config: FacetFirstConfig) -> tuple[Draw, ...]:
    """Return slot swaps, unless no loss term uses them."""
    return () if {"template_contrast", "mate_negatives"} <= set(config.without) else ("slot_swap",)


METHOD = FrozenHeadMethod(
    name="facet_first",
    presets={
        "paper": FacetFirstConfig(),  # the name of every method's default
        "no_template_contrast": FacetFirstConfig(without=("template_contrast",)),
        "no_mate_negatives": FacetFirstConfig(without=("mate_negatives",)),
        "translations_only": FacetFirstConfig(without=("template_contrast", "mate_negatives")),
    },
    head="disent_core.methods.facet_first_head:FacetFirstHead",
    embeddings=("meaning", "template", "residual", "language"),
    needs=frozenset({Need.TOKEN_STATES, Need.TEMPLATE_PAIRS}),
    draws=draws,
    code_version="2",
)
