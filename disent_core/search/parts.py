"""Write and read the parts of an index: texts and vectors as Parquet, for others too, and what a search reads of them.

A search reads texts from a file of their own, which is small enough to be compared with its checksum, and arrays. The
arrays of an embedding are its distinct rows, of norm 1 on the grid of exact search, and for each text the number of its
row among them: texts without slot values have one residual, and a search among many equal rows is slow.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32, Int64

from disent_core.errors import DamagedError, located
from disent_core.evaluation.metrics.ranking import unit_rows
from disent_core.search.contents import Part
from disent_core.storage.files import atomic_path

EMBEDDINGS, TEXTS = "embeddings.parquet", "texts.parquet"
_BATCH_ROWS = 4_096
_REMEDY = "Run disent index again, with any texts: it stores the texts of this part again"


def vector_column(embedding: str) -> str:
    """Return the name of the column with the vectors of an embedding; `language` names the language of the text."""
    return "language_embedding" if embedding == "language" else embedding


def text_fields() -> list[pa.Field]:
    """Columns of a text."""
    return [pa.field("text_key", pa.string()), pa.field("text", pa.string()), pa.field("language", pa.string())]


def vector_fields(dims: Mapping[str, int]) -> list[pa.Field]:
    """Columns of the vectors, by the width of each embedding."""
    return [pa.field(vector_column(name), pa.list_(pa.float32(), dim)) for name, dim in dims.items()]


def text_schema() -> pa.Schema:
    """Columns of a part without vectors; `row` numbers the texts of the index in the order in which they were added."""
    return pa.schema([pa.field("row", pa.int64()), *text_fields()])


def part_schema(dims: Mapping[str, int]) -> pa.Schema:
    """Columns of a part."""
    return pa.schema([*text_schema(), *vector_fields(dims)])


def vectors_array(matrix: Float32[np.ndarray, "rows dim"]) -> pa.FixedSizeListArray:
    """Return a column of vectors."""
    values = np.ascontiguousarray(matrix, dtype=np.float32).ravel()
    return pa.FixedSizeListArray.from_arrays(pa.array(values), matrix.shape[1])


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer; vectors are not compressed, because that gains nothing."""
    texts = [field.name for field in schema if not pa.types.is_fixed_size_list(field.type)]
    vectors = [f"{field.name}.list.element" for field in schema if pa.types.is_fixed_size_list(field.type)]
    options: dict[str, Any] = {
        "compression": dict.fromkeys(texts, "zstd") | dict.fromkeys(vectors, "none"),
        "use_dictionary": ["language"],
        "write_statistics": texts,
    }
    return pq.ParquetWriter(path, schema, **options)


# --- writing ----------------------------------------------------------------------------------------------


def write_part(
    index: Path,
    number: int,
    language: str | None,
    dims: Mapping[str, int],
    batches: Iterable[pa.RecordBatch],
    *,
    is_loose: bool,
) -> Part:
    """Write a part, which appears whole or not at all; one batch at a time is in memory.

    Args:
        index: folder of the index.
        number: of the part; none has it yet.
        language: of all its texts.
        dims: width of each embedding.
        batches: rows of `part_schema`, by ascending `row`.
        is_loose: see `Part`.
    """
    schema, rows = part_schema(dims), 0
    folder = part_folder(index, number)
    with atomic_path(folder) as temporary:
        temporary.mkdir()
        texts = text_schema()
        with (
            parquet_writer(temporary / EMBEDDINGS, schema) as all_columns,
            parquet_writer(temporary / TEXTS, texts) as only_texts,
        ):
            for batch in batches:
                all_columns.write_batch(batch)
                only_texts.write_batch(batch.select(texts.names))
                rows += batch.num_rows
        for name, dim in dims.items():
            _write_arrays(temporary, name, dim)
        files = {file.name: file_sha256(file) for file in sorted(temporary.iterdir())}
    return Part(number=number, language=language, rows=rows, is_loose=is_loose, files=files)


def _write_arrays(folder: Path, name: str, dim: int) -> None:
    """Write the distinct rows of an embedding in the order of their first text, and the row of each text."""
    digests = b"".join(blake2b(row, digest_size=16).digest() for units in _unit_batches(folder, name) for row in units)
    _, first, group = np.unique(np.frombuffer(digests, dtype="V16"), return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    np.save(folder / f"{name}.groups.npy", place[group])
    values = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (len(first), dim))
    is_first = np.zeros(len(group), dtype=bool)
    is_first[first] = True
    read = written = 0
    for units in _unit_batches(folder, name):
        kept = units[is_first[read : read + len(units)]]
        values[written : written + len(kept)] = kept
        read, written = read + len(units), written + len(kept)
    values.flush()


def _unit_batches(folder: Path, name: str) -> Iterator[Float32[np.ndarray, "rows dim"]]:
    """Yield rows of norm 1, on the grid of exact search."""
    for batch in read_batches(folder, [vector_column(name)]):
        yield unit_rows(matrix_of(batch.column(0)), name)


def matrix_of(column: pa.FixedSizeListArray) -> Float32[np.ndarray, "rows dim"]:
    """Return vectors of a column."""
    return column.flatten().to_numpy().reshape(len(column), column.type.list_size)


# --- reading ----------------------------------------------------------------------------------------------


def read_batches(folder: Path, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part with all columns, or with some."""
    with pq.ParquetFile(folder / EMBEDDINGS) as file:
        yield from file.iter_batches(_BATCH_ROWS, columns=columns)


def read_texts(index: Path, part: Part) -> pa.Table:
    """Return texts of a part."""
    return pq.read_table(verified_file(index, part, TEXTS), schema=text_schema())


def arrays_of(
    index: Path, part: Part, embedding: str
) -> tuple[Float32[np.ndarray, "distinct dim"], Int64[np.ndarray, " rows"]]:
    """Return the distinct rows of an embedding, and the number of each text's row among them, mapped into memory."""
    values, groups = (verified_file(index, part, f"{embedding}.{end}") for end in ("npy", "groups.npy"))
    # Copy on write: torch does not accept read-only memory, and the file must not change.
    return np.load(values, mmap_mode="c", allow_pickle=False), np.load(groups, mmap_mode="c", allow_pickle=False)


def verified_file(index: Path, part: Part, name: str) -> Path:
    """Return the path of a file of a part, all of which was compared with its checksum."""
    return checked_file(part_folder(index, part.number) / name, part.files)


def checked_file(path: Path, files: Mapping[str, str]) -> Path:
    """Return the path of a file, all of which was compared with its checksum among those of `files`."""
    try:
        if file_sha256(path) == files.get(path.name):
            return path
        problem = "this file is not as it was written"
    except OSError as error:
        problem = f"this file can't be read ({error.strerror})"
    raise DamagedError(located(path, None, problem, _REMEDY))


def part_folder(index: Path, number: int) -> Path:
    """Return the folder of a part."""
    return index / f"part-{number:05d}"


def file_sha256(path: Path) -> str:
    """Return SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
