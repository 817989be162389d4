"""Train and apply the method `lexicon`: a table of hashed words and n-grams in place of an encoder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.methods.families.mated_pairs import (
    MatedPairsTask,
    PairBags,
    in_blocks,
    pair_bags,
    side_by_side,
    table_seed,
)
from disent_core.methods.families.seed_by_seed import SeedBySeedTrainer, SeedTraining, training_of_tasks
from disent_core.methods.lexicon import LexiconConfig, LexiconMethod
from disent_core.methods.modules.hashed_words import HashedNgramTable, ngram_bags
from disent_core.methods.trainer import TrainedMethod
from disent_core.optimisation.optimiser import RowOptimiser
from disent_core.optimisation.steps import TrainingRun
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.data import TextFeatures, TrainingData


class LexiconTask(MatedPairsTask):
    """Training of one seed: the table, and the pairs."""

    def __init__(self, data: PairBags, config: LexiconConfig, seed: int) -> None:
        super().__init__(data, config, seed)
        self.words = data.table(width(config), seed, config.at_least)
        self.optimisers = {"main": RowOptimiser(self.words.table, config.optimiser)}

    def embed(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        return facets(self.words(self.data.bags.take(texts)), self.config)


def facets(vectors: Float[Tensor, "texts dim"], config: LexiconConfig) -> dict[str, Float[Tensor, "texts _"]]:
    """Split sums of rows into `template` and `residual` of unit norm, which side by side are the `meaning`."""
    parts = vectors.split([config.template_units, config.residual_units], dim=-1)
    return side_by_side([F.normalize(part, dim=-1) for part in parts])


def width(config: LexiconConfig) -> int:
    """Return the width of the table."""
    return config.template_units + config.residual_units


class LexiconTrainer(SeedBySeedTrainer[LexiconMethod]):
    """The trainer of methods that read texts alone. It computes on the CPU, where a step takes a tenth of a second."""

    def prepare(self, data: TrainingData, config: LexiconConfig, device: str) -> Callable[[TrainingRun], SeedTraining]:
        bags = pair_bags(data)
        return training_of_tasks(lambda seed: LexiconTask(bags, config, seed), config, _weights)

    def load(
        self, path: Path, config: LexiconConfig, device: str, encoder: EncoderFiles | None = None
    ) -> "TrainedLexicon":
        seeds = describe_weights(path)[0]["seeds"]
        return TrainedLexicon({seed: _words(path, seed, config) for seed in seeds}, config)


def _weights(task: LexiconTask) -> dict[str, Tensor]:
    """Return the trained rows and their numbers; half the precision changes no ranking that we have seen."""
    return {"known": task.words.known.int(), "table": task.words.table.half()}


def _words(path: Path, seed: int, config: LexiconConfig) -> HashedNgramTable:
    kept = read_weights(path, seed)[0]
    words = HashedNgramTable(kept["known"].long(), width(config), table_seed(seed))
    with torch.no_grad():
        words.table.copy_(kept["table"])
    return words


@dataclass(frozen=True)
class TrainedLexicon(TrainedMethod):
    """The trained tables of all seeds."""

    words: Mapping[int, HashedNgramTable]
    config: LexiconConfig

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        if seed is None:
            raise ValueError("a lexicon embeds with one of its seeds, not None")
        if features.texts is None:
            raise ValueError("a lexicon reads texts, and these features have none")
        with torch.inference_mode():
            words, bags = self.words[seed], ngram_bags(features.texts)
            texts = torch.arange(len(bags))
            embedded = in_blocks(lambda block: facets(words(bags.take(block)), self.config), texts)
        return {name: values.numpy() for name, values in embedded.items()}
