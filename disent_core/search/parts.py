"""Write and read the parts of an index: texts and vectors as Parquet, for other tools too, and the files of a search.

A search reads arrays, and texts from a file of their own, small enough to verify its checksum. The arrays of an
embedding are its distinct rows, of norm 1 on the grid of exact search, and for each text the number of its row among
them: all texts without slot values have the same residual, and a search among many equal rows is slow.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Float32, Int64

from disent_core.embeddings.arrays import KEY, keys_array
from disent_core.errors import DamagedError, located
from disent_core.evaluation.metrics.ranking import equal_rows, unit_rows
from disent_core.exact import blocks
from disent_core.search.contents import Part
from disent_core.storage.archives import most_unpacked
from disent_core.storage.files import atomic_path
from disent_core.storage.untrusted import mapped_array, untrusted_batches

EMBEDDINGS, TEXTS, KEYS = "embeddings.parquet", "texts.parquet", "keys.npy"
TEXT_FIELDS = [pa.field(name, pa.string()) for name in ("text_key", "text", "language")]
TEXT_SCHEMA = pa.schema([pa.field("row", pa.int64()), *TEXT_FIELDS])
"""Columns of a part without vectors; `row` numbers the texts of the index in the order in which they were added."""
DIGITS = "[0-9]" * 5  # pattern of the number in a folder name
_BATCH_ROWS = 4_096
_NEW_INDEX = "Make a new index with disent index"


def _vector_column(embedding: str) -> str:
    """Return the column with the vectors of an embedding; the column `language` has the language of the text."""
    return "language_embedding" if embedding == "language" else embedding


def vector_fields(dims: Mapping[str, int]) -> list[pa.Field]:
    """Return the columns of the vectors, by the width of each embedding."""
    return [pa.field(_vector_column(name), pa.list_(pa.float32(), dim)) for name, dim in dims.items()]


def part_schema(dims: Mapping[str, int]) -> pa.Schema:
    return pa.schema([*TEXT_SCHEMA, *vector_fields(dims)])


def record_batch(
    schema: pa.Schema, vectors: Mapping[str, Float[np.ndarray, "rows _"]], **columns: Any
) -> pa.RecordBatch:
    """Return rows of a schema from text columns and from vectors by embedding, some of which it may lack."""
    arrays = {_vector_column(name): np.ascontiguousarray(matrix, np.float32) for name, matrix in vectors.items()}
    lists = {name: pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1]) for name, rows in arrays.items()}
    return pa.RecordBatch.from_pydict({**columns, **lists}, schema=schema)


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer that leaves vectors uncompressed, because compression gains nothing."""
    texts = [field.name for field in schema if not pa.types.is_fixed_size_list(field.type)]
    vectors = [f"{field.name}.list.element" for field in schema if pa.types.is_fixed_size_list(field.type)]
    options: dict[str, Any] = {
        "compression": dict.fromkeys(texts, "zstd") | dict.fromkeys(vectors, "none"),
        "use_dictionary": ["language"],
        "write_statistics": texts,
    }
    return pq.ParquetWriter(path, schema, **options)


def next_number(index: Path) -> int:
    """Return a number that no folder has, not even one left by a killed run, or a damaged one."""
    return 1 + max((int(path.name[-5:]) for path in index.glob(f"*-{DIGITS}")), default=0)


def write_part(
    index: Path, dims: Mapping[str, int], language: str | None, batches: Iterable[pa.RecordBatch], *, is_loose: bool
) -> Part:
    """Write the next part of an index, whole or not at all, from batches of `part_schema` in ascending `row`."""
    number = next_number(index)
    with atomic_path(part_folder(index, number)) as temporary:
        temporary.mkdir()
        keys = _write_files(temporary, dims, batches)
        files = checksums(temporary)
    return Part(number=number, language=language, rows=len(keys), is_loose=is_loose, files=files)


def _write_files(temporary: Path, dims: Mapping[str, int], batches: Iterable[pa.RecordBatch]) -> np.ndarray:
    """Write the files of a part; return its sorted keys. Rows of norm 1 lie in unnamed files until all are known."""
    keys = [np.empty(0, KEY)]
    with ExitStack() as stack:
        units = {name: stack.enter_context(TemporaryFile(dir=temporary)) for name in dims}
        with (
            parquet_writer(temporary / EMBEDDINGS, part_schema(dims)) as all_columns,
            parquet_writer(temporary / TEXTS, TEXT_SCHEMA) as only_texts,
        ):
            for batch in batches:
                all_columns.write_batch(batch)
                only_texts.write_batch(batch.select(TEXT_SCHEMA.names))
                keys.append(keys_array(pa.chunked_array([batch["text_key"]])))
                for name, dim in dims.items():
                    rows = batch[_vector_column(name)].flatten().to_numpy().reshape(len(batch), dim)
                    units[name].write(unit_rows(rows, name).data)
        ordered = np.sort(np.concatenate(keys))
        np.save(temporary / KEYS, ordered)
        for name, dim in dims.items():
            _write_arrays(temporary, name, np.memmap(units[name], np.float32, "r", shape=(len(ordered), dim)))
    return ordered


