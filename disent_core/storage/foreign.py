"""Read Parquet files that others have written: what they unpack to is bounded, as that of archives is."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disent_core.storage.parquet_pages import unpacked_pages

UNPACKED_TIMES, UNPACKED_LEAST = 100, 1 << 26
"""A file may hold 100 times its bytes, or 64 MB if that is more; texts and vectors hold 1 to 20 times theirs."""
_BATCH_ROWS = 8_192


def column_names(path: Path) -> list[str]:
    """Names of the columns of a Parquet file.

    Raises:
        pa.ArrowException, OSError: if it is damaged or no Parquet file.
    """
    return pq.ParquetFile(path).schema_arrow.names


def read_foreign_parquet(path: Path, columns: Collection[str]) -> pa.Table:
    """Read those columns that the file has; strings of any encoding become plain strings.

    Raises:
        pa.ArrowException, OSError: if it is damaged or no Parquet file.
        ValueError: if it unpacks to far more than its size suggests.
    """
    return pa.Table.from_batches(foreign_batches(path, columns))


def foreign_batches(path: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `read_foreign_parquet`, a few thousand at a time; of a file without rows, a batch without any.

    Raises:
        pa.ArrowException, OSError: if it is damaged or no Parquet file.
        ValueError: if it unpacks to far more than its size suggests.
    """
    most = max(UNPACKED_TIMES * path.stat().st_size, UNPACKED_LEAST)
    file = pq.ParquetFile(path)
    chosen = [name for name in file.schema_arrow.names if name in columns]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"columns are named twice: {', '.join(chosen)}")
    total = 0
    for page in unpacked_pages(path, chosen):
        total += page.values + page.page
        _require(total, most)
    strings = [name for name in chosen if _is_string(file.schema_arrow.field(name).type)]
    file = pq.ParquetFile(path, read_dictionary=strings)  # so a string of many rows is read once
    total, is_empty = 0, True
    for batch in file.iter_batches(_BATCH_ROWS, columns=chosen):
        is_empty = False
        total += sum(_bytes_of(column) for column in batch.columns)
        _require(total, most)
        yield pa.RecordBatch.from_arrays([_decoded(column) for column in batch.columns], batch.schema.names)
    if is_empty:
        yield pa.RecordBatch.from_arrays([pa.nulls(0, file.schema_arrow.field(name).type) for name in chosen], chosen)


def _is_string(kind: pa.DataType) -> bool:
    types = pa.types
    checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary,
              types.is_binary_view)  # fmt: skip
    return any(is_kind(kind) for is_kind in checks)


def _bytes_of(column: pa.Array) -> int:
    """Bytes of a column, before it loses its dictionary."""
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
