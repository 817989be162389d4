"""Train and apply the method `lexicon`: a table of hashed words and n-grams in place of an encoder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.contract import TrainedMethod
from disent_core.heads.families.mated_pairs import EMBED_BLOCK, MatedPairsTask, PairBags, pair_bags
from disent_core.heads.families.seed_by_seed import SeedBySeedTrainer, SeedTraining
from disent_core.heads.modules.hashed_words import HashedWords, WordBags, word_bags
from disent_core.methods.lexicon import LexiconConfig, LexiconMethod
from disent_core.optimisation.row_adam import RowOptimiser
from disent_core.optimisation.seeds import derived_seed
from disent_core.optimisation.steps import TrainingRun, train
from disent_core.registry import imported
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.data import TextFeatures, TrainingData


class LexiconTask(MatedPairsTask):
    """Training of one seed: the table, and the pairs."""

    def __init__(self, data: PairBags, config: LexiconConfig, seed: int) -> None:
        super().__init__(data, config, seed)
        self.words = HashedWords.of_texts(
            data.bags.take(data.trained), width(config), table_seed(seed), at_least=config.at_least
        )
        self.optimisers = {"main": RowOptimiser(self.words.table, config.optimiser)}

    def embed(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        """Return `meaning`, `template` and `residual`."""
        return facets(self.words(self.data.bags.take(texts)), self.config)


def facets(vectors: Float[Tensor, "texts dim"], config: LexiconConfig) -> dict[str, Float[Tensor, "texts _"]]:
    """Split sums of rows into `template` and `residual` of unit norm, which side by side are the `meaning`."""
    parts = vectors.split([config.template_units, config.residual_units], dim=-1)
    template, residual = (F.normalize(part, dim=-1) for part in parts)
    return {"meaning": torch.cat([template, residual], dim=-1) * 0.5**0.5, "template": template, "residual": residual}


def embed_bags(words: HashedWords, bags: WordBags, config: LexiconConfig) -> dict[str, Float[Tensor, "texts _"]]:
    """`facets` of texts, a block at a time."""
    blocks = [facets(words(bags.take(block)), config) for block in torch.arange(len(bags)).split(EMBED_BLOCK)]
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}


def width(config: LexiconConfig) -> int:
    """Width of the table."""
    return config.template_units + config.residual_units


def table_seed(seed: int) -> int:
    """Seed of the random rows of the table of a seed."""
    return derived_seed(seed, "table")


def tasks(data: TrainingData, config: LexiconConfig) -> Callable[[int], LexiconTask]:
    """Return a function that makes the task of each seed; texts are read once."""
    bags = pair_bags(data)
    return lambda seed: LexiconTask(bags, config, seed)


class LexiconTrainer(SeedBySeedTrainer[LexiconMethod]):
    """The trainer of methods that read texts alone. It computes on the CPU, where a step takes a tenth of a second."""

    def prepare(self, data: TrainingData, config: LexiconConfig, device: str) -> Callable[[TrainingRun], SeedTraining]:
        """Read the texts once for all seeds."""
        build = imported(self.method.tasks)(data, config)

        def start(run: TrainingRun) -> SeedTraining:
            task = build(run.seed)
            seed_run = replace(run, epochs=config.epochs, checkpoint_seconds=config.checkpoint_seconds)
            return SeedTraining(train(task, seed_run), lambda: _kept(task.words), {})

        return start

    def load(
        self, path: Path, config: LexiconConfig, device: str, encoder: EncoderFiles | None = None
    ) -> "TrainedLexicon":
        """Read the tables of all seeds that `save` wrote."""
        seeds = describe_weights(path)[0]["seeds"]
        return TrainedLexicon({seed: _words(path, seed, config) for seed in seeds}, config)


def _kept(words: HashedWords) -> dict[str, Tensor]:
    """The trained rows and their numbers; half the precision changes no ranking that we have seen."""
    return {"known": words.known.int(), "table": words.table.half()}


def _words(path: Path, seed: int, config: LexiconConfig) -> HashedWords:
    kept = read_weights(path, seed)[0]
    words = HashedWords(kept["known"].long(), width(config), table_seed(seed))
    with torch.no_grad():
        words.table.copy_(kept["table"])
    return words


@dataclass(frozen=True)
class TrainedLexicon(TrainedMethod):
    """The trained tables of all seeds."""

    words: Mapping[int, HashedWords]
    config: LexiconConfig

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        """Return one float32 matrix per embedding name, one row a text, in order.

        Raises:
            ValueError: if there is no seed, or there are no texts.
        """
        if seed is None:
            raise ValueError("a lexicon embeds with one of its seeds, not None")
        if features.texts is None:
            raise ValueError("a lexicon reads texts, and these features have none")
        with torch.inference_mode():
            embedded = embed_bags(self.words[seed], word_bags(features.texts), self.config)
        return {name: values.numpy() for name, values in embedded.items()}
