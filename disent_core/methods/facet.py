"""Facet, disent's own method: embed the template of an utterance and the slot values that fill it separately.

This module declares `facet`, its first generation `facet_first`, and `facet_static`.

`facet` reads a text twice: the token states of a frozen encoder, of which each unit keeps the maximum of a linear map
over the tokens, and a table of hashed words and n-grams that the languages share (`lexicon`). Each view gives a
template and a residual of unit norm. All four side by side are the meaning, so the cosine of two meanings is the mean
of the cosines of their parts. Translations are trained to have equal meanings, parallel mates (translation pairs with
other slot values) equal templates and different residuals. At the end a closed form erases from every part what a
linear map can read of the language. Low layers of the encoder do best. Reasons and failures: docs/own-method.md.

The first generation, `facet_first`, reads token states alone. Pairs of slot swaps (utterances of one language that
differ in slot values only) teach its template what slot values must not change; as hard negatives among translations
they leave the values to the residual.

`facet_static` has no encoder: it is a lexicon that is trained on all languages of a training set at once. A step has
the same utterances in the source language and in a few others, drawn anew each step, and contrasts each text with each
of its translations among the texts of all these languages. So texts of any two languages meet, and the language of a
text is no help. Mates must be drawn by the source (`[targets.parallel_mates] draw = "by_source"`): then those of an
utterance are translations of each other too.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from disent_core.methods.families import FrozenHeadMethod, SeedBySeedMethod
from disent_core.methods.lexicon import SPACE as WORDS_SPACE
from disent_core.methods.lexicon import LexiconConfig
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
    Share,
    TableRows,
    Width,
)
from disent_core.training.config import TrainConfig
from disent_core.training.needs import Draw, Need

LeftOut = Literal["states", "words", "mates", "template_contrast", "erasure"]


@dataclass(frozen=True, kw_only=True)
class FacetConfig(Settings):
    """How the parts of the meaning are trained.

    Attributes:
        learning_rate: initial learning rate of AdamW for the units over token states; it falls to 0 on a cosine
            schedule.
        weight_decay: strength of the decoupled weight decay of these units.
        words_learning_rate: initial learning rate of Adam for the table of words, on the same schedule.
        batch_size: training pairs per step; their parallel mates (`[targets.parallel_mates]`) are added.
        epochs: passes over the training pairs; the weights of the last epoch are kept.
        template_units: width of the template read from token states.
        residual_units: width of the residual read from token states.
        template_words: width of the template read from words.
        residual_words: width of the residual read from words.
        temperature: divisor of the cosines between meanings in the contrastive loss.
        template_temperature: divisor of the cosines between templates, larger because many templates are alike.
        template_weight: weight of the contrastive loss between templates, also where each view is trained alone.
        repulsion: weight of the loss that pushes the residuals of an utterance and its mate apart; 0 leaves it out.
        reading_weight: weight of the contrastive losses of each view alone; 0 leaves them out.
        sentence_weight: share of the encoder's sentence vector in the cosine of two meanings; it preserves more of the
            encoder's similarity, and 0 leaves it out. The other parts are trained without it.
        neighbours: number of training pairs with similar words to group in a batch; 1 for random batches.
        kept_variance: share of each part's variance to keep when the language is erased; the directions that hold the
            rest are erased too.
        candidates: candidates for finding a translation: texts in the `other_language`, or in `all_languages` including
            the text's own, which leaves less of the language in the vectors.
        mates_differ_by: parts trained to tell a text from its mate, which shares its template: `all_parts`, or the
            `residual` alone.
        at_least: minimum number of training texts for a word or n-gram to be trained; rarer ones stay random.
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
    sentence_weight: Share = 0.0
    neighbours: Positive = 64
    kept_variance: PositiveShare = 0.95
    candidates: Literal["other_language", "all_languages"] = "other_language"
    mates_differ_by: Literal["all_parts", "residual"] = "all_parts"
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
        return "states" not in self.without

    @property
    def reads_words(self) -> bool:
        return "words" not in self.without

    @property
    def words_width(self) -> int:
        return self.template_words + self.residual_words

    @property
    def unread(self) -> frozenset[Need]:
        of_states = {Need.TOKEN_STATES, Need.MATE_STATES} if "states" in self.without else set()
        return frozenset(of_states | ({Need.MATE_STATES, Need.PARALLEL_MATES} if "mates" in self.without else set()))

    @property
    def optimiser(self) -> OptimiserConfig:
        """AdamW of the units over token states and of the language."""
        return OptimiserConfig(learning_rate=self.learning_rate, weight_decay=self.weight_decay, schedule="cosine")

    @property
    def optimiser_of_words(self) -> OptimiserConfig:
        return OptimiserConfig(learning_rate=self.words_learning_rate, schedule="cosine")


