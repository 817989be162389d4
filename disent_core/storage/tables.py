"""Write, read and fingerprint tables, and give their paths.

A table has one Parquet file (zstd) per partition, whose manifest (see `disent_core.storage.results`) has two hashes:

* `inputs`: hash of everything that the rows were made from. If unchanged, nothing is recomputed.
* `content`: hash of the rows themselves, independent of the Parquet writer. If it is unchanged, nothing downstream is
  stale.

The footer of the file repeats both, for readers that have only the file.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disent_core.errors import TableError, commas, located
from disent_core.storage.names import safe_part
from disent_core.storage.results import manifest_entry, none_if_damaged, read_result, sole_maker, write_result
from disent_core.storage.schemas import SCHEMAS


@dataclass(frozen=True)
class TableInfo:
    """Row count, hashes and notes of a stored table, from its manifest."""

    rows: int
    inputs_hash: str
    content_hash: str
    notes: str = ""
    repeated: int | None = None  # rows that repeat an earlier row's key; None if not counted


# --- paths of tables ---------------------------------------------------------------------------------------


def table_path(home: Path, stage: str, table: str, *partition: str) -> Path:
    """`home/tables/corpora/utterances/massive/en.parquet`: the last part of the partition names the file."""
    *folders, last = [safe_part(part) for part in (stage, table, *partition)]
    return home.joinpath("tables", *folders) / f"{last}.parquet"


# --- fingerprints -----------------------------------------------------------------------------------------


def fingerprint(*parts: object) -> str:
    """Hash the parts to 32 hex digits: equal parts have equal fingerprints, in every process and version."""
    return hashlib.sha256(canonical_json(parts)).hexdigest()[:32]


def canonical_json(value: object) -> bytes:
    """Return the canonical JSON of a value, from which fingerprints are computed."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def content_fingerprint(table: pa.Table) -> str:
    """Fingerprint of the rows in their order: it covers names, types, values and nulls, not the memory layout."""
    digest = hashlib.sha256()
    for field in table.schema:
        digest.update(f"{field.name}:{field.type};{table.num_rows};".encode())
        _hash_column(table.column(field.name).combine_chunks(), digest)
    return digest.hexdigest()[:32]


