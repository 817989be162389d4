"""Split a text into words, and return the rows of the hashed word table whose sum is a word's vector.

`hashed_words` uses them. An exported folder contains a copy of this file, so it imports only numpy and what is copied
with it (`export.transformers_folder`).
"""

import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from disent_core.normal_form import normalise
from disent_core.random_bits import GOLDEN, mixed

TABLE_ROWS = 1 << 17
"""Number of rows that words and n-grams are hashed to, unless a method has a larger table."""
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


def words_of(text: str) -> Iterator[str]:
    """Yield the case-folded words of a text; in scripts without spaces, the n-grams that stand for words.

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
    return _WITHOUT_SPACES if is_unspaced_character(character) else _SPACED


def is_unspaced_character(character: str) -> bool:
    """Whether a character is of a script that puts no spaces between words."""
    return any(first <= ord(character) <= last for first, last in _UNSPACED)


def _with_marks(run: Iterator[str]) -> list[str]:
    """Return the characters of a run, each with the combining marks that follow it."""
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


def rows_of_word(word: str, table_rows: int = TABLE_ROWS) -> list[int]:
    """Return the rows of a table of `table_rows` that sum to a word: its own, and those of the n-grams of `<word>`."""
    grams = [] if _kind(word[0]) == _WITHOUT_SPACES else _grams(f"<{word}>", _GRAMS)
    return [zlib.crc32(piece.encode()) % table_rows for piece in (f"w{word}", *grams)]


def rows_of_text(text: str, table_rows: int = TABLE_ROWS) -> list[int]:
    """Return the rows of the table that sum to a text's vector: those of its distinct words."""
    return [row for word in dict.fromkeys(words_of(text)) for row in rows_of_word(word, table_rows)]


def hashes_of_text(text: str) -> list[int]:
    """Return 32-bit hashes of a text's words and n-grams; modulo a table's size they are `rows_of_text`."""
    return rows_of_text(text, 1 << 32)


def word_rows(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return `hashes_of_text` of each text, [texts, most], padded with -1: the ONNX graph's input of that name."""
    rows = [hashes_of_text(text) for text in texts]
    width = max([1, *map(len, rows)])
    return np.array([[*of_text, *[-1] * (width - len(of_text))] for of_text in rows], dtype=np.int64)


def random_bits(rows: NDArray[np.int64], dim: int, seed: int) -> NDArray[np.uint8]:
    """Return the signs of table rows as bits, [rows, dim rounded up to 64]; the same on every machine."""
    blocks = -(-dim // 64)
    key = mixed(np.array([seed], dtype=np.uint64) * GOLDEN + GOLDEN)
    counters = rows.astype(np.uint64)[:, None] * np.uint64(blocks) + np.arange(1, blocks + 1, dtype=np.uint64)
    return np.unpackbits(mixed(key + counters * GOLDEN).astype("<u8").view(np.uint8), axis=1, bitorder="little")


def random_rows(rows: NDArray[np.int64], dim: int, seed: int) -> NDArray[np.float32]:
    """Return table rows of random signs divided by the root of `dim`, so of norm 1, float32 [rows, dim].

    Sums of such rows preserve cosines as well as Gaussian ones do (Achlioptas 2003, Theorem 1.1), and one SplitMix64
    number yields 64 values.
    """
    return (random_bits(rows, dim, seed)[:, :dim].astype(np.float32) * 2 - 1) * np.float32(dim**-0.5)
