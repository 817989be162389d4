"""Map embeddings into memory for training: flat arrays in files, with rows sorted by key.

The arrays are made once from the Parquet parts of a table, and their folder is named after the set of parts. No Python
object is made for a row.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int

from disent_core.errors import TableError, located
from disent_core.storage.atomic import atomic_path
from disent_core.storage.checksums import is_verified_folder, write_folder_checksums
from disent_core.storage.tables import fingerprint, read_parquet

KEY = np.dtype("S32")
"""Type of text keys in arrays: 32 hex digits."""
_STALE_SECONDS = 3_600.0


def _positions(keys: np.ndarray, sought: np.ndarray) -> tuple[Int[np.ndarray, " sought"], Bool[np.ndarray, " sought"]]:
    """Position of each key among sorted ones, and whether it is there."""
    positions = np.searchsorted(keys, sought)
    is_there = positions < len(keys)
    is_there[is_there] = keys[positions[is_there]] == sought[is_there]
    return positions, is_there


def _rows(keys: np.ndarray, wanted: Sequence[str] | np.ndarray, name: str) -> Int[np.ndarray, " wanted"]:
    sought = np.asarray(wanted, dtype=KEY)
    if not len(sought):
        return np.zeros(0, dtype=np.int64)
    positions, is_there = _positions(keys, sought)
    absent = ~is_there
    if count := int(absent.sum()):
        example = bytes(sought[np.flatnonzero(absent)[0]]).decode()
        remedy = "Materialise the embeddings of this encoder and language again"
        raise TableError(located(name, None, f"{count} of {len(sought)} texts are missing, e.g. {example}", remedy))
    return positions


@dataclass(frozen=True)
class VectorTable:
    """Sentence vectors, mapped into memory: row i belongs to `keys[i]`; keys are sorted."""

    name: str
    keys: np.ndarray
    matrix: Float[np.ndarray, "texts dim"]

    def rows(self, keys: Sequence[str] | np.ndarray) -> Int[np.ndarray, " keys"]:
        """Row of each key.

        Raises:
            TableError: if a key is not in the table.
        """
        return _rows(self.keys, keys, self.name)

    def has(self, keys: Sequence[str] | np.ndarray) -> Bool[np.ndarray, " keys"]:
        """Whether each key is in the table."""
        return _positions(self.keys, np.asarray(keys, dtype=KEY))[1]


@dataclass(frozen=True)
class StateTable:
    """Token states, mapped into memory: text i, of `keys[i]`, has `values[offsets[i] : offsets[i + 1]]`."""

    name: str
    keys: np.ndarray
    values: Float[np.ndarray, "tokens dim"]
    offsets: Int[np.ndarray, " texts_and_one"]

    def rows(self, keys: Sequence[str] | np.ndarray) -> Int[np.ndarray, " keys"]:
        """Position of each key in `offsets`.

        Raises:
            TableError: if a key is not in the table.
        """
        return _rows(self.keys, keys, self.name)

    def has(self, keys: Sequence[str] | np.ndarray) -> Bool[np.ndarray, " keys"]:
        """Whether each key is in the table."""
        return _positions(self.keys, np.asarray(keys, dtype=KEY))[1]


# --- parts ------------------------------------------------------------------------------------------------


def read_part(part: Path, columns: list[str] | None = None) -> pa.Table:
    """Rows of one Parquet part.

    Raises:
        TableError: if it is missing or damaged.
    """
    return read_parquet(part, "Materialise the embeddings again: only its texts are encoded", columns)


def keys_array(column: pa.ChunkedArray) -> np.ndarray:
    """Convert keys to 32 bytes each, without a Python object per key."""
    joined = binary_keys(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
    return np.frombuffer(joined.buffers()[1], dtype=KEY, count=len(joined), offset=joined.offset * KEY.itemsize)


def arrow_keys(keys: np.ndarray) -> pa.FixedSizeBinaryArray:
    """Return what `keys_array` made as an Arrow array of `binary_keys`, without a copy."""
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(KEY.itemsize), len(keys), [None, pa.py_buffer(keys)])


def binary_keys(keys: pa.StringArray) -> pa.FixedSizeBinaryArray:
    """Return keys as 32 bytes each."""
    return keys.cast(pa.binary()).cast(pa.binary(KEY.itemsize))


# --- arrays -----------------------------------------------------------------------------------------------


def open_arrays(cache: Path, table: str, parts: Sequence[Path], source: Path) -> dict[str, np.ndarray]:
    """Open the arrays `keys`, `values` and, for token states, `offsets`; make them first if they do not exist.

    Args:
        cache: folder of the arrays.
        table: name of the table.
        parts: its Parquet parts.
        source: their folder, for the message.

    Raises:
        TableError: if there are no parts, or one of them is damaged. Damaged arrays are rebuilt.
    """
    if not parts:
        remedy = "Materialise the embeddings of this encoder and language first"
        raise TableError(located(source, None, "nothing is stored here", remedy))
    folder = cache / f"{table}-{fingerprint([part.name for part in parts])[:16]}"
    if not is_verified_folder(folder):
        _publish(folder, partial(_build, parts=parts))
        _remove_older(folder, table)
    # Copy on write: torch does not accept read-only memory, and the file must not change.
    return {file.stem: np.load(file, mmap_mode="c", allow_pickle=False) for file in folder.glob("*.npy")}


def _publish(folder: Path, build: Callable[[Path], None]) -> None:
    """Build a folder and publish it atomically; another process may have published it first."""
    try:
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            build(temporary)
            write_folder_checksums(temporary)
    except OSError:
        if not folder.is_dir():
            raise


def _remove_older(folder: Path, table: str) -> None:
    """Remove the arrays of earlier sets of parts that are too old for another process to be about to open them."""
    for older in folder.parent.glob(f"{table}-*"):
        if older != folder and time.time() - older.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(older, ignore_errors=True)


def _build(folder: Path, *, parts: Sequence[Path]) -> None:
    """Write arrays with rows sorted by key, reading one part at a time; a text stored twice keeps its first rows."""
    stored, lengths = _keys_and_lengths(parts)
    keys, first = np.unique(stored, return_index=True)
    offsets = np.concatenate([[0], np.cumsum(lengths[first])])
    starts = np.full(len(lengths), -1, dtype=np.int64)  # first row of each stored text; -1 if it is repeated
    starts[first] = offsets[:-1]
    kind = pq.read_schema(parts[0]).field(1).type
    vector = kind.value_type if pa.types.is_list(kind) else kind
    shape = (int(offsets[-1]), vector.list_size)
    values = np.lib.format.open_memmap(folder / "values.npy", "w+", vector.value_type.to_pandas_dtype(), shape)
    start = 0
    for part in parts:
        for column in read_part(part).column(1).chunks:
            texts = slice(start, start + len(column))
            _scatter(_values(column), lengths[texts], starts[texts], values)
            start += len(column)
    values.flush()
    np.save(folder / "keys.npy", keys)
    if pa.types.is_list(kind):
        np.save(folder / "offsets.npy", offsets)


def _keys_and_lengths(parts: Sequence[Path]) -> tuple[np.ndarray, Int[np.ndarray, " texts"]]:
    keys, lengths = [], []
    for part in parts:
        table = read_part(part)
        keys.append(keys_array(table["text_key"]))
        lengths += [_lengths(column) for column in table.column(1).chunks]
    return np.concatenate(keys), np.concatenate(lengths)


def _lengths(column: pa.Array) -> Int[np.ndarray, " texts"]:
    if pa.types.is_fixed_size_list(column.type):
        return np.ones(len(column), dtype=np.int64)
    return column.value_lengths().to_numpy().astype(np.int64)


def _values(column: pa.Array) -> Float[np.ndarray, "rows dim"]:
    vectors = column if pa.types.is_fixed_size_list(column.type) else column.flatten()
    return vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, vectors.type.list_size)


def _scatter(
    source: Float[np.ndarray, "rows dim"],
    lengths: Int[np.ndarray, " texts"],
    starts: Int[np.ndarray, " texts"],
    target: Float[np.ndarray, "all_rows dim"],
) -> None:
    """Put the rows of each text where it starts in `target`; a text that starts at -1 goes nowhere."""
    # For each source row: its number within its text, and the first row of that text in `target`.
    within = np.arange(len(source)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    start = np.repeat(starts, lengths)
    target[(start + within)[start >= 0]] = source[start >= 0] if (start < 0).any() else source