def _hash_column(column: pa.Array | pa.ChunkedArray, digest: "hashlib._Hash") -> None:
    if isinstance(column, pa.ChunkedArray):  # combine_chunks of a column without chunks
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    # The bytes of each kind of column are hashed the same way on every machine (little-endian), nulls first.
    digest.update(np.packbits(column.is_null().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_struct(column.type):
        for part in column.flatten():
            _hash_column(part, digest)
    elif pa.types.is_list(column.type):
        lengths = column.value_lengths().fill_null(0)
        digest.update(lengths.to_numpy(zero_copy_only=False).astype("<i8").tobytes())
        _hash_column(column.flatten(), digest)
    elif pa.types.is_fixed_size_list(column.type):
        _hash_column(column.flatten(), digest)
    elif pa.types.is_string(column.type):
        encoded = column.fill_null("").cast(pa.large_binary())
        _, offsets, values = encoded.buffers()
        ends = np.frombuffer(offsets or b"\0" * 8, "<i8")[encoded.offset :][: len(encoded) + 1]
        digest.update(np.diff(ends).tobytes())
        digest.update(memoryview(values or b"")[ends[0] : ends[-1]])  # the texts are contiguous
    else:
        values = column.drop_null().to_numpy(zero_copy_only=False)
        digest.update(np.ascontiguousarray(values).tobytes())


# --- tables -----------------------------------------------------------------------------------------------

CREATED_AT = "created_at"  # the column of the time at which a row was made
_INPUTS, _CONTENT = b"disent.inputs", b"disent.content"
NOTES = b"disent.notes"
"""Key in the schema's metadata for a note about a table's rows, which the manifest keeps."""


def conform(table: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    if sorted(table.column_names) != sorted(schema.names):
        unexpected = sorted(set(table.column_names) ^ set(schema.names))
        raise TableError(f"{name}: missing or unknown columns: {commas(unexpected)}; expected {commas(schema.names)}")
    for field in schema:
        if not field.nullable and (count := table.column(field.name).null_count):
            raise TableError(f"{name}: column {field.name!r} has {count} nulls, but none are allowed")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise TableError(f"{name}: a column has values of the wrong type: {error}") from error


_BLOCK = 16_384  # rows converted to Python objects at a time, which take several times the memory of a table


def rows_table(rows: Iterable[Mapping[str, Any]], name: str) -> pa.Table:
    """Convert rows (mappings) to a table with the schema `SCHEMAS[name]`."""
    schema, remaining = SCHEMAS[name], iter(rows)
    # Inferred without nullability, so that `conform` names the column that has a null.
    relaxed = pa.schema([field.with_nullable(True) for field in schema])
    blocks = [schema.empty_table()]
    while block := list(islice(remaining, _BLOCK)):
        blocks.append(conform(pa.Table.from_pylist(block, schema=relaxed), schema, name))
    return pa.concat_tables(blocks)


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows as mappings, with one block in memory at a time."""
    for batch in table.to_batches(max_chunksize=_BLOCK):
        yield from batch.to_pylist()


def write_table(path: Path, table: pa.Table, schema: pa.Schema, *, inputs: str, key: Sequence[str] = ()) -> TableInfo:
    """Write one partition atomically, cast to the schema, and return its row count and hashes.

    `inputs` is the fingerprint of everything that the rows were made from. If the table has a `key`, rows with a
    repeated key are counted, so that nobody has to read the table for that.
    """
    notes = (table.schema.metadata or {}).get(NOTES, b"").decode()
    table = conform(table, schema, path.stem)
    times = [name for name in table.column_names if name == CREATED_AT]
    content = content_fingerprint(table.drop_columns(times))  # creation times do not count
    stamped = table.replace_schema_metadata({_INPUTS: inputs.encode(), _CONTENT: content.encode()})
    repeated = repeated_rows(table, key) if key else None
    facts = {"rows": table.num_rows, "inputs": inputs, "content": content, **({"notes": notes} if notes else {})}
    with write_result(path, **facts, **({} if repeated is None else {"repeated": repeated})) as temporary:
        pq.write_table(stamped, temporary, compression="zstd")
    return TableInfo(table.num_rows, inputs, content, notes, repeated)


def repeated_rows(table: pa.Table, key: Sequence[str]) -> int:
    """Count the rows that repeat an earlier row's key."""
    return len(table) - len(table.group_by(list(key)).aggregate([]))


@dataclass(frozen=True)
class RefreshResult:
    """A table after `refresh_table`; `is_reused` if its inputs were unchanged and nothing was computed."""

    info: TableInfo
    is_reused: bool


def refresh_table(
    path: Path, schema: pa.Schema, *, inputs: str, make: Callable[[], pa.Table], key: Sequence[str] = ()
) -> RefreshResult:
    """Make and write the partition, unless one made from equal inputs exists; `key` as for `write_table`.

    A damaged partition is quarantined and rebuilt. If two runs need the same partition, one makes it while the other
    waits.
    """
    if (info := none_if_damaged(lambda: read_info(path))) is not None and info.inputs_hash == inputs:
        if key and info.repeated is None:  # written by a version that did not count
            info = replace(info, repeated=repeated_rows(read_table(path, schema, key), key))
        return RefreshResult(info, is_reused=True)
    with sole_maker(path):
        if (info := none_if_damaged(lambda: read_info(path))) is not None and info.inputs_hash == inputs:
            return RefreshResult(info, is_reused=True)
        return RefreshResult(write_table(path, make(), schema, inputs=inputs, key=key), is_reused=False)


def read_info(path: Path) -> TableInfo | None:
    """Verify a table and return its row count and hashes; None if there is no such table.

    For a home in a bucket, rows are not fetched now but verified when they are read.
    """
    entry = manifest_entry(path)
    if entry is None:
        return None
    facts = entry.facts
    return TableInfo(facts["rows"], facts["inputs"], facts["content"], facts.get("notes", ""), facts.get("repeated"))


def content_of(path: Path) -> str | None:
    """Content hash of a stored table, None if there is none."""
    info = read_info(path)
    return info and info.content_hash


def read_table(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of one partition."""
    names = list(columns or schema.names)
    table = read_parquet(path, "Materialise its asset first", names)
    return conform(table, pa.schema([schema.field(name) for name in names]), str(path))


def read_parquet(path: Path, remedy: str, columns: list[str] | None = None) -> pa.Table:
    """Verify a Parquet file and read some or all of its columns."""
    data = read_result(path)
    if data is None:
        raise TableError(located(path, None, "this table does not exist", remedy))
    file = pq.ParquetFile(pa.BufferReader(data))
    if lacking := [name for name in columns or () if name not in file.schema_arrow.names]:
        again = "Delete the file and materialise its asset again"
        raise TableError(located(path, None, f"missing columns: {commas(lacking)}", again))
    return file.read(columns=columns)
