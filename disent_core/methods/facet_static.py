"""Facet without an encoder: one table of hashed words for all languages of a training set.

It is a lexicon that is trained on many languages at once. A step has the same utterances in the source language and
in a few others, drawn anew each step, and contrasts each text with each of its translations among the texts of all
these languages. So texts of any two languages meet, and the language of a text is no help. Mates must be drawn by the
source (`[targets.parallel_mates] draw = "by_source"`): then those of an utterance are translations of each other too.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from disent_core.methods.families import SeedBySeedMethod
from disent_core.methods.lexicon import SPACE, LexiconConfig
from disent_core.settings import Positive, PositiveFloat, Share, TableRows, Width
from disent_core.training.needs import Need


@dataclass(frozen=True, kw_only=True)
class FacetStaticConfig(LexiconConfig):
    """How one table for all languages is trained.

    Attributes:
        batch_size: utterances in a step, each in the source language and in `languages_per_step` others, to which their
            mates are added.
        languages_per_step: languages of a step beside the source language.
        epochs: passes over the utterances in every language; the last one is kept.
        candidates: texts among which a translation is to be found: those of `all_languages` of a step, for each two of
            them, or those of the `other_language`, for the source language and each of the others.
        template_weight: factor of the contrastive loss of templates.
        neighbours: number of similar utterances that follow each other in the order of an epoch, as hard negatives.
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


@dataclass(frozen=True, kw_only=True)
class FacetStaticMethod(SeedBySeedMethod[FacetStaticConfig]):
    """A `Method` that reads the texts of all languages of a training set."""

    trainer: ClassVar[Any] = "disent_core.methods.facet_static_head:FacetStaticTrainer"


METHOD = FacetStaticMethod(
    name="facet_static",
    presets={
        "paper": FacetStaticConfig(),  # the name of every method's default
        "pivot": FacetStaticConfig(candidates="other_language", template_weight=1.0),
    },
    embeddings=("meaning", "template", "residual"),
    needs=frozenset({Need.UTTERANCES, Need.PARALLEL_MATES}),
    reads_encoder=False,
    space={**SPACE, "epochs": (2, 3, 4), "languages_per_step": (1, 2, 3), "template_weight": (1.0, 2.0, 3.0)},
    code_version="1",
    ranks_dev_pairs=True,
)
