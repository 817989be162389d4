"""Hold many texts with their keys without a Python object for each."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from disent_core.embeddings.arrays import KEY, keys_array
from disent_core.storage.text_columns import BLOCK, TextColumn, key_strings


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
