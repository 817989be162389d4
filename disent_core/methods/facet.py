"""Facet, disent's own method: embed the template of an utterance and the slot values that fill it separately.

It reads a text twice: the token states of a frozen encoder, of which each unit keeps the maximum of a linear map over
the tokens, and a table of hashed words and n-grams that the languages share (`lexicon`). Either view gives a
template and a residual of unit norm. All four side by side are the meaning, so the cosine of two meanings is the mean
of the cosines of their parts. Translations must have equal meanings, parallel mates (translation pairs with other slot
values) equal templates and different residuals. At the end a closed form erases from every part what a linear map can
read of the language. Low layers of the encoder do best. Reasons and failures: docs/own-method.md. The first
generation, on states alone, is `facet_first`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from disent_core.methods.families import SeedBySeedMethod
from disent_core.optimisation.config import OptimiserConfig
from disent_core.settings import (
    Decay,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    PositiveShare,
    Precision,
    Rate,
    Seconds,
    Settings,
    Width,
)
from disent_core.training.needs import Need

LeftOut = Literal["states", "words", "mates", "template_contrast", "erasure"]


@dataclass(frozen=True, kw_only=True)
class FacetConfig(Settings):
    """How the parts of the meaning are trained.

    Attributes:
        learning_rate: first learning rate of AdamW for the units over token states; it falls to 0 with the cosine of
            the steps (Loshchilov and Hutter 2017, Equation 5, without restarts).
        weight_decay: strength of their decoupled weight decay.
        words_learning_rate: first learning rate of Adam for the table of words, which falls likewise.
        batch_size: training pairs in a step, to which their parallel mates (`[targets.parallel_mates]`) are added.
        epochs: passes over the training pairs; the weights of the last one are kept.
        template_units: width of the template that is read off token states.
        residual_units: width of their residual.
        template_words: width of the template that is read off words.
        residual_words: width of their residual.
        temperature: divisor of the cosines between meanings in the contrastive loss.
        template_temperature: divisor of the cosines between templates, larger because many templates are alike.
        template_weight: factor of the contrastive loss between templates, also where either view is trained alone.
        repulsion: factor of the loss that pushes the residuals of an utterance and its mate apart; 0 leaves it out.
        reading_weight: factor of the contrastive losses of either view alone; 0 leaves them out.
        neighbours: training pairs of similar words that come together in a batch; 1 for random batches.
        kept_variance: share of the variance of each part that is kept when the language is erased; the directions that
            hold the rest are erased too.
        at_least: number of training texts from which on a word or n-gram is trained; rarer ones stay random.
        without: leave out a view of the text (`states` or `words`), the parallel `mates` as training pairs, the
            contrastive loss of templates (`template_contrast`), or the erasure of the language (`erasure`).
        precision: number format of matrix products.
        checkpoint_seconds: seconds between two checkpoints.
    """

    learning_rate: Rate = 1e-2
    weight_decay: Decay = 1.0
    words_learning_rate: Rate = 3e-3
    batch_size: Positive = 512
    epochs: Positive = 6
    template_units: Width = 512
    residual_units: Width = 512
    template_words: Width = 256
    residual_words: Width = 256
    temperature: PositiveFloat = 0.05
    template_temperature: PositiveFloat = 0.1
    template_weight: PositiveFloat = 1.0
    repulsion: NotNegativeFloat = 0.3
    reading_weight: NotNegativeFloat = 0.5
    neighbours: Positive = 64
    kept_variance: PositiveShare = 0.95
    at_least: Positive = 2
    without: tuple[LeftOut, ...] = ()
    precision: Precision = "bfloat16"
    checkpoint_seconds: Seconds = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if {"states", "words"} <= set(self.without):
            raise ValueError("without names both states and words, so nothing of a text would be read")

    @property
    def reads_states(self) -> bool:
        """Whether a part of the meaning is read off token states."""
        return "states" not in self.without

    @property
    def optimiser(self) -> OptimiserConfig:
        """AdamW of the units over token states and of the language."""
        return OptimiserConfig(learning_rate=self.learning_rate, weight_decay=self.weight_decay, schedule="cosine")

    @property
    def optimiser_of_words(self) -> OptimiserConfig:
        """Adam of the table of words."""
        return OptimiserConfig(learning_rate=self.words_learning_rate, schedule="cosine")

    @property
    def reads_words(self) -> bool:
        """Whether a part of the meaning is read off words."""
        return "words" not in self.without


@dataclass(frozen=True, kw_only=True)
class FacetMethod(SeedBySeedMethod[FacetConfig]):
    """The family of Facet alone, which trains one seed after another because a table of words is large."""

    trainer: ClassVar[Any] = "disent_core.methods.facet_head:FacetTrainer"

    def needs_of(self, settings: FacetConfig) -> frozenset[Need]:
        unread = {
            "states": {Need.TOKEN_STATES, Need.MATE_STATES},
            "mates": {Need.MATE_STATES, Need.PARALLEL_MATES},
        }
        return self.needs - {need for name in settings.without for need in unread.get(name, ())}


METHOD = FacetMethod(
    name="facet",
    presets={"paper": FacetConfig()},  # the name of every method's default
    embeddings=("meaning", "template", "residual", "language"),
    needs=frozenset({Need.TOKEN_STATES, Need.UTTERANCES, Need.PARALLEL_MATES, Need.MATE_STATES}),
    code_version="5",
)
