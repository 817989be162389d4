"""Embed texts by their words, without an encoder: `disent_core.heads.modules.hashed_words.HashedWords`.

A word is hashed as a whole and by its character n-grams to rows of a table that all languages share; its vector is the
sum of these rows, and the vector of a text is the sum over its distinct words (fastText, Bojanowski et al. 2017, with
words of all languages in one table). The table is random at first and only rows of training texts are trained and kept:
any other row is made again from its number. So a name that training never saw has the same vector in both languages.

    bags = word_bags(texts)                                   # once: texts as numbers
    words = HashedWords.of_texts(bags, dim=512, seed=0)       # a table for these training texts
    vectors = words(bags.take(torch.tensor([4, 7])))          # [2, 512], not normalised
    words(word_bags(["a text of tomorrow"]))                  # any text: unknown rows are random
"""

import math
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int, Int64
from torch import Tensor, nn

from disent_core.random_bits import GOLDEN, mixed
from disent_core.text import normalise

TABLE_ROWS = 1 << 17
"""Rows that words and n-grams are hashed to."""
_BLOCK = 1 << 14
"""Texts whose rows are counted at once."""
_GRAMS = range(3, 6)
"""Lengths of the n-grams of a word with its boundaries, `<word>`."""
_UNSPACED_GRAMS = range(1, 3)
"""Lengths of the n-grams that stand for words in scripts without spaces, in characters with their marks."""
_UNSPACED = (
    (0x0E00, 0x0FFF),  # Thai, Lao, Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # ideographic marks
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # Katakana of half width
    (0x20000, 0x3FFFF),
)
"""First and last code points of scripts that put no spaces between words."""


