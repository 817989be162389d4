"""Embed texts by their words, without an encoder: `disent_core.methods.modules.hashed_words.HashedNgramTable`.

A word is hashed as a whole and by its character n-grams to rows of a table that all languages share; its vector is the
sum of these rows, and the vector of a text is the sum over its distinct words (fastText, Bojanowski et al. 2017, with
words of all languages in one table). The table is random at first and only rows of training texts are trained and kept:
any other row is made again from its number. So a name that training never saw has the same vector in both languages.

    bags = ngram_bags(texts)                                   # once: texts as numbers
    words = HashedNgramTable.of_texts(bags, dim=512, seed=0)       # a table for these training texts
    vectors = words(bags.take(torch.tensor([4, 7])))          # [2, 512], not normalised
    words(ngram_bags(["a text of tomorrow"]))                  # any text: unknown rows are random
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from disent_core.methods.modules.word_rows import TABLE_ROWS, random_rows, rows_of_word, words_of
from disent_core.storage.weights import require_shapes
from disent_core.training.data import ragged_positions

_BLOCK = 1 << 14  # texts whose rows are counted at once
_EMBEDDED = 1 << 12  # texts embedded at once


@dataclass(frozen=True)
class Ragged:
    """Lists of numbers: list i is `values[starts[i]:starts[i + 1]]`."""

    values: Int64[Tensor, " values"]
    starts: Int64[Tensor, " lists_and_1"]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> "Ragged":
        starts = torch.tensor([0, *accumulate(map(len, lists))])
        return cls(torch.tensor([value for values in lists for value in values], dtype=torch.int64), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, chosen: Int[Tensor, " chosen"]) -> "Ragged":
        positions, starts = ragged_positions(self.starts[chosen], self.starts.diff()[chosen])
        return Ragged(self.values[positions], starts)

    def sums(self, table: Float[Tensor, "rows dim"]) -> Float[Tensor, "lists dim"]:
        """Sum the table rows that each list selects; zero for an empty list."""
        return F.embedding_bag(self.values, table, self.starts[:-1], mode="sum")


@dataclass(frozen=True)
class NgramBags:
    """Texts as lists of distinct words, and words as lists of rows of a hash table of `table_rows`."""

    texts: Ragged
    words: Ragged
    table_rows: int = TABLE_ROWS

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, chosen: Int[Tensor, " chosen"]) -> "NgramBags":
        """Return some of the texts, in the order of `chosen`, with only their words."""
        texts = self.texts.take(chosen)
        words, renumbered = texts.values.unique(return_inverse=True)
        return NgramBags(Ragged(renumbered, texts.starts), self.words.take(words), self.table_rows)

    def row_frequencies(self) -> Int64[Tensor, " rows"]:
        """Return, for every row of the hash table, the number of texts that use it."""
        size = self.table_rows
        counts = torch.zeros(size, dtype=torch.int64)
        for chosen in torch.arange(len(self)).split(_BLOCK):
            part = self.take(chosen)
            rows = part.words.take(part.texts.values)
            text_of_word = torch.arange(len(part)).repeat_interleave(part.texts.starts.diff())
            # Pairs (text, row) as one number, so that a row counts once per text.
            in_text = (text_of_word.repeat_interleave(rows.starts.diff()) * size + rows.values).unique()
            counts += torch.bincount(in_text % size, minlength=size)
        return counts


def ngram_bags(texts: Sequence[str], table_rows: int = TABLE_ROWS) -> NgramBags:
    numbers: dict[str, int] = {}
    lists = [[numbers.setdefault(word, len(numbers)) for word in dict.fromkeys(words_of(text))] for text in texts]
    return NgramBags(Ragged.of(lists), Ragged.of([rows_of_word(word, table_rows) for word in numbers]), table_rows)


class HashedNgramTable(nn.Module):
    """`ngram_bags` -> sums of rows of a table; only the rows `known`, a sorted list, are trained.

    `table` [known, dim] is random at first. Its gradient is sparse: only for the rows that a batch reads. The `seed` of
    the random rows, at most 2^63, also generates the rows of unknown words. Untrained rows are random, of norm
    `unseen`.
    """

    known: Int64[Tensor, " known"]

    def __init__(self, known: Int64[Tensor, " known"], dim: int, seed: int, *, unseen: float = 1.0) -> None:
        super().__init__()
        self.dim, self.seed, self.unseen = dim, seed, unseen
        self.register_buffer("known", known)
        self.table = nn.Parameter(torch.from_numpy(random_rows(known.numpy(), dim, seed)))

    @classmethod
    def stored(
        cls, path: Path, weights: Mapping[str, Tensor], dim: int, seed: int, *, prefix: str = "", unseen: float = 1.0
    ) -> "HashedNgramTable":
        """Return the table from a file's `known` and `table`; their shapes are checked before memory is allocated."""
        known, table = (weights.get(f"{prefix}{name}", torch.zeros(0)) for name in ("known", "table"))
        require_shapes(path, weights, {f"{prefix}known": (known.numel(),), f"{prefix}table": (known.numel(), dim)})
        words = cls(known[:0].long(), dim, seed, unseen=unseen)
        words.known, words.table.data = known.long(), table.float()
        return words

    @classmethod
    def of_texts(cls, bags: NgramBags, dim: int, seed: int, *, at_least: int = 1) -> "HashedNgramTable":
        """Return the table of training texts; rows that occur in `at_least` texts are trained.

        Rare rows are longer, as in TF-IDF.
        A row of df of n texts has norm log((n + 1) / (df + 1)) / log(n + 1), and at least 0.01, so that even a text of
        common words has a direction. With df = 0 this is 1, the norm of the rows that are not trained.
        """
        frequency = bags.row_frequencies()
        known = (frequency >= at_least).nonzero().squeeze(1)
        norms = ((len(bags) + 1) / (frequency[known] + 1)).log() / math.log(len(bags) + 1)
        words = cls(known, dim, seed)
        with torch.no_grad():
            words.table *= norms.clamp_min(0.01).unsqueeze(1)
        return words

    def forward(self, bags: NgramBags) -> Float[Tensor, "texts dim"]:
        """Embed texts, without normalising; zero for an empty text."""
        # Words are sums of table rows, [words, dim]; texts are sums of words. Each row is gathered once.
        rows, renumbered = bags.words.values.unique(return_inverse=True)
        vectors, order = self._gathered(rows)
        return bags.texts.sums(Ragged(order[renumbered], bags.words.starts).sums(vectors))

    def in_blocks(self, bags: NgramBags, texts: Int[Tensor, " texts"] | None = None) -> Float[Tensor, "texts dim"]:
        """Embed many texts, or those of `bags` that `texts` chooses, without gathering all their rows at once."""
        texts = torch.arange(len(bags)) if texts is None else texts
        return torch.cat([self(bags.take(block)) for block in texts.split(_EMBEDDED)])

    def rows(self, rows: Int64[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return rows of the table, given without repeats: trained rows, and random rows for the others."""
        vectors, order = self._gathered(rows)
        return vectors[order]

    def _gathered(self, rows: Int64[Tensor, " rows"]) -> tuple[Float[Tensor, "rows dim"], Int64[Tensor, " rows"]]:
        """Return the vectors of rows, trained ones first, and the position of each row among them."""
        is_known = torch.isin(rows, self.known, assume_unique=True)
        trained = F.embedding(torch.searchsorted(self.known, rows[is_known]), self.table, sparse=True)
        others = torch.from_numpy(random_rows(rows[~is_known].cpu().numpy(), self.dim, self.seed)).to(trained)
        others = others * self.unseen if self.unseen != 1 else others
        order = torch.where(is_known, is_known.cumsum(0) - 1, len(trained) + (~is_known).cumsum(0) - 1)
        return torch.cat([trained, others]), order
