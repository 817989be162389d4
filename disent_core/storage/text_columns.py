"""Make and hash columns of many texts; only a block of them are Python objects at a time."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from disent_core.text import text_keys

BLOCK = 16_384
"""Texts that are Python objects at a time."""


class TextCollector:
    """A column that texts are appended to."""

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []
        self._open: list[str] = []

    def append(self, text: str) -> None:
        """Add a text."""
        self._open.append(text)
        if len(self._open) == BLOCK:
            self._close()

    def column(self) -> pa.ChunkedArray:
        """The texts so far, in order."""
        self._close()
        return pa.chunked_array(self._chunks, pa.string())

    def _close(self) -> None:
        self._chunks.append(pa.array(self._open, pa.string()))
        self._open = []


def blocks(texts: Sequence[str] | pa.Array | pa.ChunkedArray) -> Iterator[Sequence[str]]:
    """Yield the texts of a column as lists, or the parts of a sequence."""
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        yield block.to_pylist() if isinstance(block, pa.Array | pa.ChunkedArray) else block


def key_strings(column: Iterable[str] | pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """`text_key` of each text, in order."""
    texts = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, pa.string())
    return pa.chunked_array((pa.array(text_keys(block), pa.string()) for block in blocks(texts)), pa.string())


def first_repeated(column: pa.ChunkedArray) -> tuple[int, int] | None:
    """Return the first row of a text that occurs twice, and the row where it does for the second time.

    Of several such texts it is the one that is repeated first; None if there is none.
    """
    numbers = column.combine_chunks().dictionary_encode().indices.to_numpy()  # of the texts, in order of appearance
    is_new = np.diff(np.maximum.accumulate(numbers), prepend=-1) > 0
    if is_new.all():
        return None
    again = int(is_new.argmin())
    return int((numbers == numbers[again]).argmax()), again
