"""Make and hash columns of many texts; only one block of them exists as Python objects at a time."""

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, SupportsIndex, TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from disent_core.storage.tables import canonical_json
from disent_core.text import text_keys

Item = TypeVar("Item")

BLOCK = 16_384  # texts that are Python objects at a time


class TextCollector:
    """A column that texts are appended to."""

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []
        self._open: list[str] = []

    def append(self, text: str) -> None:
        self._open.append(text)
        if len(self._open) == BLOCK:
            self._close()

    def column(self) -> pa.ChunkedArray:
        self._close()
        return pa.chunked_array(self._chunks, pa.string())

    def _close(self) -> None:
        self._chunks.append(pa.array(self._open, pa.string()))
        self._open = []


class Column(Sequence[Item]):
    """Rows of columns: an item becomes a Python object on access, a slice a list of objects."""

    @abstractmethod
    def _list(self, rows: slice) -> list[Item]: ...

    def __getitem__(self, row: SupportsIndex | slice) -> Any:
        if isinstance(row, slice):
            return self._list(row)
        start = range(len(self))[row]  # raises IndexError
        return self._list(slice(start, start + 1))[0]

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), BLOCK):
            yield from self[start : start + BLOCK]


class TextColumn(Column[str]):
    """Some rows of a column of texts; None where there is none."""

    def __init__(self, column: pa.LargeStringArray, rows: Int[np.ndarray, " texts"]) -> None:
        self._column, self._rows = column, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: SupportsIndex | slice) -> Any:
        return self._list(row) if isinstance(row, slice) else self._column[int(self._rows[row])].as_py()

    def _list(self, rows: slice) -> list[Any]:
        return self._column.take(pa.array(self._rows[rows])).to_pylist()

    @classmethod
    def whole(cls, column: pa.Array | pa.ChunkedArray) -> "TextColumn":
        texts = column.cast(pa.large_string())
        return cls(texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts, np.arange(len(texts)))

    def take(self, rows: Int[np.ndarray, " some"]) -> "TextColumn":
        """Select texts by row, in that order."""
        return TextColumn(self._column, self._rows[rows])

    def arrow(self) -> pa.LargeStringArray:
        return self._column.take(pa.array(self._rows))


class PairColumn(Column[tuple[str, str]]):
    """Pairs of texts, each in two columns."""

    def __init__(self, left: TextColumn, right: TextColumn) -> None:
        self._sides = left, right

    def __len__(self) -> int:
        return len(self._sides[0])

    def _list(self, rows: slice) -> list[tuple[str, str]]:
        left, right = (side[rows] for side in self._sides)
        return list(zip(left, right, strict=True))


def joined(columns: Iterable[TextColumn]) -> TextColumn:
    return TextColumn.whole(pa.chunked_array([column.arrow() for column in columns], pa.large_string()))


def numbered(column: TextColumn) -> tuple[TextColumn, Int[np.ndarray, " texts"]]:
    """Return the distinct texts of a column in order of first appearance, and for each text its index among them."""
    encoded = column.arrow().dictionary_encode()
    return TextColumn.whole(encoded.dictionary), encoded.indices.to_numpy().astype(np.int64)


def fingerprint_in_blocks(*parts: object) -> str:
    """Like `storage.tables.fingerprint`, but columns anywhere in the parts become JSON one block at a time."""
    digest = hashlib.sha256()
    for piece in _json(parts):
        digest.update(piece)
    return digest.hexdigest()[:32]


def _json(value: object) -> Iterator[bytes]:
    """Yield `storage.tables.canonical_json` in pieces; keys of mappings must be strings."""
    if isinstance(value, Column):
        items = ([canonical_json(block)[1:-1]] for block in blocks(value))
    elif isinstance(value, list | tuple):
        items = map(_json, value)
    elif isinstance(value, Mapping):
        items = (chain([canonical_json(name), b":"], _json(value[name])) for name in sorted(value))
    else:
        yield canonical_json(value)
        return
    opening, closing = (b"{", b"}") if isinstance(value, Mapping) else (b"[", b"]")
    yield opening
    for number, item in enumerate(items):
        yield b"," if number else b""
        yield from item
    yield closing


def blocks(items: Sequence[Item] | pa.Array | pa.ChunkedArray) -> Iterator[list[Item]]:
    for start in range(0, len(items), BLOCK):
        block = items[start : start + BLOCK]
        yield block.to_pylist() if isinstance(block, pa.Array | pa.ChunkedArray) else list(block)


def key_strings(column: Iterable[str] | pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    texts = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, pa.string())
    return pa.chunked_array((pa.array(text_keys(block), pa.string()) for block in blocks(texts)), pa.string())


def first_repeated(column: pa.ChunkedArray) -> tuple[int, int] | None:
    """Return the first and second rows of a text that occurs twice.

    If there are several such texts, choose the one repeated first; None if there is none.
    """
    numbers = column.combine_chunks().dictionary_encode().indices.to_numpy()  # of the texts, in order of appearance
    is_new = np.diff(np.maximum.accumulate(numbers), prepend=-1) > 0
    if is_new.all():
        return None
    again = int(is_new.argmin())
    return int((numbers == numbers[again]).argmax()), again
