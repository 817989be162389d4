"""Hold texts by key, and look them up in embeddings mapped into memory. No Python object is made for a text."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Int8, Num

from disent_core.errors import TableError, located
from disent_core.storage.text_columns import BLOCK, TextColumn, key_strings

KEY = np.dtype("S32")  # type of text keys in arrays: 32 hex digits
SCALE = np.dtype(np.float16)


def packed(states: Float[np.ndarray, "tokens dim"]) -> Int8[np.ndarray, "tokens dim_and_scale"]:
    """Return states with 8 bits per value; the last two bytes of a token are its scale, in half precision.

    A value is off by about half a scale, which is the token's largest absolute value (at most 65,504) / 127.

    >>> packed(np.array([[1.0, -2.54, 0.5]], dtype=np.float32))[0, :3]
    array([  50, -127,   25], dtype=int8)
    """
    wide = states.astype(np.float32, copy=False)
    largest = np.abs(wide).max(axis=1, keepdims=True).clip(1e-4, 65_000)  # 127 scales are finite in half precision
    scale = (largest / 127).astype(SCALE)
    return np.concatenate([np.rint(wide / scale).clip(-127, 127).astype(np.int8), scale.view(np.int8)], axis=1)


def positions(keys: np.ndarray, sought: np.ndarray) -> tuple[Int[np.ndarray, " sought"], Bool[np.ndarray, " sought"]]:
    """Return the position of each sought key among sorted keys, and whether it is one of them."""
    order = np.argsort(sought, kind="stable")  # keys in order are found several times faster
    position = np.empty(len(sought), dtype=np.int64)
    position[order] = np.searchsorted(keys, sought[order])
    is_there = position < len(keys)
    is_there[is_there] = keys[position[is_there]] == sought[is_there]
    return position, is_there


@dataclass(frozen=True)
class _Keyed:
    """A table whose rows are looked up by key; keys are sorted."""

    name: str
    keys: np.ndarray

    def rows(self, keys: Sequence[str] | np.ndarray) -> Int[np.ndarray, " keys"]:
        """Return the row of each key; raise TableError for a key that is not in the table."""
        sought = np.asarray(keys, dtype=KEY)
        position, is_there = positions(self.keys, sought)
        if count := int((~is_there).sum()):
            example = bytes(sought[is_there.argmin()]).decode()
            problem = f"{count} of {len(sought)} texts are missing, e.g. {example}"
            remedy = "Materialise the embeddings of this encoder and language again"
            raise TableError(located(self.name, None, problem, remedy))
        return position

    def has(self, keys: Sequence[str] | np.ndarray) -> Bool[np.ndarray, " keys"]:
        return positions(self.keys, np.asarray(keys, dtype=KEY))[1]


@dataclass(frozen=True)
class VectorTable(_Keyed):
    """Sentence vectors, mapped into memory: row i belongs to `keys[i]`.

    The vector of row i is `matrix[i]` or, if the rows are stored in another order, `matrix[order[i]]`.
    """

    matrix: Float[np.ndarray, "stored dim"]
    order: Int[np.ndarray, " texts"] | None = None

    def take(self, rows: Int[np.ndarray, " rows"]) -> Float[np.ndarray, "rows dim"]:
        return self.matrix[rows if self.order is None else self.order[rows]]


@dataclass(frozen=True)
class StateTable(_Keyed):
    """Token states, mapped into memory: row i, of `keys[i]`, has `values[offsets[i] : offsets[i + 1]]`.

    If the texts are stored in another order, `order[i]` takes the place of i there. Values of 8 bits are `packed`.
    """

    values: Num[np.ndarray, "tokens dim"]
    offsets: Int[np.ndarray, " stored_and_one"]
    order: Int[np.ndarray, " texts"] | None = None

    @property
    def spans(self) -> tuple[Int[np.ndarray, " texts"], Int[np.ndarray, " texts"]]:
        """Return the first row in `values`, and the number of rows, of each text."""
        stored = slice(None) if self.order is None else self.order
        return self.offsets[:-1][stored], np.diff(self.offsets)[stored]


def keys_array(column: pa.ChunkedArray) -> np.ndarray:
    """Convert keys to 32 bytes each, without a Python object per key."""
    keys = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    joined = keys.cast(pa.binary()).cast(pa.binary(KEY.itemsize))
    return np.frombuffer(joined.buffers()[1], dtype=KEY, count=len(joined), offset=joined.offset * KEY.itemsize)


def key_column(keys: np.ndarray) -> pa.StringArray:
    """Convert what `keys_array` returns back to strings."""
    binary = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(KEY.itemsize), len(keys), [None, pa.py_buffer(np.ascontiguousarray(keys))]
    )
    return binary.cast(pa.binary()).cast(pa.string())


# --- texts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    """Distinct texts, sorted by key; `with_states` marks those that need token states besides a vector."""

    keys: np.ndarray
    column: pa.LargeStringArray
    with_states: Bool[np.ndarray, " texts"]

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, rows: Int[np.ndarray, " texts"]) -> TextColumn:
        return TextColumn(self.column, rows)

    def take(self, rows: Int[np.ndarray, " some"]) -> "Texts":
        return Texts(self.keys[rows], self.column.take(pa.array(rows)), self.with_states[rows])

    @classmethod
    def of_mapping(cls, texts: Mapping[str, str]) -> "Texts":
        """Return texts, none of which needs token states, from a mapping of keys to texts."""
        return distinct_texts([(np.array(list(texts), dtype=KEY), pa.array(texts.values(), pa.string()), False)])


def distinct_texts(parts: Iterable[tuple[np.ndarray, pa.Array | pa.ChunkedArray, bool]]) -> Texts:
    """Return the distinct texts of some columns, given as keys, texts, and whether they need states.

    A repeated text has states if the first column with it has: give those with states first.
    """
    columns = [(keys, column.cast(pa.large_string()), states) for keys, column, states in parts]
    keys = np.concatenate([np.zeros(0, KEY), *(keys for keys, _, _ in columns)])
    with_states = np.repeat([states for _, _, states in columns], [len(keys) for keys, _, _ in columns]).astype(bool)
    keys, first = np.unique(keys, return_index=True)
    chunks = [chunk for _, column, _ in columns for chunk in getattr(column, "chunks", [column])]
    column = pa.chunked_array(chunks, pa.large_string()).combine_chunks() if chunks else pa.array([], pa.large_string())
    return Texts(keys, column.take(pa.array(first)), with_states[first])


def keys_of_texts(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return keys_array(key_strings(column))


def keys_fingerprint(name: str, keys: np.ndarray) -> str:
    """Return `storage.tables.fingerprint` of a name and a list of keys, without building the list."""
    digest = hashlib.sha256(f"[{json.dumps(name, ensure_ascii=False)},[".encode())
    for start in range(0, len(keys), BLOCK):
        block = b'","'.join(keys[start : start + BLOCK].tolist())
        digest.update(b'%s"%s"' % (b"," if start else b"", block))
    digest.update(b"]]")
    return digest.hexdigest()[:32]
