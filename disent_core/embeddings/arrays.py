"""Look up texts by key in embeddings mapped into memory. No Python object is made for a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Int8, Num

from disent_core.errors import TableError, located

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


def mark_present(sought: np.ndarray, keys: np.ndarray, is_present: Bool[np.ndarray, " sought"]) -> None:
    """Set `is_present` for each sought key that is one of the keys; `sought` is sorted and distinct."""
    position, is_there = positions(sought, keys)
    is_present[position[is_there]] = True


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
