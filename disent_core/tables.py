"""The tables: where they lie, how they are written, read and fingerprinted.

A table is a Parquet file (zstd) per partition. It is written beside its place, flushed and renamed, so a
reader sees the old file or the new one and never a part of either. Two hashes travel in its footer:

* `inputs`: of everything the content was made from. Equal inputs: nothing to recompute.
* `content`: of the rows themselves, whatever wrote the bytes. Equal content: nothing downstream is stale.
"""

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disent_core.errors import TableError, located
from disent_core.schemas import SCHEMAS, states_schema, vectors_schema

__all__ = [
    "SCHEMAS", "Refreshed", "TableInfo", "atomic_path", "conform", "content_fingerprint",
    "content_of", "fingerprint", "read_info", "read_table", "refresh_table", "rows_table", "safe_part", "states_schema",
    "table_path", "vectors_schema", "write_table", "write_text",
]  # fmt: skip


@dataclass(frozen=True)
class TableInfo:
    """What the footer of a stored table says of it."""

    rows: int
    inputs: str
    content: str


# --- where tables lie -------------------------------------------------------------------------------------

_SAFE_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]*")


def safe_part(name: str) -> str:
    """The name itself, if it can be one component of a path and nothing else.

    Raises:
        ValueError: if the name could leave its folder or is not portable.
    """
    if not _SAFE_PART.fullmatch(name) or ".." in name:
        raise ValueError(f"{name!r} can't be part of a path: use letters, digits and _ . + @ -")
    return name


def table_path(home: Path, stage: str, table: str, *partition: str) -> Path:
    """`home/tables/corpora/utterances/massive/en.parquet`: the last part of the partition names the file."""
    *folders, last = [safe_part(part) for part in (stage, table, *partition)]
    return home.joinpath("tables", *folders) / f"{last}.parquet"


# --- fingerprints -----------------------------------------------------------------------------------------


def fingerprint(*parts: object) -> str:
    """32 hex digits that stand for the parts: equal parts, equal fingerprint, in every process and version."""
    canonical = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def content_fingerprint(table: pa.Table) -> str:
    """Fingerprint of the rows in their order: names, types, values and nulls, not how they are laid out."""
    digest = hashlib.sha256()
    for field in table.schema:
        digest.update(f"{field.name}:{field.type};{table.num_rows};".encode())
        _hash_column(table.column(field.name).combine_chunks(), digest)
    return digest.hexdigest()[:32]


def _hash_column(column: pa.Array | pa.ChunkedArray, digest: "hashlib._Hash") -> None:
    if isinstance(column, pa.ChunkedArray):  # combine_chunks of a column without chunks
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
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
        encoded = column.fill_null("").cast(pa.binary())
        lengths = pa.compute.binary_length(encoded).to_numpy(zero_copy_only=False)
        digest.update(lengths.astype("<i8").tobytes())
        digest.update(b"".join(encoded.to_pylist()))
    else:
        values = column.drop_null().to_numpy(zero_copy_only=False)
        digest.update(np.ascontiguousarray(values).tobytes())


# --- atomic files -----------------------------------------------------------------------------------------


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder; on success it is flushed to disk and takes the name `path`.

    The name or nothing: on any error the temporary file is removed and `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield beside
        _flush(beside)
        os.replace(beside, path)  # noqa: PTH105 - the atomicity of os.replace is the point
        _flush(path.parent)
    finally:
        if beside.is_dir():
            shutil.rmtree(beside)
        else:
            beside.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    with atomic_path(path) as beside:
        beside.write_text(text, encoding="utf-8")


# --- tables -----------------------------------------------------------------------------------------------

_INPUTS, _CONTENT = b"disent.inputs", b"disent.content"


def conform(table: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    """The table with just this schema.

    Raises:
        TableError: if a column is missing or more, has a value of another type, or a null where none may be.
    """
    if sorted(table.column_names) != sorted(schema.names):
        odd = sorted(set(table.column_names) ^ set(schema.names))
        raise TableError(f"{name}: columns {odd} are missing or unknown; expected {schema.names}")
    for field in schema:
        if not field.nullable and (count := table.column(field.name).null_count):
            raise TableError(f"{name}: column {field.name!r} has {count} nulls and may have none")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise TableError(f"{name}: a column has values of another type: {error}") from error


def rows_table(rows: Sequence[Mapping[str, Any]], name: str) -> pa.Table:
    """Rows (mappings) as the table of that name in `SCHEMAS`."""
    schema = SCHEMAS[name]
    if not rows:
        return schema.empty_table()
    # Inferred without nullability, so that `conform` names the column that has a null.
    relaxed = pa.schema([field.with_nullable(True) for field in schema])
    return conform(pa.Table.from_pylist(list(rows), schema=relaxed), schema, name)


def write_table(path: Path, table: pa.Table, schema: pa.Schema, *, inputs: str) -> TableInfo:
    """Write one partition atomically and return what its footer says.

    Args:
        path: where the partition lies.
        table: its rows; they are cast to `schema` and checked.
        schema: of the table, from `SCHEMAS`.
        inputs: fingerprint of everything that the rows were made from.
    """
    table = conform(table, schema, path.stem)
    content = content_fingerprint(table)
    stamped = table.replace_schema_metadata({_INPUTS: inputs.encode(), _CONTENT: content.encode()})
    with atomic_path(path) as beside:
        pq.write_table(stamped, beside, compression="zstd")
    return TableInfo(rows=table.num_rows, inputs=inputs, content=content)


@dataclass(frozen=True)
class Refreshed:
    """A table after `refresh_table`; `is_reused` where its inputs had not changed and nothing was computed."""

    info: TableInfo
    is_reused: bool


def refresh_table(path: Path, schema: pa.Schema, *, inputs: str, make: Callable[[], pa.Table]) -> Refreshed:
    """Make and write the partition, unless one made from equal inputs lies there already."""
    info = read_info(path)
    if info is not None and info.inputs == inputs:
        return Refreshed(info, is_reused=True)
    return Refreshed(write_table(path, make(), schema, inputs=inputs), is_reused=False)


def read_info(path: Path) -> TableInfo | None:
    """What the footer says, or None where there is no such table or its footer can't be read."""
    try:
        metadata = pq.read_metadata(path)
    except (FileNotFoundError, pa.ArrowInvalid, OSError):
        return None
    stamps = metadata.metadata or {}
    if _INPUTS not in stamps or _CONTENT not in stamps:
        return None
    return TableInfo(metadata.num_rows, stamps[_INPUTS].decode(), stamps[_CONTENT].decode())


def content_of(path: Path) -> str | None:
    """Content fingerprint of a stored table, None where there is none."""
    info = read_info(path)
    return info and info.content


def read_table(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of one partition.

    Raises:
        TableError: if the table is missing, damaged, or has another schema.
    """
    if not path.is_file():
        raise TableError(located(path, None, "this table does not exist", "Materialise its asset first"))
    names = list(columns or schema.names)
    remedy = "Delete the file and materialise its asset again"
    try:
        lacking = [name for name in names if name not in pq.read_schema(path, memory_map=True).names]
        table = None if lacking else pq.read_table(path, columns=names, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        found = f"this table is damaged ({' '.join(str(error).split())})"
        raise TableError(located(path, None, found, remedy)) from error
    if table is None:
        raise TableError(located(path, None, f"columns {lacking} are missing", remedy))
    return conform(table, pa.schema([schema.field(name) for name in names]), str(path))