# --- words ------------------------------------------------------------------------------------------------


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text, case folded; in scripts without spaces the n-grams that stand for them.

    A word is a run of letters, digits and their marks. A text without any, such as an emoji, is one word.
    """
    folded = normalise(text.casefold())
    is_empty = True
    for kind, run in groupby(folded, key=_kind):
        if kind == _SEPARATOR:
            continue
        is_empty = False
        if kind == _SPACED:
            yield "".join(run)
        else:
            yield from _grams(_with_marks(run), _UNSPACED_GRAMS)
    if is_empty and (stripped := folded.strip()):
        yield stripped


_SEPARATOR, _SPACED, _WITHOUT_SPACES = range(3)


@lru_cache(maxsize=1 << 16)
def _kind(character: str) -> int:
    if unicodedata.category(character)[0] not in "LMN":
        return _SEPARATOR
    return _WITHOUT_SPACES if any(first <= ord(character) <= last for first, last in _UNSPACED) else _SPACED


def _with_marks(run: Iterator[str]) -> list[str]:
    """Characters of a run, each with the combining marks that follow it."""
    units: list[str] = []
    for character in run:
        if units and unicodedata.category(character)[0] == "M":
            units[-1] += character
        else:
            units.append(character)
    return units


def _grams(units: Sequence[str], lengths: range) -> Iterator[str]:
    for length in lengths:
        for start in range(len(units) - length + 1):
            yield "".join(units[start : start + length])


def rows_of_word(word: str) -> list[int]:
    """Rows of the table that a word is the sum of: its own, and those of the n-grams of `<word>`."""
    grams = [] if _kind(word[0]) == _WITHOUT_SPACES else _grams(f"<{word}>", _GRAMS)
    return [zlib.crc32(piece.encode()) % TABLE_ROWS for piece in (f"w{word}", *grams)]


# --- texts as numbers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ragged:
    """Lists of numbers: list i is `values[starts[i]:starts[i + 1]]`."""

    values: Int64[Tensor, " values"]
    starts: Int64[Tensor, " lists_and_1"]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> "Ragged":
        """Return the same lists."""
        starts = torch.tensor([0, *accumulate(map(len, lists))])
        return cls(torch.tensor([value for values in lists for value in values], dtype=torch.int64), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, chosen: Int[Tensor, " chosen"]) -> "Ragged":
        """Return some of the lists, in the order of `chosen`."""
        first, length = self.starts[chosen], self.starts.diff()[chosen]
        starts = F.pad(length.cumsum(0), (1, 0))
        within = torch.arange(int(starts[-1]), device=length.device) - starts[:-1].repeat_interleave(length)
        return Ragged(self.values[first.repeat_interleave(length) + within], starts)

    def sums(self, table: Float[Tensor, "rows dim"]) -> Float[Tensor, "lists dim"]:
        """Sum of the rows of a table that each list numbers; zero for an empty list."""
        return F.embedding_bag(self.values, table, self.starts[:-1], mode="sum")


@dataclass(frozen=True)
class WordBags:
    """Texts as lists of distinct words, and words as lists of rows of the hash table."""

    texts: Ragged
    words: Ragged

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, chosen: Int[Tensor, " chosen"]) -> "WordBags":
        """Return some of the texts, in the order of `chosen`, with no other words than theirs."""
        texts = self.texts.take(chosen)
        words, places = texts.values.unique(return_inverse=True)
        return WordBags(Ragged(places, texts.starts), self.words.take(words))

    def row_frequencies(self) -> Int64[Tensor, " rows"]:
        """Return for every row of the hash table of how many texts it is."""
        counts = torch.zeros(TABLE_ROWS, dtype=torch.int64)
        for chosen in torch.arange(len(self)).split(_BLOCK):
            part = self.take(chosen)
            rows = part.words.take(part.texts.values)
            text_of_word = torch.arange(len(part)).repeat_interleave(part.texts.starts.diff())
            in_text = (text_of_word.repeat_interleave(rows.starts.diff()) * TABLE_ROWS + rows.values).unique()
            counts += torch.bincount(in_text % TABLE_ROWS, minlength=TABLE_ROWS)
        return counts


def word_bags(texts: Sequence[str]) -> WordBags:
    """Return texts as numbers, in order."""
    places: dict[str, int] = {}
    lists = [[places.setdefault(word, len(places)) for word in dict.fromkeys(words_of(text))] for text in texts]
    return WordBags(Ragged.of(lists), Ragged.of([rows_of_word(word) for word in places]))


# --- the table --------------------------------------------------------------------------------------------


def random_rows(rows: Int64[Tensor, " rows"], dim: int, seed: int) -> Float32[Tensor, "rows dim"]:
    """Rows of a table of random signs over the root of `dim`, so of norm 1: the same ones wherever they are made.

    Sums of such rows keep cosines as sums of Gaussian ones do (Achlioptas 2003, Theorem 1.1), and 64 values cost one
    number of SplitMix64.
    """
    blocks = -(-dim // 64)
    key = mixed(np.array([seed], dtype=np.uint64) * GOLDEN + GOLDEN)
    counters = rows.numpy().astype(np.uint64)[:, None] * np.uint64(blocks) + np.arange(1, blocks + 1, dtype=np.uint64)
    bits = np.unpackbits(mixed(key + counters * GOLDEN).astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return torch.from_numpy(bits[:, :dim].astype(np.float32) * 2 - 1) * dim**-0.5


class HashedWords(nn.Module):
    """`word_bags` -> sums of rows of a table of which `known` are trained.

    Args:
        known: numbers of the trained rows, sorted.
        dim: width of the table.
        seed: of the random rows, at most 2^63; texts of unknown words need it too.

    `table` [known, dim] is random at first. The gradient that it gets is sparse: of the rows that a batch reads only.
    """

    known: Int64[Tensor, " known"]

    def __init__(self, known: Int64[Tensor, " known"], dim: int, seed: int) -> None:
        super().__init__()
        self.dim, self.seed = dim, seed
        self.register_buffer("known", known)
        self.table = nn.Parameter(random_rows(known, dim, seed))

    @classmethod
    def of_texts(cls, bags: WordBags, dim: int, seed: int, *, at_least: int = 1) -> "HashedWords":
        """Return the table of training texts, of which it trains the rows of `at_least` so many texts.

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

    def forward(self, bags: WordBags) -> Float[Tensor, "texts dim"]:
        """Embed texts, without normalising; zero for an empty text."""
        rows, places = bags.words.values.unique(return_inverse=True)
        vectors, order = self._gathered(rows)
        return bags.texts.sums(Ragged(order[places], bags.words.starts).sums(vectors))

    def rows(self, rows: Int64[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return rows of the table, each once: trained ones, and others as they are at random."""
        vectors, order = self._gathered(rows)
        return vectors[order]

    def _gathered(self, rows: Int64[Tensor, " rows"]) -> tuple[Float[Tensor, "rows dim"], Int64[Tensor, " rows"]]:
        """Return the vectors of rows, known ones first, and the place of each row among them."""
        is_known = torch.isin(rows, self.known, assume_unique=True)
        trained = F.embedding(torch.searchsorted(self.known, rows[is_known]), self.table, sparse=True)
        others = random_rows(rows[~is_known].cpu(), self.dim, self.seed).to(trained)
        order = torch.where(is_known, is_known.cumsum(0) - 1, len(trained) + (~is_known).cumsum(0) - 1)
        return torch.cat([trained, others]), order
