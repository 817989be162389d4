"""Lexicon: words instead of an encoder. The baseline that a method on an encoder has to beat.

The words of a text and their character n-grams are rows of one table for all languages; their sum is the text. Training
on translations alone turns the table into a dictionary: translations that share no letter learn each other, names match
themselves. Half of a row is for the template and half for the residual, and both, at unit norm and side by side, are
the meaning. Nothing of the encoder is read, so a lexicon is the same under every encoder; it stands under each of
them as the line to compare its methods with. Parallel mates (the same utterance in both languages with other slot
values) are further translation pairs, hard negatives of each other, and pairs of equal templates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from disent_core.methods.families import SeedBySeedMethod
from disent_core.optimisation.config import OptimiserConfig
from disent_core.settings import Positive, PositiveFloat, Rate, Seconds, Settings, Share, TableRows, Width
from disent_core.training.needs import Need


@dataclass(frozen=True, kw_only=True)
class LexiconConfig(Settings):
    """How the table of words is trained.

    Attributes:
        learning_rate: initial learning rate of Adam; it falls to 0 on a cosine schedule, step by step.
        batch_size: training pairs per step; their parallel mates (`[targets.parallel_mates]`) are added.
        epochs: passes over the training pairs; the weights of the last epoch are kept.
        template_units: width of the template embedding.
        residual_units: width of the residual embedding.
        temperature: divisor of the cosines between meanings in the contrastive loss.
        template_temperature: divisor of the cosines between templates, larger because many templates are alike.
        candidates: candidates for finding a translation: texts in the `other_language`, or in `all_languages` including
            the text's own, which leaves less of the language in the vectors.
        table_rows: rows of the table into which all words and n-grams are hashed; 2^17 are full at 13 languages.
        unseen: norm that the random rows of untrained words and n-grams have when texts are embedded.
        at_least: minimum number of training texts for a word or n-gram to be trained; rarer ones stay random.
        without: leave out the contrastive loss of templates (`template_contrast`), or the parallel mates, on which that
            loss depends (`parallel_mates`).
        checkpoint_seconds: seconds between two checkpoints.
    """

    learning_rate: Rate = 3e-3
    batch_size: Positive = 512
    epochs: Positive = 6
    template_units: Width = 256
    residual_units: Width = 256
    temperature: PositiveFloat = 0.05
    template_temperature: PositiveFloat = 0.1
    candidates: Literal["other_language", "all_languages"] = "other_language"
    table_rows: TableRows = 1 << 17
    unseen: Share = 1.0
    at_least: Positive = 2
    without: tuple[Literal["template_contrast", "parallel_mates"], ...] = ()
    checkpoint_seconds: Seconds = 30.0

    @property
    def width(self) -> int:
        return self.template_units + self.residual_units

    @property
    def unread(self) -> frozenset[Need]:
        return frozenset({Need.PARALLEL_MATES} if "parallel_mates" in self.without else ())

    @property
    def optimiser(self) -> OptimiserConfig:
        return OptimiserConfig(learning_rate=self.learning_rate, schedule="cosine")


SPACE: Mapping[str, tuple[Any, ...]] = {
    "learning_rate": (1e-3, 3e-3, 1e-2),
    "batch_size": (256, 512, 1024),
    "epochs": (4, 6, 8, 10),
    "template_units": (128, 256, 512),
    "residual_units": (128, 256, 512),
    "temperature": (0.03, 0.05, 0.1),
    "template_temperature": (0.05, 0.1, 0.2),
    "at_least": (1, 2, 3),
}
"""Values that a settings search draws from."""

# The best of 8 settings on dev of MASSIVE en-it, configs/massive_search.toml
_SEARCHED = LexiconConfig(batch_size=256, epochs=10, temperature=0.1, template_temperature=0.2, at_least=1)

METHOD = SeedBySeedMethod(
    name="lexicon",
    trainer="disent_core.methods.lexicon_head:LexiconTrainer",
    presets={
        "paper": _SEARCHED,  # the name of every method's default
        "searched": _SEARCHED,  # their name before they were the default
        "six_epochs": LexiconConfig(),  # the default before
        "no_template_contrast": LexiconConfig(without=("template_contrast",)),
        "no_parallel_mates": LexiconConfig(without=("parallel_mates",)),
    },
    embeddings=("meaning", "template", "residual"),
    needs=frozenset({Need.UTTERANCES, Need.PARALLEL_MATES}),
    reads_encoder=False,
    trains_on_gpu=False,
    space=SPACE,
    code_version="1",  # that of the family is 2
    ranks_dev_pairs=True,
)
