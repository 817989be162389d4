"""Train `lexicon`, a table of hashed words and n-grams, on translation pairs and their mates; `facet` reuses this."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disent_core.encoders.contract import EncoderFiles
from disent_core.losses.contrastive import in_batch_softmax, one_pool_softmax
from disent_core.matmul import affine
from disent_core.methods.families.seed_by_seed import SeedBySeedTrainer
from disent_core.methods.infonce_head import pair_texts, shares_a_text
from disent_core.methods.lexicon import LexiconConfig
from disent_core.methods.modules.hashed_words import HashedNgramTable, NgramBags, ngram_bags
from disent_core.methods.modules.word_rows import TABLE_ROWS
from disent_core.methods.trainer import TrainedMethod
from disent_core.optimisation.optimiser import RowOptimiser
from disent_core.optimisation.seeds import derived_seed, generator
from disent_core.optimisation.steps import Terms, TrainingTask
from disent_core.settings import Precision
from disent_core.storage.weights import describe_weights, read_weights
from disent_core.training.data import TextFeatures, TrainingData
from disent_core.training.needs import SIDES
from disent_core.training.stacked import accuracy_by_pair

EMBED_BLOCK = 1024
"""Number of texts embedded at once."""
Held = tuple[Float[Tensor, "sides pairs part"], Int[Tensor, " mated"]]
"""Templates (half of the meaning) that the contrast of a text and its mate must not move, and `MatedBatch.mate_of`."""


# --- pairs and their mates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairBags:
    """Distinct texts as bags of words; pairs and mates have indices of texts, so equal indices mean equal texts.

    `rows` are the rows of the texts in the frozen embeddings, -1 for a text that is not encoded. The mates of training
    pair i are `mates[mate_starts[i]:mate_starts[i + 1]]`. `dev_language_pair` has the index of each dev pair's language
    pair.
    """

    bags: NgramBags
    rows: Int[Tensor, " texts"]
    pairs: Mapping[str, Int[Tensor, "pairs 2"]]
    dev_language_pair: Int[Tensor, " dev_pairs"]
    mates: Int[Tensor, "mates 2"]
    mate_starts: Int[Tensor, " pairs_and_1"]

    @property
    def trained(self) -> Int[Tensor, " texts"]:
        return torch.cat([self.pairs["train"].flatten(), self.mates.flatten()]).unique()

    def table(self, dim: int, seed: int, at_least: int) -> HashedNgramTable:
        """Return the untrained table of the training texts; rows that occur in `at_least` texts will be trained."""
        return HashedNgramTable.of_texts(self.bags.take(self.trained), dim, table_seed(seed), at_least=at_least)


def table_seed(seed: int) -> int:
    return derived_seed(seed, "table")


def side_by_side(parts: Sequence[Float[Tensor, "*texts _"]]) -> dict[str, Float[Tensor, "*texts _"]]:
    """Concatenate the templates, the residuals, and all parts, which are the `meaning`.

    `parts` are the template and residual of each view of a text, in turn. If they have unit norm, so do the results,
    and the cosine of two meanings is the mean of the cosines of their parts.
    """
    meaning = torch.cat(list(parts), dim=-1) * len(parts) ** -0.5
    template, residual = (torch.cat(list(parts[first::2]), dim=-1) * (len(parts) / 2) ** -0.5 for first in (0, 1))
    return {"meaning": meaning, "template": template, "residual": residual}


def in_blocks(
    embed: Callable[[Int[Tensor, " texts"]], Mapping[str, Float[Tensor, "texts _"]]], texts: Int[Tensor, " texts"]
) -> dict[str, Float[Tensor, "texts _"]]:
    blocks = [embed(block) for block in texts.split(EMBED_BLOCK)]
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}


def pair_bags(data: TrainingData, table_rows: int = TABLE_ROWS) -> PairBags:
    of_pairs, number = pair_texts(data), dict[str, int]()

    def numbered(texts: Sequence[str]) -> Tensor:
        return torch.tensor([number.setdefault(text, len(number)) for text in texts], dtype=torch.int64)

    of_row = numbered(of_pairs.texts)
    pairs = {split: of_row[rows] for split, rows in of_pairs.pairs.items()}
    mates, starts = torch.zeros(0, 2, dtype=torch.int64), torch.zeros(len(pairs["train"]) + 1, dtype=torch.int64)
    if "train" in data.mates:
        swaps = data.mates["train"]
        mates = torch.stack([numbered(swaps.texts[side]) for side in SIDES], dim=1)
        starts[1:] = torch.bincount(swaps.pair, minlength=len(pairs["train"])).cumsum(0)
    rows = torch.full((len(number),), -1)
    rows[of_row] = of_pairs.rows
    if len(mates) and data.mates["train"].rows:
        rows[mates] = torch.stack([data.mates["train"].rows[side] for side in SIDES], dim=1)
    return PairBags(ngram_bags(list(number), table_rows), rows, pairs, of_pairs.dev_language_pair, mates, starts)


@dataclass(frozen=True)
class MatedBatch:
    """Pairs of one step (or groups of more languages), then some of their mates, as indices of texts.

    `chosen` has the indices of the pairs among the training pairs. `mate_of` has for each pair the row in `pairs` of
    its mate, or its own row if it has none.
    """

    chosen: Int[Tensor, " pairs"]
    pairs: Int[Tensor, "pairs_and_mates sides"]
    mate_of: Int[Tensor, " pairs"]

    @classmethod
    def of(
        cls,
        chosen: Int[Tensor, " pairs"],
        pairs: Int[Tensor, "pairs sides"],
        mates: Int[Tensor, "mates sides"],
        has_mate: Bool[Tensor, " pairs"],
    ) -> "MatedBatch":
        mate_of = torch.arange(len(chosen))
        mate_of[has_mate] = len(chosen) + torch.arange(int(has_mate.sum()))
        return cls(chosen, torch.cat([pairs, mates]), mate_of)


class MatedPairsTask(TrainingTask[MatedBatch]):
    """Training of one seed on pairs and their mates; a subclass embeds texts (`embed`).

    `config` has `batch_size`, `temperature`, `template_temperature`, `without` and maybe `precision`.
    """

    def __init__(self, data: PairBags, config: Any, seed: int) -> None:
        super().__init__()
        self.data, self.config, self.seed = data, config, seed
        self.precision: Precision = getattr(config, "precision", "float32")
        self.holds_templates = getattr(config, "mates_differ_by", "all_parts") == "residual"
        self.weights: Mapping[str, float] = {}

    @abstractmethod
    def embed(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        """Return `meaning` and `template`, both of unit norm, of texts given by index."""

    def batches(self, epoch: int) -> Sequence[MatedBatch]:
        """Return all training pairs in random `order`, each with a random mate; drop a last batch of one pair."""
        pairs, starts = self.data.pairs["train"], self.data.mate_starts
        random = generator(self.seed, "epoch", epoch)
        order = self.order(random)
        count = starts.diff()
        offset = (torch.rand(len(pairs), generator=random, dtype=torch.float64) * count).long()
        drawn = torch.where(count > 0, starts[:-1] + offset, -1)
        steps = []
        for chosen in order.split(self.config.batch_size):
            if len(chosen) > 1:
                has_mate = drawn[chosen] >= 0
                steps.append(MatedBatch.of(chosen, pairs[chosen], self.data.mates[drawn[chosen][has_mate]], has_mate))
        return steps

    def order(self, random: torch.Generator) -> Int[Tensor, " pairs"]:
        return torch.randperm(len(self.data.pairs["train"]), generator=random)

    def loss(self, batch: MatedBatch) -> tuple[Terms, int]:
        # Each distinct text of the step is embedded once: [texts, dim], then [sides, pairs and mates, dim].
        texts, rows_of = batch.pairs.mT.unique(return_inverse=True)
        embedded = {
            name: rows.index_select(0, rows_of.flatten()).view(*rows_of.shape, -1)
            for name, rows in self.embed(texts).items()
        }
        terms = self.terms(embedded, batch)
        return self.with_total(terms), len(batch.chosen)

    def with_total(self, terms: Terms) -> Terms:
        total = torch.stack([value * self.weights.get(name, 1.0) for name, value in terms.items()]).sum()
        return {**terms, "total": total}

    def terms(self, embedded: Mapping[str, Float[Tensor, "sides pairs_and_mates _"]], batch: MatedBatch) -> Terms:
        """Return `meaning_contrast` over pairs and mates, and `template_contrast` between pairs and mates, in nats."""
        held = (embedded["template"], batch.mate_of) if self.holds_templates else None
        terms = {"meaning_contrast": self.translations(embedded["meaning"], batch.pairs, held)}
        if len(self.data.mates) and "template_contrast" not in self.config.without:
            pairs, mates = slice(len(batch.chosen)), batch.mate_of
            sides = (
                (side[pairs], side[mates], torch.stack([texts[pairs], texts[mates]], dim=1))
                for side, texts in zip(embedded["template"], batch.pairs.unbind(1), strict=True)
            )
            terms["template_contrast"] = self.mean_contrast(sides, self.config.template_temperature)
        return terms

    def translations(
        self, meaning: Float[Tensor, "sides pairs dim"], texts: Int[Tensor, "pairs sides"], held: Held | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean contrast of each text with its translation, among the candidates of the settings."""
        if self.config.candidates == "all_languages":
            return self.one_pool(meaning, texts, held)
        source, *others = meaning.unbind(0)
        pairs = ((source, other, texts[:, [0, side]]) for side, other in enumerate(others, start=1))
        return self.mean_contrast(pairs, self.config.temperature, held)

    def mean_contrast(
        self, sides: Iterable[tuple[Tensor, Tensor, Tensor]], temperature: float, held: Held | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean `contrast` over sides, each given as left and right vectors and their texts' indices."""
        return torch.stack([self.contrast(*side, temperature, held) for side in sides]).mean()

    def contrast(
        self,
        left: Float[Tensor, "pairs dim"],
        right: Float[Tensor, "pairs dim"],
        texts: Int[Tensor, "pairs 2"],
        temperature: float,
        held: Held | None = None,
    ) -> Float[Tensor, ""]:
        """Return the mean softmax loss of both directions; pairs that share a text are not negatives of each other."""
        cosines = affine(left, right, right.new_zeros(len(right)), self.precision)
        if held is not None:
            source, target = held[0].unsqueeze(1)
            cosines = template_held(cosines[None, :, None], source, target, held[1])[0, :, 0]
        copies = copies_of_pairs(texts)
        directions = ((cosines, copies), (cosines.T, copies.T))
        return torch.stack([in_batch_softmax(*logits, temperature=temperature).mean() for logits in directions]).mean()

    def one_pool(
        self, vectors: Float[Tensor, "sides groups dim"], texts: Int[Tensor, "groups sides"], held: Held | None
    ) -> Float[Tensor, ""]:
        """Return the mean `one_pool_softmax`; groups that share a text are not negatives of each other."""
        flat = vectors.flatten(0, 1)
        cosines = affine(flat, flat, flat.new_zeros(len(flat)), self.precision)
        cosines = cosines.view(*vectors.shape[:2], *vectors.shape[:2])
        if held is not None:
            cosines = template_held(cosines, held[0], held[0], held[1])
        copies = (texts[:, None, :, None] == texts[None, :, None, :]).flatten(2).any(dim=2)  # in any language
        return one_pool_softmax(cosines, copies, temperature=self.config.temperature).mean()

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Return the contrast of meanings on dev pairs, in order, and their accuracy@1, averaged over directions."""
        pairs = self.data.pairs["dev"]
        left, right = (F.normalize(in_blocks(self.embed, texts)["meaning"], dim=-1) for texts in pairs.unbind(1))
        losses = [
            self.translations(torch.stack([left[rows], right[rows]]), pairs[rows]) * len(rows)
            for rows in torch.arange(len(pairs)).split(self.config.batch_size)
        ]
        loss = float(torch.stack(losses).sum()) / len(pairs)
        accuracy = accuracy_by_pair(F.normalize(left, dim=-1), F.normalize(right, dim=-1), self.data.dev_language_pair)
        return {"meaning_contrast": loss, "total": loss, "accuracy_at_1": accuracy}


def copies_of_pairs(texts: Int[Tensor, "pairs 2"]) -> Bool[Tensor, "pairs pairs"]:
    """Mark, for each pair, others that share a text with it: their other sides are correct too, so not negatives."""
    return shares_a_text(texts) & ~torch.eye(len(texts), dtype=torch.bool, device=texts.device)


def template_held(
    cosines: Float[Tensor, "left groups right groups"],
    left: Float[Tensor, "left groups part"],
    right: Float[Tensor, "right groups part"],
    mate_of: Int[Tensor, " mated"],
) -> Float[Tensor, "left groups right groups"]:
    """Return the cosines unchanged, but without gradient to the templates between a text and its mate.

    `left` and `right` are the templates, of unit norm, which are half of the meaning. Group `mate_of[i]` has the mate
    of group i, or is i itself.
    """
    mated = (mate_of != torch.arange(len(mate_of))).nonzero().squeeze(1)
    rows, columns = torch.cat([mated, mate_of[mated]]), torch.cat([mate_of[mated], mated])
    of_templates = torch.einsum("lmp,rmp->mlr", left[:, rows], right[:, columns]) / 2
    by_group = cosines.permute(1, 3, 0, 2)
    held = by_group.index_put((rows, columns), of_templates.detach() - of_templates, accumulate=True)
    return held.permute(2, 0, 3, 1)


# --- lexicon ----------------------------------------------------------------------------------------------


class LexiconTask(MatedPairsTask):
    def __init__(self, data: PairBags, config: LexiconConfig, seed: int) -> None:
        super().__init__(data, config, seed)
        self.words = data.table(config.width, seed, config.at_least)
        self.optimisers = {"main": RowOptimiser(self.words.table, config.optimiser)}

    def embed(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        return facets(self.words(self.data.bags.take(texts)), self.config)


def facets(vectors: Float[Tensor, "texts dim"], config: LexiconConfig) -> dict[str, Float[Tensor, "texts _"]]:
    """Split sums of rows into `template` and `residual` of unit norm, which side by side are the `meaning`."""
    parts = vectors.split([config.template_units, config.residual_units], dim=-1)
    return side_by_side([F.normalize(part, dim=-1) for part in parts])


class LexiconTrainer(SeedBySeedTrainer[Any]):
    """The trainer of methods that read only texts. It runs on the CPU, where a step takes a tenth of a second."""

    def tasks(self, data: TrainingData, config: LexiconConfig, device: str) -> Callable[[int], LexiconTask]:
        bags = pair_bags(data, config.table_rows)
        return lambda seed: LexiconTask(bags, config, seed)

    def weights(self, task: LexiconTask) -> dict[str, Tensor]:
        """Return the trained rows and their indices; half precision has changed no ranking that we have seen."""
        return {"known": task.words.known.int(), "table": task.words.table.half()}

    def load(
        self, path: Path, config: LexiconConfig, device: str, encoder: EncoderFiles | None = None
    ) -> "TrainedLexicon":
        tables = {}
        for seed in describe_weights(path)[0]["seeds"]:
            kept = read_weights(path, seed)[0]
            tables[seed] = HashedNgramTable.stored(path, kept, config.width, table_seed(seed), unseen=config.unseen)
        return TrainedLexicon(tables, config)


@dataclass(frozen=True)
class TrainedLexicon(TrainedMethod):
    words: Mapping[int, HashedNgramTable]
    config: LexiconConfig

    def embed(self, features: TextFeatures, seed: int | None) -> dict[str, np.ndarray]:
        if seed is None:
            raise ValueError("a lexicon embeds with one of its seeds, not None")
        if features.texts is None:
            raise ValueError("a lexicon reads texts, and these features have none")
        with torch.inference_mode():
            bags = ngram_bags(features.texts, self.config.table_rows)
            embedded = facets(self.words[seed].in_blocks(bags), self.config)
        return {name: values.numpy() for name, values in embedded.items()}
