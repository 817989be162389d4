"""Train and apply the method `lexicon`: a table of hashed words and n-grams in place of an encoder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.heads.contract import TrainedMethod
from disent_core.heads.facet import copies_of_pairs
from disent_core.heads.families.seed_by_seed import SeedBySeedTrainer, SeedTraining
from disent_core.heads.fine_tuned_encoder import pair_texts, translation_accuracy
from disent_core.heads.modules.hashed_words import HashedWords, Ragged, WordBags, word_bags
from disent_core.losses.contrastive import symmetric_softmax
from disent_core.methods.lexicon import LexiconConfig, LexiconMethod
from disent_core.optimisation.row_adam import RowOptimiser
from disent_core.optimisation.seeds import derived_seed, generator
from disent_core.optimisation.steps import Terms, TrainingRun, TrainingTask, train
from disent_core.registry import imported
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.needs import SIDES

_BLOCK = 1024
"""Texts that are embedded at once."""


@dataclass(frozen=True)
class PairBags:
    """Distinct texts as bags of words; pairs and mates have the numbers of their texts, equal numbers are equal texts.

    List i of `mates_of` has the places in `mates` of the mates of training pair i.
    """

    bags: WordBags
    pairs: Mapping[str, Int[Tensor, "pairs 2"]]
    mates: Int[Tensor, "mates 2"]
    mates_of: Ragged


def pair_bags(data: TrainingData) -> PairBags:
    """Collect the texts of all pairs and of the mates of training.

    Raises:
        TrainingError: if there is no pair to train or to validate on.
    """
    own, number = pair_texts(data), dict[str, int]()

    def numbered(texts: Sequence[str]) -> Tensor:
        return torch.tensor([number.setdefault(text, len(number)) for text in texts], dtype=torch.int64)

    of_row = numbered(own.texts)
    pairs = {split: of_row[rows] for split, rows in own.pairs.items()}
    mates, starts = torch.zeros(0, 2, dtype=torch.int64), torch.zeros(len(pairs["train"]) + 1, dtype=torch.int64)
    if "train" in data.mates:
        found = data.mates["train"]
        mates = torch.stack([numbered(found.texts[side]) for side in SIDES], dim=1)
        starts[1:] = torch.bincount(found.pair, minlength=len(pairs["train"])).cumsum(0)
    return PairBags(word_bags(list(number)), pairs, mates, Ragged(torch.arange(len(mates)), starts))


@dataclass(frozen=True)
class LexiconBatch:
    """Pairs of one step, then some of their mates, as numbers of texts.

    `mate_of` has for each of the first pairs the place of its mate in `pairs`, its own place if it has none.
    """

    pairs: Int[Tensor, "pairs_and_mates 2"]
    mate_of: Int[Tensor, " pairs"]


class LexiconTask(TrainingTask[LexiconBatch]):
    """Training of one seed: the table, and the pairs."""

    def __init__(self, data: PairBags, config: LexiconConfig, seed: int) -> None:
        super().__init__()
        self.data, self.config, self.seed = data, config, seed
        trained = torch.cat([data.pairs["train"].flatten(), data.mates.flatten()]).unique()
        self.words = HashedWords.of_texts(
            data.bags.take(trained), width(config), table_seed(seed), at_least=config.at_least
        )
        self.optimisers = {"main": RowOptimiser(self.words.table, config.optimiser)}

    def batches(self, epoch: int) -> Sequence[LexiconBatch]:
        """All training pairs, shuffled, each with a random one of its mates; a single last pair is left out."""
        pairs, mates_of = self.data.pairs["train"], self.data.mates_of
        random = generator(self.seed, "epoch", epoch)
        order = torch.randperm(len(pairs), generator=random)
        count = mates_of.starts.diff()
        offset = (torch.rand(len(pairs), generator=random, dtype=torch.float64) * count).long()
        drawn = torch.where(count > 0, mates_of.starts[:-1] + offset, -1)
        return [self._batch(pairs[rows], drawn[rows]) for rows in order.split(self.config.batch_size) if len(rows) > 1]

    def _batch(self, pairs: Int[Tensor, "pairs 2"], drawn: Int[Tensor, " pairs"]) -> LexiconBatch:
        has_mate = drawn >= 0
        mate_of = torch.arange(len(pairs))
        mate_of[has_mate] = len(pairs) + torch.arange(int(has_mate.sum()))
        return LexiconBatch(torch.cat([pairs, self.data.mates[drawn[has_mate]]]), mate_of)

    def loss(self, batch: LexiconBatch) -> tuple[Terms, int]:
        """Return `meaning_contrast` over pairs and mates, and `template_contrast` between pairs and mates, in nats."""
        sides = [
            (texts, facets(self.words(self.data.bags.take(texts)), self.config)) for texts in batch.pairs.unbind(1)
        ]
        (source, of_source), (target, of_target) = sides
        meaning = _contrast(of_source["meaning"], of_target["meaning"], source, target, self.config.temperature)
        terms = {"meaning_contrast": meaning}
        if len(self.data.mates) and "template_contrast" not in self.config.without:
            own, mates, temperature = slice(len(batch.mate_of)), batch.mate_of, self.config.template_temperature
            of_sides = [
                _contrast(of["template"][own], of["template"][mates], texts[own], texts[mates], temperature)
                for texts, of in sides
            ]
            terms["template_contrast"] = torch.stack(of_sides).mean()
        return terms | {"total": torch.stack(list(terms.values())).sum()}, len(batch.mate_of)

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Return the contrast of meanings on dev pairs, in order, and their accuracy@1, mean of both directions."""
        pairs = self.data.pairs["dev"]
        source, target = pairs.unbind(1)
        left, right = (
            embed_bags(self.words, self.data.bags.take(of), self.config)["meaning"] for of in (source, target)
        )
        losses = [
            _contrast(left[rows], right[rows], source[rows], target[rows], self.config.temperature) * len(rows)
            for rows in torch.arange(len(pairs)).split(self.config.batch_size)
        ]
        loss = float(torch.stack(losses).sum()) / len(pairs)
        return {"meaning_contrast": loss, "total": loss, "accuracy_at_1": translation_accuracy(left, right)}


def _contrast(
    left: Float[Tensor, "pairs dim"],
    right: Float[Tensor, "pairs dim"],
    left_texts: Int[Tensor, " pairs"],
    right_texts: Int[Tensor, " pairs"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Mean of the symmetric softmax; pairs that share a text are no negatives of each other."""
    copies = copies_of_pairs(left_texts, right_texts)
    return symmetric_softmax(left, right, copies, temperature=temperature).mean()


def facets(vectors: Float[Tensor, "texts dim"], config: LexiconConfig) -> dict[str, Float[Tensor, "texts _"]]:
    """Split sums of rows into `template` and `residual` of unit norm, which side by side are the `meaning`."""
    parts = vectors.split([config.template_units, config.residual_units], dim=-1)
    template, residual = (F.normalize(part, dim=-1) for part in parts)
    return {"meaning": torch.cat([template, residual], dim=-1) * 0.5**0.5, "template": template, "residual": residual}


def embed_bags(words: HashedWords, bags: WordBags, config: LexiconConfig) -> dict[str, Float[Tensor, "texts _"]]:
    """`facets` of texts, a block at a time."""
    blocks = [facets(words(bags.take(block)), config) for block in torch.arange(len(bags)).split(_BLOCK)]
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
