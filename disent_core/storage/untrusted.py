"""Read untrusted Parquet and .npy files; their unpacked size is bounded, as for archives."""

import mmap
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from tokenize import TokenError
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disent_core.storage.archives import most_unpacked

_BATCH_ROWS = 8_192


def mapped_array(path: Path, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """Map the array of a .npy file into memory; raise ValueError if it has none.

    Nothing is allocated on the header's word, and nothing is unpickled.
    """
    try:
        return np.lib.format.open_memmap(path, mode=mode)
    except (OverflowError, EOFError, TypeError, SyntaxError, TokenError) as error:  # from headers that numpy evaluates
        raise ValueError(str(error)) from error


def column_names(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    return pq.ParquetFile(path).schema_arrow.names


def read_untrusted_parquet(path: Path, columns: Collection[str], most: int | None = None) -> pa.Table:
    """Read those of the columns that the file has, up to `most` bytes; strings of any encoding become plain strings."""
    return pa.Table.from_batches(untrusted_batches(path, columns, most))


def untrusted_batches(path: Path, columns: Collection[str], most: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield rows as `read_untrusted_parquet` does, a few thousand at a time; one empty batch if there are none."""
    most = most_unpacked(path.stat().st_size) if most is None else most
    file = pq.ParquetFile(path)
    chosen = [name for name in file.schema_arrow.names if name in columns]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"columns are named twice: {', '.join(chosen)}")
    total = 0
    for page in unpacked_pages(path, chosen):
        total += sum(page)
        _require(total, most)
    strings = [name for name in chosen if _is_string(file.schema_arrow.field(name).type)]
    file = pq.ParquetFile(path, read_dictionary=strings)  # so that a string repeated in many rows is read once
    # One row group at a time: else the dictionary of values stored as they are grows with every batch.
    groups = (file.iter_batches(_BATCH_ROWS, [number], chosen) for number in range(file.num_row_groups))
    total, is_empty = 0, True
    for batch in chain.from_iterable(groups):
        is_empty = False
        total += sum(_bytes_of(column) for column in batch.columns)
        _require(total, most)
        yield pa.RecordBatch.from_arrays([_decoded(column) for column in batch.columns], batch.schema.names)
    if is_empty:
        yield pa.RecordBatch.from_arrays([pa.nulls(0, file.schema_arrow.field(name).type) for name in chosen], chosen)


def _is_string(kind: pa.DataType) -> bool:
    return kind in (
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()
    )  # fmt: skip


def _bytes_of(column: pa.Array) -> int:
    """Return the bytes that a column takes without its dictionary."""
    if not pa.types.is_dictionary(column.type) or not _is_string(column.type.value_type):
        return column.nbytes
    return pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0


def _decoded(column: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return column
    is_view = pa.types.is_string_view(column.type.value_type)
    return column.cast(pa.string()) if is_view else column.dictionary_decode()


def _require(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"it unpacks to more than {most >> 20:,} MB, which is far more than its size suggests")


# --- pages: the parser of their headers -------------------------------------------------------------------
#
# A page of a kilobyte may hold a billion equal values, and pyarrow allocates their memory before it decodes them. Its
# parsing of damaged metadata can end the process (parquet::ParquetException), so sizes are read here; nothing is
# decompressed or decoded. Only the part of Thrift's compact protocol that pages use is parsed:
# https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md and
# https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.

_MAGIC = b"PAR1"
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value by its physical type: boolean, int32, int64, int96, float, double."""
_OF_STRING = 4
_DEEPEST = 32


def unpacked_pages(path: Path, columns: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the unpacked sizes of each page of the columns, in reading order.

    Sizes are the bytes of its values, without the strings they refer to, and the bytes of the page itself.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if len(content) < 12 or content[-4:] != _MAGIC:
            raise ValueError("it does not end like a Parquet file")
        length = int.from_bytes(content[-8:-4], "little")
        if length > len(content) - 12:
            raise ValueError("its metadata are longer than the file")
        metadata = _Thrift(content, len(content) - 8 - length).struct()
        try:
            for row_group in metadata.get(4, ()):
                for chunk in row_group[1]:
                    if chunk[3][3][0].decode() in columns:
                        yield from _pages(content, chunk[3])
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError("its metadata are damaged") from error


def _pages(content: mmap.mmap, chunk: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """Yield the pages of a column in a group of rows, up to its last value."""
    width, offset, seen = _WIDTHS.get(chunk[1], _OF_STRING), chunk.get(11) or chunk[9], 0
    while seen < chunk[5]:
        reader = _Thrift(content, offset)
        header = reader.struct()
        of_values = header.get(5) or header.get(8)
        values, unpacked, packed = (of_values[1] if of_values else 0), header[2], header[3]
        if min(values, unpacked, packed) < 0:
            raise ValueError("a page has a negative size")
        yield values * width, unpacked
        seen, offset = seen + values, reader.offset + packed


class _Thrift:
    """Read structs from an offset, as mappings from field numbers to values."""

    def __init__(self, content: mmap.mmap, offset: int) -> None:
        self._content, self.offset, self._depth = content, offset, 0

    def struct(self) -> dict[int, Any]:
        fields, number = {}, 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._signed()
            kind = header & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind not in (9, 10, 12):
            raise ValueError(f"its metadata have a value of unknown type {kind}")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("its metadata are nested too deeply")
        value = self.struct() if kind == 12 else self._list()
        self._depth -= 1
        return value

    def _list(self) -> list[Any]:
        header = self._byte()
        size = header >> 4 if header >> 4 < 15 else self._unsigned()
        return [self._value(header & 15) for _ in range(size)]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        start, self.offset = self.offset, self.offset + count
        if not 0 <= start <= self.offset <= len(self._content):
            raise ValueError("its metadata end too early")
        return self._content[start : self.offset]

    def _unsigned(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("its metadata have a number that is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