def _write_arrays(folder: Path, name: str, units: Float32[np.ndarray, "rows dim"]) -> None:
    """Write the distinct rows of an embedding in the order of their first text, and the row of each text."""
    first, group = equal_rows(units)
    np.save(folder / f"{name}.groups.npy", group)
    values = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (len(first), units.shape[1]))
    for block in blocks(len(first), _BATCH_ROWS):
        values[block] = units[first[block]]
    values.flush()


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder."""
    return {file.name: _sha256(file) for file in sorted(folder.iterdir())}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_batches(index: Path, part: Part, dims: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    """Yield the texts of a part with their vectors; the part is untrusted."""
    path = part_folder(index, part.number) / EMBEDDINGS
    return _checked_batches(path, part, part_schema(dims), most_unpacked(path.stat().st_size))


def read_texts(index: Path, part: Part, most: int | None = None) -> pa.Table:
    """Read the texts of an untrusted part, which may unpack to at most `most` bytes."""
    folder = part_folder(index, part.number)
    path = checked_file(folder / TEXTS, part.files)
    return pa.Table.from_batches(
        _checked_batches(path, part, TEXT_SCHEMA, _most_of([folder]) if most is None else most)
    )


def _checked_batches(path: Path, part: Part, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part's file of at most `most` unpacked bytes; anything not in the schema is damage."""
    rows = 0
    try:
        for batch in untrusted_batches(path, schema.names, most):
            checked = batch.select(schema.names).cast(schema)
            if any(_has_nulls(checked[name]) for name in schema.names if name != "language"):
                raise ValueError("a value is missing")
            if not pc.all(pc.match_substring_regex(checked["text_key"], "^[0-9a-f]{32}$"), min_count=0).as_py():
                raise ValueError("a text_key is not 32 hexadecimal digits")
            rows += len(checked)
            yield checked
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        problem = f"these are not the texts of an index ({error})"
        raise DamagedError(located(path, None, problem, _NEW_INDEX)) from error
    if rows != part.rows:
        raise DamagedError(located(path, None, f"it has {rows} texts, not {part.rows}", _NEW_INDEX))


def _has_nulls(column: pa.Array) -> bool:
    values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    return bool(column.null_count or values.null_count)


def read_all_texts(index: Path, parts: Sequence[Part]) -> list[pa.Table]:
    """Read the texts of all parts; their limit of unpacked bytes applies to all files together, not to each."""
    most, tables = _most_of([part_folder(index, part.number) for part in parts]), []
    for part in parts:
        tables.append(table := read_texts(index, part, most))
        most -= table.nbytes
    return tables


def _most_of(folders: Sequence[Path]) -> int:
    return most_unpacked(sum(file.stat().st_size for folder in folders for file in folder.glob("*")))


def sorted_keys(index: Path, part: Part) -> np.ndarray:
    """Return the sorted keys of a part's texts, mapped into memory; the part is untrusted, and its files are whole."""
    if KEYS not in part.files:  # of an earlier version of disent
        return np.sort(keys_array(read_texts(index, part)["text_key"]))
    path = part_folder(index, part.number) / KEYS
    try:
        keys = mapped_array(path)
    except ValueError as error:
        raise _no_arrays(path, f" ({error})") from error
    if (keys.shape, keys.dtype) != ((part.rows,), KEY):
        raise _no_arrays(path)
    return keys


def arrays_of(
    index: Path, part: Part, embedding: str, dim: int
) -> tuple[Float32[np.ndarray, "distinct dim"], Int64[np.ndarray, " rows"]]:
    """Map into memory the distinct rows of an embedding, and the number of each text's row among them."""
    folder = part_folder(index, part.number)
    values, groups = (checked_file(folder / f"{embedding}.{end}", part.files) for end in ("npy", "groups.npy"))
    try:
        # Copy on write: torch does not accept read-only memory, and the file must not change.
        distinct, rows = mapped_array(values, "c"), mapped_array(groups, "c")
    except ValueError as error:
        raise _no_arrays(folder, f" ({error})") from error
    types = (distinct.shape[1:], distinct.dtype, rows.shape, rows.dtype)
    has_types = types == ((dim,), np.float32, (part.rows,), np.int64)
    if not (has_types and 0 <= rows.min(initial=0) <= rows.max(initial=0) < len(distinct)):
        raise _no_arrays(folder)
    return distinct, rows


def _no_arrays(place: Path, why: str = "") -> DamagedError:
    return DamagedError(located(place, None, f"its arrays are not those of an index{why}", _NEW_INDEX))


def checked_file(path: Path, files: Mapping[str, str]) -> Path:
    """Return the path of a file after verifying all of it against its checksum in `files`."""
    try:
        if _sha256(path) == files.get(path.name):
            return path
        problem = "this file is not as it was written"
    except OSError as error:
        problem = f"this file can't be read ({error.strerror})"
    remedy = "Run disent index again, on any texts: it mends what it can and sets the rest aside"
    raise DamagedError(located(path, None, problem, remedy))


def part_folder(index: Path, number: int) -> Path:
    return index / f"part-{number:05d}"
