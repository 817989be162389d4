"""What a Parquet file unpacks to, from the headers of its pages alone: nothing is decompressed or decoded.

A page of a kilobyte may hold a billion equal values, and the library that reads it asks for their memory first. Its own
view of this metadata ends the process if they are damaged. Only as much of Thrift's compact protocol is read as these
use: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md and
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

import mmap
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_MAGIC = b"PAR1"
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value by its physical type: boolean, int32, int64, int96, float, double."""
_OF_STRING = 4
_DEEPEST = 32


class Unpacked(NamedTuple):
    """Bytes of the values of a page, without the strings that they are, and of the page itself."""

    values: int
    page: int


def unpacked_pages(path: Path, columns: Collection[str]) -> Iterator[Unpacked]:
    """Yield what each page of the columns unpacks to, in the order in which they are read.

    Raises:
        ValueError: if the metadata or the header of a page are damaged.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if len(content) < 12 or content[-4:] != _MAGIC:
            raise ValueError("it does not end as a Parquet file does")
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


def _pages(content: mmap.mmap, chunk: dict[int, Any]) -> Iterator[Unpacked]:
    """Yield the pages of a column in a group of rows, up to its last value."""
    width, place, seen = _WIDTHS.get(chunk[1], _OF_STRING), chunk.get(11) or chunk[9], 0
    while seen < chunk[5]:
        reader = _Thrift(content, place)
        header = reader.struct()
        of_values = header.get(5) or header.get(8)
        values, unpacked, packed = (of_values[1] if of_values else 0), header[2], header[3]
        if min(values, unpacked, packed) < 0:
            raise ValueError("a page has a negative size")
        yield Unpacked(values * width, unpacked)
        seen, place = seen + values, reader.place + packed


class _Thrift:
    """Read structs from a place; they become mappings from the numbers of their fields."""

    def __init__(self, content: mmap.mmap, place: int) -> None:
        self._content, self.place, self._depth = content, place, 0

    def struct(self) -> dict[int, Any]:
        """Read a struct."""
        self._enter()
        fields, number = {}, 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._signed()
            kind = header & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        self._depth -= 1
        return fields

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("its metadata are nested too deeply")

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (9, 10):
            return self._list()
        if kind == 12:
            return self.struct()
        raise ValueError(f"its metadata have a value of kind {kind}")

    def _list(self) -> list[Any]:
        self._enter()
        header = self._byte()
        size = header >> 4 if header >> 4 < 15 else self._unsigned()
        values = [self._value(header & 15) for _ in range(size)]
        self._depth -= 1
        return values

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        start, self.place = self.place, self.place + count
        if not 0 <= start <= self.place <= len(self._content):
            raise ValueError("its metadata end too early")
        return self._content[start : self.place]

    def _unsigned(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("its metadata have a number without end")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
