"""Train on translation pairs and their parallel mates: what `lexicon` and `facet` have in common."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from disent_core.heads.fine_tuned_encoder import pair_texts, shares_a_text, translation_accuracy
from disent_core.heads.modules.hashed_words import Ragged, WordBags, word_bags
from disent_core.losses.contrastive import in_batch_softmax
from disent_core.matmul import affine
from disent_core.optimisation.seeds import generator
from disent_core.optimisation.steps import Terms, TrainingTask
from disent_core.settings import Precision
from disent_core.training.data import TrainingData
from disent_core.training.needs import SIDES

EMBED_BLOCK = 1024
"""Texts that are embedded at once."""


@dataclass(frozen=True)
class PairBags:
    """Distinct texts as bags of words; pairs and mates have the numbers of their texts, equal numbers are equal texts.

    `rows` are rows of the texts in the frozen embeddings, -1 where a text is not encoded. List i of `mates_of` has the
    places in `mates` of the mates of training pair i.
    """

    bags: WordBags
    rows: Int[Tensor, " texts"]
    pairs: Mapping[str, Int[Tensor, "pairs 2"]]
    mates: Int[Tensor, "mates 2"]
    mates_of: Ragged

    @property
    def trained(self) -> Int[Tensor, " texts"]:
        """Numbers of the texts of training pairs and their mates."""
        return torch.cat([self.pairs["train"].flatten(), self.mates.flatten()]).unique()


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
    rows = torch.full((len(number),), -1)
    rows[of_row] = own.rows
    if len(mates) and data.mates["train"].rows:
        rows[mates] = torch.stack([data.mates["train"].rows[side] for side in SIDES], dim=1)
    return PairBags(word_bags(list(number)), rows, pairs, mates, Ragged(torch.arange(len(mates)), starts))


@dataclass(frozen=True)
class MatedBatch:
    """Pairs of one step, then some of their mates, as numbers of texts.

    `chosen` has the places of the pairs among the training pairs. `mate_of` has for each of them the place of its mate
    in `pairs`, its own place if it has none.
    """

    chosen: Int[Tensor, " pairs"]
    pairs: Int[Tensor, "pairs_and_mates 2"]
    mate_of: Int[Tensor, " pairs"]


class MatedPairsTask(TrainingTask[MatedBatch]):
    """Training of one seed on pairs and their mates; a subclass embeds texts (`embed`).

    Args:
        data: the pairs.
        config: settings with `batch_size`, `temperature`, `template_temperature`, `without` and maybe `precision`.
        seed: of the batches.
    """

    def __init__(self, data: PairBags, config: Any, seed: int) -> None:
        super().__init__()
        self.data, self.config, self.seed = data, config, seed
        self.precision: Precision = getattr(config, "precision", "float32")
        self.weights: Mapping[str, float] = {}

    @abstractmethod
    def embed(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        """Return `meaning` and `template` of texts, by their numbers; both have unit norm."""

    def batches(self, epoch: int) -> Sequence[MatedBatch]:
        """All training pairs, in random `order`, each with a random one of its mates; a single last one is left out."""
        pairs, mates_of = self.data.pairs["train"], self.data.mates_of
        random = generator(self.seed, "epoch", epoch)
        order = self.order(random)
        count = mates_of.starts.diff()
        offset = (torch.rand(len(pairs), generator=random, dtype=torch.float64) * count).long()
        drawn = torch.where(count > 0, mates_of.starts[:-1] + offset, -1)
        return [self._batch(chosen, drawn[chosen]) for chosen in order.split(self.config.batch_size) if len(chosen) > 1]

    def order(self, random: torch.Generator) -> Int[Tensor, " pairs"]:
        """Return the training pairs in the order of an epoch."""
        return torch.randperm(len(self.data.pairs["train"]), generator=random)

    def _batch(self, chosen: Int[Tensor, " pairs"], drawn: Int[Tensor, " pairs"]) -> MatedBatch:
        has_mate = drawn >= 0
        mate_of = torch.arange(len(chosen))
        mate_of[has_mate] = len(chosen) + torch.arange(int(has_mate.sum()))
        pairs = torch.cat([self.data.pairs["train"][chosen], self.data.mates[drawn[has_mate]]])
        return MatedBatch(chosen, pairs, mate_of)

    def loss(self, batch: MatedBatch) -> tuple[Terms, int]:
        """Return the `terms` and their weighted sum."""
        texts, place = batch.pairs.mT.unique(return_inverse=True)
        embedded = {
            name: rows.index_select(0, place.flatten()).view(*place.shape, -1)
            for name, rows in self.embed(texts).items()
        }
        terms = self.terms(embedded, batch)
        total = torch.stack([value * self.weights.get(name, 1.0) for name, value in terms.items()]).sum()
        return {**terms, "total": total}, len(batch.chosen)

    def terms(self, embedded: Mapping[str, Float[Tensor, "sides pairs_and_mates _"]], batch: MatedBatch) -> Terms:
        """Return `meaning_contrast` over pairs and mates, and `template_contrast` between pairs and mates, in nats."""
        (left, right), (source, target) = embedded["meaning"].unbind(0), batch.pairs.unbind(1)
        terms = {"meaning_contrast": self.contrast(left, right, source, target, self.config.temperature)}
        if len(self.data.mates) and "template_contrast" not in self.config.without:
            own, mates = slice(len(batch.chosen)), batch.mate_of
            of_sides = [
                self.contrast(side[own], side[mates], texts[own], texts[mates], self.config.template_temperature)
                for side, texts in zip(embedded["template"], (source, target), strict=True)
            ]
            terms["template_contrast"] = torch.stack(of_sides).mean()
        return terms

    def contrast(
        self,
        left: Float[Tensor, "pairs dim"],
        right: Float[Tensor, "pairs dim"],
        left_texts: Int[Tensor, " pairs"],
        right_texts: Int[Tensor, " pairs"],
        temperature: float,
    ) -> Float[Tensor, ""]:
        """Mean of the softmax in both directions; pairs that share a text are no negatives of each other."""
        cosines = affine(left, right, right.new_zeros(len(right)), self.precision)
        copies = shares_a_text(torch.stack([left_texts, right_texts], dim=1)).fill_diagonal_(False)
        directions = ((cosines, copies), (cosines.T, copies.T))
        return torch.stack([in_batch_softmax(*one, temperature=temperature).mean() for one in directions]).mean()

    @torch.no_grad()
    def validate(self) -> Mapping[str, float]:
        """Return the contrast of meanings on dev pairs, in order, and their accuracy@1, mean of both directions."""
        pairs = self.data.pairs["dev"]
        source, target = pairs.unbind(1)
        left, right = (F.normalize(self.embed_all(texts)["meaning"], dim=-1) for texts in (source, target))
        losses = [
            self.contrast(left[rows], right[rows], source[rows], target[rows], self.config.temperature) * len(rows)
            for rows in torch.arange(len(pairs)).split(self.config.batch_size)
        ]
        loss = float(torch.stack(losses).sum()) / len(pairs)
        return {"meaning_contrast": loss, "total": loss, "accuracy_at_1": translation_accuracy(left, right)}

    @torch.no_grad()
    def embed_all(self, texts: Int[Tensor, " texts"]) -> dict[str, Float[Tensor, "texts _"]]:
        """Embed many texts, a block at a time."""
        blocks = [self.embed(block) for block in texts.split(EMBED_BLOCK)]
        return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}
