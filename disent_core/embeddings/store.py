"""Encode texts once each and store their vectors and token states by the hash of the text.

    home/tables/embeddings/<table>/<encoder>/<fingerprint>/<language>/part-<hash>.parquet
    home/cache/arrays/<encoder>/<fingerprint>/<language>/<table>-<hash>/{keys,values,offsets}.npy

The Parquet parts are the source of truth: each is immutable and holds one chunk of texts, so a killed run loses only
its current chunk. The arrays are made from them, flat and sorted by key, for training to map into memory; they can be
deleted at any time.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from disent_core.embeddings.arrays import (
    StateTable,
    VectorTable,
    arrow_keys,
    binary_keys,
    keys_array,
    open_arrays,
    read_part,
)
from disent_core.encoders.contract import EncodedBatch, Encoder, FloatName
from disent_core.errors import EncoderError
from disent_core.progress import Progress
from disent_core.storage.atomic import locked
from disent_core.storage.checksums import checksummed_path, ignore_damaged
from disent_core.storage.tables import fingerprint, safe_part, states_schema, vectors_schema

logger = logging.getLogger(__name__)

VECTORS, STATES = "sentence_vectors", "token_states"
CHUNK_TEXTS, CHUNK_SECONDS, CHUNK_BYTES = 20_000, 60.0, 1 << 29
"""A part is written when any of these is reached."""


# --- the store --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodeReport:
    """Counts of one call of `encode_missing`: `reused` texts were stored already, `tokens` were encoded."""

    encoded: int
    reused: int
    seconds: float
    tokens: int
    truncated: int


class EmbeddingStore:
    """Embeddings of the texts of one language by one encoder.

    Args:
        home: folder of results, with the tables and, in its cache, the arrays.
        encoder: name of the encoder.
        fingerprint: of the encoder; it is part of the path, so vectors of different encoders never mix.
        language: of the texts.
    """

    def __init__(self, home: Path, *, encoder: str, fingerprint: str, language: str) -> None:
        self._place = Path(safe_part(encoder), safe_part(fingerprint[:12]), safe_part(language))
        self._home = home
        self._keys_of: dict[Path, np.ndarray] = {}

    def folder(self, table: str) -> Path:
        """Folder of the parts of `sentence_vectors` or `token_states`."""
        return self._home / "tables" / "embeddings" / table / self._place

    def parts(self, table: str) -> list[Path]:
        """Parts of a table, in a fixed order."""
        return sorted(self.folder(table).glob("part-*.parquet"))

    def keys(self, table: str) -> set[str]:
        """Keys of the texts that a table holds.

        Raises:
            DamagedError: if a part is damaged. It has been quarantined.
        """
        return {key.decode() for part in self.parts(table) for key in self._part_keys(part).tolist()}

    def quarantine_damaged(self) -> None:
        """Verify every part and quarantine damaged ones; their texts are then missing and are encoded again."""
        for part in (*self.parts(VECTORS), *self.parts(STATES)):
            ignore_damaged(lambda part=part: self._part_keys(part))

    def missing(self, keys: Iterable[str], *, states: bool) -> list[str]:
        """Distinct keys, in order, that have no vector yet (or no states, if `states`)."""
        wanted = pa.array(dict.fromkeys(keys), pa.string())
        sought = binary_keys(wanted)
        parts = [arrow_keys(self._part_keys(part)) for part in self.parts(STATES if states else VECTORS)]
        # Only the sought keys go into hash tables, so that few of them take little time whatever is stored.
        stored = pa.chunked_array(parts, sought.type)
        present = stored.filter(pc.is_in(stored, value_set=sought))
        return wanted.filter(pc.invert(pc.is_in(sought, value_set=present))).to_pylist()

    def encode_missing(
        self, encoder: Encoder, texts: Mapping[str, str], *, state_keys: Collection[str] = ()
    ) -> EncodeReport:
        """Encode texts that are not stored yet: a vector for each text, and token states for `state_keys`.

        A text that needs both is encoded once. Parts are written as they fill, so a call after a crash continues. If
        two runs encode at once, one waits for the other.

        Args:
            encoder: must have the fingerprint of this store.
            texts: texts by their keys.
            state_keys: keys, among those of `texts`, that need token states too.

        Raises:
            ValueError: if the encoder is another one, or a state key has no text.
            EncoderError: if a text can't be encoded or a value is not finite.
            TableError: if a stored part is damaged.
        """
        started, wanted = time.monotonic(), set(state_keys)
        if encoder.fingerprint[:12] != self._place.parts[1]:
            raise ValueError(f"encoder {encoder.fingerprint[:12]} is not that of store {self._place}")
        if textless := wanted - texts.keys():
            raise ValueError(f"{len(textless)} state keys have no text, e.g. {min(textless)!r}")
        with locked(self.folder(VECTORS)):
            with_states = self.missing((key for key in texts if key in wanted), states=True)
            both, without_vector = set(with_states), self.missing(texts, states=False)
            vectors_only = [key for key in without_vector if key not in both]
            total, what = len(with_states) + len(vectors_only), f"{encoder.name}, {self._place.name}"
            counts = _Counts(Progress(logger, total, "texts", what=what))
            for keys, states in ((with_states, True), (vectors_only, False)):
                batches = encoder.encode([texts[key] for key in keys], states=states)
                self._store(encoder, keys, batches, counts, both.difference(without_vector))
        seconds = time.monotonic() - started
        return EncodeReport(total, len(texts) - total, seconds, counts.tokens, counts.truncated)

    def open_vectors(self, keys: Collection[str] = ()) -> VectorTable:
        """Open all stored vectors as one memory-mapped matrix; it is rebuilt if the parts have changed.

        Args:
            keys: that must all be stored.

        Raises:
            TableError: if a key is missing or a part is damaged.
        """
        arrays = self._arrays(VECTORS)
        table = VectorTable(str(self.folder(VECTORS)), arrays["keys"], arrays["values"])
        table.rows(list(keys))
        return table

    def open_states(self, keys: Collection[str] = ()) -> StateTable:
        """Open all stored token states, as `open_vectors` does."""
        arrays = self._arrays(STATES)
        table = StateTable(str(self.folder(STATES)), arrays["keys"], arrays["values"], arrays["offsets"])
        table.rows(list(keys))
        return table

    # --- writing ---

    def _store(
        self,
        encoder: Encoder,
        keys: Sequence[str],
        batches: Iterable[EncodedBatch],
        counts: "_Counts",
        with_vector: Set[str],
    ) -> None:
        """Write what comes out of the encoder part by part, but no vector of the texts that have one."""
        chunk = _Chunk()
        for batch in batches:
            chunk.add(batch)
            counts.add(batch)
            if chunk.is_full():
                self._write(encoder, keys, chunk, with_vector)
                chunk = _Chunk()
        if chunk.batches:
            self._write(encoder, keys, chunk, with_vector)

    def _write(self, encoder: Encoder, keys: Sequence[str], chunk: "_Chunk", with_vector: Set[str]) -> None:
        """Write states before vectors: after a kill in between, the texts still lack vectors and are encoded again."""
        batches = chunk.batches
        batch_keys = [keys[int(index)] for batch in batches for index in batch.indices]
        if batches[0].states is not None:
            values = np.concatenate([batch.states for batch in batches if batch.states is not None])
            offsets = np.concatenate([[0], np.cumsum(np.concatenate([batch.lengths for batch in batches]))])
            column = _states_column(_cast(values, encoder.states_dtype), offsets)
            self._write_part(STATES, batch_keys, column, states_schema(encoder.dim, encoder.states_dtype))
        vectors = np.concatenate([batch.vectors for batch in batches])
        is_new = [key not in with_vector for key in batch_keys]
        if any(is_new):
            column = _vectors_column(_cast(vectors[is_new], encoder.vector_dtype))
            new_keys = [key for key, new in zip(batch_keys, is_new, strict=True) if new]
            self._write_part(VECTORS, new_keys, column, vectors_schema(encoder.dim, encoder.vector_dtype))

    def _write_part(self, table: str, keys: Sequence[str], column: pa.Array, schema: pa.Schema) -> None:
        """Write one part with the fastest compression and no dictionary, because floats hardly compress."""
        rows = pa.table([pa.array(keys, pa.string()), column.cast(schema.field(1).type)], schema=schema)
        name = fingerprint(sorted(keys))[:16]
        with checksummed_path(self.folder(table) / f"part-{name}.parquet", rows=len(rows)) as temporary:
            pq.write_table(rows, temporary, compression="zstd", compression_level=1, use_dictionary=False)

    # --- reading ---

    def _part_keys(self, part: Path) -> np.ndarray:
        if part not in self._keys_of:
            self._keys_of[part] = keys_array(read_part(part, ["text_key"])["text_key"])
        return self._keys_of[part]

    def _cache(self) -> Path:
        return self._home / "cache" / "arrays" / self._place

    def _arrays(self, table: str) -> dict[str, np.ndarray]:
        return open_arrays(self._cache(), table, self.parts(table), self.folder(table))


@dataclass
class _Chunk:
    """Batches of the next part."""

    batches: list[EncodedBatch] = field(default_factory=list)
    texts: int = 0
    bytes: int = 0
    started: float = field(default_factory=time.monotonic)

    def add(self, batch: EncodedBatch) -> None:
        self.batches.append(batch)
        self.texts += len(batch.indices)
        self.bytes += batch.vectors.nbytes + (0 if batch.states is None else batch.states.nbytes)

    def is_full(self) -> bool:
        late = time.monotonic() - self.started >= CHUNK_SECONDS
        return late or self.texts >= CHUNK_TEXTS or self.bytes >= CHUNK_BYTES


@dataclass
class _Counts:
    """Counts of texts and tokens encoded so far."""

    progress: Progress
    texts: int = 0
    tokens: int = 0
    truncated: int = 0

    def add(self, batch: EncodedBatch) -> None:
        self.texts += len(batch.indices)
        self.tokens += int(batch.lengths.sum())
        self.truncated += batch.truncated
        self.progress.advance(self.texts)


# --- parts ------------------------------------------------------------------------------------------------


def _vectors_column(vectors: Float[np.ndarray, "texts dim"]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(_finite(vectors), vectors.shape[1])


def _states_column(values: Float[np.ndarray, "tokens dim"], offsets: Int[np.ndarray, " texts_and_one"]) -> pa.Array:
    states = pa.FixedSizeListArray.from_arrays(_finite(values), values.shape[1])
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), states)


def _cast(values: np.ndarray, kind: FloatName) -> np.ndarray:
    with np.errstate(over="ignore"):  # too large values become infinite, which `_finite` rejects
        return values.astype(kind, copy=False)


def _finite(values: np.ndarray) -> pa.Array:
    import torch  # several times faster than NumPy here, on half precision above all

    flat = np.ascontiguousarray(values).reshape(-1)
    if not bool(torch.isfinite(torch.from_numpy(flat)).all()):
        raise EncoderError(
            f"a value is not finite in {flat.dtype}: the encoder fails, or its values are beyond what the type "
            "holds. Set vector_dtype and states_dtype to 'float32'"
        )
    return pa.array(flat)