METHOD = SeedBySeedMethod(
    name="facet",
    trainer="disent_core.methods.facet_head:FacetTrainer",
    presets={"paper": FacetConfig()},  # the name of every method's default
    embeddings=("meaning", "template", "residual", "language"),
    needs=frozenset({Need.TOKEN_STATES, Need.UTTERANCES, Need.PARALLEL_MATES, Need.MATE_STATES}),
    trains_on_gpu=False,
    space={
        **WORDS_SPACE,
        "learning_rate": (3e-3, 1e-2, 3e-2),
        "weight_decay": (0.3, 1.0, 3.0),
        "words_learning_rate": WORDS_SPACE["learning_rate"],
        "template_units": (256, 512),
        "residual_units": (256, 512),
        "template_words": WORDS_SPACE["template_units"],
        "residual_words": WORDS_SPACE["residual_units"],
        "template_weight": (0.5, 1.0, 2.0),
        "repulsion": (0.0, 0.3, 1.0),
        "reading_weight": (0.0, 0.5, 1.0),
        "neighbours": (1, 32, 64, 128),
        "kept_variance": (0.9, 0.95, 0.99),
    },
    code_version="5",
    ranks_dev_pairs=True,
)


@dataclass(frozen=True, kw_only=True)
class FacetFirstConfig(TrainConfig):
    """How the template and residual embeddings are trained.

    Attributes:
        schedule: `cosine` lowers the learning rate epoch by epoch, to almost 0 in the last of `max_epochs` (Loshchilov
            and Hutter 2017, Equation 5, without restarts). Early stopping would cut this short, so `patience` is just
            as large.
        template_units: width of the template embedding.
        residual_units: width of the residual embedding.
        temperature: divisor of the cosines between meanings in the contrastive loss.
        template_temperature: divisor of the cosines between templates, larger because many templates are alike.
        without: leave out the contrastive loss of templates (`template_contrast`), or slot swaps, utterances with other
            slot values, as hard negatives of translations (`mate_negatives`).
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
        if self.schedule == "constant":
            return self
        factor = (1 + math.cos(math.pi * epoch / self.max_epochs)) / 2
        return replace(self, learning_rate=factor * self.learning_rate)


def draws(config: FacetFirstConfig) -> tuple[Draw, ...]:
    return () if {"template_contrast", "mate_negatives"} <= set(config.without) else ("slot_swap",)


FACET_FIRST = FrozenHeadMethod(
    name="facet_first",
    presets={
        "paper": FacetFirstConfig(),  # the name of every method's default
        "no_template_contrast": FacetFirstConfig(without=("template_contrast",)),
        "no_mate_negatives": FacetFirstConfig(without=("mate_negatives",)),
        "translations_only": FacetFirstConfig(without=("template_contrast", "mate_negatives")),
    },
    head="disent_core.methods.facet_head:FacetFirstHead",
    embeddings=("meaning", "template", "residual", "language"),
    needs=frozenset({Need.TOKEN_STATES, Need.TEMPLATE_PAIRS}),
    draws=draws,
    code_version="2",
)


@dataclass(frozen=True, kw_only=True)
class FacetStaticConfig(LexiconConfig):
    """How one table for all languages is trained.

    Attributes:
        batch_size: utterances per step, each in the source language and in `languages_per_step` others; their mates are
            added.
        languages_per_step: languages per step besides the source language.
        epochs: passes over the utterances in every language; the weights of the last epoch are kept.
        candidates: candidates for finding a translation: texts in `all_languages` of a step, for every pair of them, or
            in the `other_language`, for the source language and each of the others.
        template_weight: weight of the contrastive loss of templates.
        neighbours: number of similar utterances placed next to each other in an epoch, as hard negatives.
    """

    batch_size: Positive = 512
    languages_per_step: Positive = 3
    epochs: Positive = 3
    template_units: Width = 128
    residual_units: Width = 128
    candidates: Literal["other_language", "all_languages"] = "all_languages"
    template_weight: PositiveFloat = 3.0
    table_rows: TableRows = 1 << 19
    unseen: Share = 0.25
    neighbours: Positive = 64


FACET_STATIC = SeedBySeedMethod(
    name="facet_static",
    trainer="disent_core.methods.facet_head:FacetStaticTrainer",
    presets={
        "paper": FacetStaticConfig(),  # the name of every method's default
        "pivot": FacetStaticConfig(candidates="other_language", template_weight=1.0),
    },
    embeddings=("meaning", "template", "residual"),
    needs=frozenset({Need.UTTERANCES, Need.PARALLEL_MATES}),
    reads_encoder=False,
    trains_on_gpu=False,
    space={**WORDS_SPACE, "epochs": (2, 3, 4), "languages_per_step": (1, 2, 3), "template_weight": (1.0, 2.0, 3.0)},
    code_version="1",
    ranks_dev_pairs=True,
)
