"""Encode each text once, and store its vector and token states by the hash of the text.

    home/tables/embeddings/<table>/<encoder>/<fingerprint>/<language>/part-<hash>.parquet
    home/cache/arrays/<encoder>/<fingerprint>/<language>/<table>-<hash>/{keys,values,lengths}.bin

The Parquet parts are the source of truth: each is immutable and holds one chunk of texts, so a killed run loses only
its current chunk. The arrays are derived from them, and grow with them, for training to map into memory; they can be
deleted at any time. Texts are encoded in the order of their keys.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float

from disent_core.embeddings.arrays import (
    KEY,
    StateTable,
    Texts,
    VectorTable,
    key_column,
    keys_array,
    packed,
    positions,
)
from disent_core.embeddings.mmap_cache import open_table, read_part
from disent_core.encoders.contract import EncodedBatch, Encoder, StatesName
from disent_core.errors import EncoderError
from disent_core.progress import Progress
from disent_core.shards.backend import map_shards, ranges
from disent_core.storage.names import safe_part
from disent_core.storage.results import list_results, none_if_damaged, sole_maker, write_result
from disent_core.storage.schemas import states_schema, vectors_schema
from disent_core.storage.tables import fingerprint

log = logging.getLogger(__name__)

VECTORS, STATES = "sentence_vectors", "token_states"
CHUNK_TEXTS, CHUNK_SECONDS, CHUNK_BYTES = 20_000, 60.0, 1 << 29  # a part is written when any of these is reached
TEXTS_OF_SHARD = 50_000  # texts encoded in one shard


@dataclass(frozen=True)
class EncodeResult:
    """Counts of one call to `EmbeddingStore.add`: `reused` texts were already stored, `tokens` were encoded."""

    encoded: int
    reused: int
    seconds: float
    tokens: int
    truncated: int


class EmbeddingStore:
    """Embeddings of the texts of one language by one encoder, whose fingerprint is part of the path.

    Thus vectors of different encoders never mix. `home` has the tables and, in its cache, the arrays.
    """

    def __init__(self, home: Path, *, encoder: str, fingerprint: str, language: str) -> None:
        self._path = Path(safe_part(encoder), safe_part(fingerprint[:12]), safe_part(language))
        self._home = home
        self._keys_of: dict[Path, np.ndarray] = {}

    def folder(self, table: str) -> Path:
        return self._home / "tables" / "embeddings" / table / self._path

    def parts(self, table: str) -> list[Path]:
        """Return the parts of a table, in a fixed order."""
        return list_results(self.folder(table), "part-*.parquet")

    def quarantine_damaged(self) -> None:
        """Verify every part and quarantine damaged ones; their texts are then missing and are encoded again."""
        for part in (*self.parts(VECTORS), *self.parts(STATES)):
            none_if_damaged(lambda part=part: self._part_keys(part))

    def lacks(self, keys: np.ndarray, *, states: bool) -> Bool[np.ndarray, " keys"]:
        """Return which of the distinct sorted keys have no vector yet (or no states, if `states`)."""
        is_stored = np.zeros(len(keys), dtype=bool)
        for part in self.parts(STATES if states else VECTORS) if len(keys) else ():
            position, is_there = positions(keys, self._part_keys(part))
            is_stored[position[is_there]] = True
        return ~is_stored

    def add(self, encoder: Encoder, texts: Texts) -> EncodeResult:
        """Encode and store the vectors and token states that are still missing.

        A text that needs both is encoded once. Parts are written as they fill, so a call after a crash continues. If
        two runs encode at once, one waits for the other. The encoder must have the fingerprint of this store.
        """
        with sole_maker(self.folder(VECTORS)):
            return self._add(encoder, texts)

    def add_in_shards(self, load: Callable[[], Encoder], texts: Texts, *, on_gpu: bool = False) -> EncodeResult:
        """Do what `add` does with the encoder from `load`, in shards if the step's backend is `sharded`.

        Each shard stores its parts. After a kill, a call or shard continues with the texts that no part has.
        """
        started = time.monotonic()
        with sole_maker(self.folder(VECTORS)):
            lacks_vector, lacks_states = self._lacking(texts)
            rows = np.flatnonzero(lacks_vector | lacks_states)
            shards = ranges(len(rows), TEXTS_OF_SHARD, on_gpu=on_gpu)
            if len(shards) == 1:
                return self._add(load(), texts)
            parts = [texts.take(rows[shard.start : shard.stop]) for shard in shards]
            reports = [*map_shards(_Encode(self, load), parts, on_gpu=on_gpu)]
        tokens, truncated = (sum(getattr(report, name) for report in reports) for name in ("tokens", "truncated"))
        return EncodeResult(len(rows), len(texts) - len(rows), time.monotonic() - started, tokens, truncated)

    def _add(self, encoder: Encoder, texts: Texts) -> EncodeResult:
        """Do what `add` does; the caller must hold the lock."""
        started = time.monotonic()
        if encoder.fingerprint[:12] != self._path.parts[1]:
            raise ValueError(f"encoder {encoder.fingerprint[:12]} is not that of store {self._path}")
        lacks_vector, lacks_states = self._lacking(texts)
        total = int((lacks_vector | lacks_states).sum())
        counts, progress = Counter[str](), Progress(log, total, "texts", what=f"{encoder.name}, {self._path.name}")
        for chosen, states in ((lacks_states, True), (lacks_vector & ~lacks_states, False)):
            rows = np.flatnonzero(chosen)
            for batches in _chunks(encoder.encode(texts.of(rows), states=states), counts, progress):
                self._write(encoder, texts.keys[rows], batches, lacks_vector[rows])
        seconds = time.monotonic() - started
        return EncodeResult(total, len(texts) - total, seconds, counts["tokens"], counts["truncated"])

    def _lacking(self, texts: Texts) -> tuple[Bool[np.ndarray, " texts"], Bool[np.ndarray, " texts"]]:
        """Return which texts have no vector yet, and which lack the states that they need."""
        lacks_states = texts.with_states.copy()
        lacks_states[texts.with_states] = self.lacks(texts.keys[texts.with_states], states=True)
        return self.lacks(texts.keys, states=False), lacks_states

    def open_vectors(self) -> VectorTable:
        """Append new parts, and open all stored vectors as one memory-mapped matrix."""
        return self._open(VECTORS)

    def open_states(self) -> StateTable:
        """Open all stored token states, as `open_vectors` does."""
        return self._open(STATES)

    def _open(self, table: str) -> Any:
        cache = self._home / "cache" / "arrays" / self._path
        return open_table(cache, table, self.parts(table), self.folder(table))

    def _write(
        self,
        encoder: Encoder,
        keys: np.ndarray,
        batches: Sequence[EncodedBatch],
        lacks_vector: Bool[np.ndarray, " texts"],
    ) -> None:
        """Write a part, without vectors for texts that already have one.

        States come before vectors: after a kill in between, the texts still lack vectors and are encoded again.
        """
        rows = np.concatenate([batch.indices for batch in batches])
        if batches[0].states is not None:
            values = np.concatenate([batch.states for batch in batches if batch.states is not None])
            offsets = np.concatenate([[0], np.cumsum(np.concatenate([batch.lengths for batch in batches]))])
            states = _fixed_size_lists(values, encoder.states_dtype)
            column = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), states)
            self._write_part(STATES, keys[rows], column, states_schema(states.type.list_size, encoder.states_dtype))
        vectors = np.concatenate([batch.vectors for batch in batches])
        is_new = lacks_vector[rows]
        if is_new.any():
            column = _fixed_size_lists(vectors[is_new], encoder.vector_dtype)
            self._write_part(VECTORS, keys[rows[is_new]], column, vectors_schema(encoder.dim, encoder.vector_dtype))

    def _write_part(self, table: str, keys: np.ndarray, column: pa.Array, schema: pa.Schema) -> None:
        """Write one part with the fastest compression and no dictionary, since floats hardly compress."""
        rows = pa.table([key_column(keys), column.cast(schema.field(1).type)], schema=schema)
        name = fingerprint(sorted(rows["text_key"].to_pylist()))[:16]
        with write_result(self.folder(table) / f"part-{name}.parquet", rows=len(rows)) as temporary:
            pq.write_table(rows, temporary, compression="zstd", compression_level=1, use_dictionary=False)  # noqa: TID251 - without a dictionary

    def _part_keys(self, part: Path) -> np.ndarray:
        if part not in self._keys_of:
            self._keys_of[part] = np.sort(keys_array(read_part(part, ["text_key"])["text_key"]))
        return self._keys_of[part]


@dataclass
class _Encode:
    """Encodes the texts of a shard; each worker loads the encoder once."""

    store: EmbeddingStore
    load: Callable[[], Encoder]

    @cached_property
    def encoder(self) -> Encoder:
        return self.load()

    def __call__(self, texts: Texts) -> EncodeResult:
        return self.store._add(self.encoder, texts)


def _chunks(batches: Iterable[EncodedBatch], counts: Counter[str], progress: Progress) -> Iterator[list[EncodedBatch]]:
    chunk, texts, size, started = [], 0, 0, time.monotonic()
    for batch in batches:
        counts.update(texts=len(batch.indices), tokens=int(batch.lengths.sum()), truncated=batch.truncated)
        progress.advance(counts["texts"])
        chunk.append(batch)
        texts += len(batch.indices)
        size += batch.vectors.nbytes + (0 if batch.states is None else batch.states.nbytes)
        if texts >= CHUNK_TEXTS or size >= CHUNK_BYTES or time.monotonic() - started >= CHUNK_SECONDS:
            yield chunk
            chunk, texts, size, started = [], 0, 0, time.monotonic()
    if chunk:
        yield chunk


def _fixed_size_lists(rows: Float[np.ndarray, "rows dim"], kind: StatesName) -> pa.FixedSizeListArray:
    values = _as_stored(rows, kind)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _as_stored(rows: Float[np.ndarray, "rows dim"], kind: StatesName) -> np.ndarray:
    """Return finite values in their storage type."""
    import torch  # `isfinite` is several times faster than NumPy's, on half precision above all

    with np.errstate(over="ignore"):  # values that are too large become infinite
        values = np.ascontiguousarray(rows.astype("float16" if kind == "int8" else kind, copy=False))
    if not bool(torch.isfinite(torch.from_numpy(values)).all()):
        raise EncoderError(
            f"a value is not finite in {values.dtype}: the encoder fails, or its values are too large for this type. "
            "Set vector_dtype and states_dtype to 'float32'"
        )
    return packed(values) if kind == "int8" else values


def encoded_tables(
    encoder: Encoder, texts: Mapping[str, str], *, states: bool
) -> tuple[VectorTable, StateTable | None]:
    """Encode at least one text in memory, bit-identical to the store; with `states`, return token states too."""
    batches = list(encoder.encode(list(texts.values()), states=states))
    keys = np.asarray(list(texts), dtype=KEY)[np.concatenate([batch.indices for batch in batches])]
    order = keys.argsort()
    vectors = _as_stored(np.concatenate([batch.vectors for batch in batches]), encoder.vector_dtype)
    table = VectorTable(encoder.name, keys[order], vectors[order])
    if not states:
        return table, None
    lengths = np.concatenate([batch.lengths for batch in batches])
    values = np.concatenate([batch.states for batch in batches if batch.states is not None])
    states_by_text = np.split(_as_stored(values, encoder.states_dtype), np.cumsum(lengths)[:-1])
    offsets = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
    return table, StateTable(
        encoder.name, keys[order], np.concatenate([states_by_text[text] for text in order]), offsets
    )
