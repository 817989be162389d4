"""Write the vectors of a file of texts: as Parquet with the texts, or one embedding as a matrix."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from disent_core.search.build import Encode
from disent_core.search.contents import HeadRecord
from disent_core.search.parts import parquet_writer, text_fields, vector_fields, vectors_array
from disent_core.search.texts import Text, TextFile
from disent_core.storage.files import atomic_path
from disent_core.text import text_keys

FORMATS = (".parquet", ".npy")
METADATA = b"disent"
"""Key of the file's metadata that says what made it: the head's description and fingerprints as JSON."""
_BLOCK_TEXTS = 4_096

Vectors = Mapping[str, np.ndarray]


def write_vectors(
    path: Path,
    texts: TextFile,
    encode: Encode,
    embeddings: Sequence[str],
    head: HeadRecord,
    description: Mapping[str, Any],
    *,
    advance: Callable[[int], object] = lambda count: None,
) -> int:
    """Write a vector for each text, in order; the file appears whole or not at all. One block is in memory at a time.

    Args:
        path: ends in `.parquet` or, for one embedding, in `.npy`; a file that is there is replaced.
        texts: at least one.
        encode: gives vectors by the name of their embedding.
        embeddings: names of those that are written.
        head: what encodes.
        description: of the head, for the metadata of the Parquet file.
        advance: is called with the number of texts that were written since the last call.

    Returns:
        The number of texts.
    """
    require_output(path, texts, embeddings)
    count = texts.count()
    blocks = _encoded_blocks(texts, encode, embeddings, advance)
    with atomic_path(path) as temporary:
        if path.suffix == ".npy":
            _write_matrix(temporary, blocks, embeddings[0], count)
        else:
            record = asdict(head) | {"description": description}
            del record["places"]
            _write_parquet(temporary, blocks, json.dumps(record, ensure_ascii=False, default=str))
    return count


def require_output(path: Path, texts: TextFile, embeddings: Sequence[str] = ()) -> None:
    """Check that a file can have the vectors of these embeddings."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path} must end in {' or '.join(FORMATS)}")
    if path.suffix == ".npy" and len(embeddings) > 1:
        raise ValueError(f"{path}: a matrix has one embedding, of {', '.join(embeddings)}. Name one, or write .parquet")
    if path.exists() and path.samefile(texts.path):
        raise ValueError(f"{path} is both the texts and the output")


def _encoded_blocks(
    texts: TextFile, encode: Encode, embeddings: Sequence[str], advance: Callable[[int], object]
) -> Iterator[tuple[list[Text], Vectors]]:
    """Yield blocks of texts with their vectors."""
    remaining = iter(texts)
    while block := list(islice(remaining, _BLOCK_TEXTS)):
        yield block, _encoded(block, encode, embeddings)
        advance(len(block))


def _encoded(block: list[Text], encode: Encode, embeddings: Sequence[str]) -> Vectors:
    """Encode the texts of each language together, and return their vectors in the order of the block."""
    order = sorted(range(len(block)), key=lambda place: block[place].language or "")
    parts = [
        encode([block[place].text for place in places], language)
        for language, places in (
            (language, list(places)) for language, places in groupby(order, key=lambda place: block[place].language)
        )
    ]
    back = np.argsort(order)
    return {name: np.concatenate([part[name] for part in parts])[back] for name in embeddings}


def _write_matrix(path: Path, blocks: Iterator[tuple[list[Text], Vectors]], name: str, count: int) -> None:
    matrix, start = None, 0
    for texts, vectors in blocks:
        if matrix is None:
            matrix = np.lib.format.open_memmap(path, "w+", np.float32, (count, vectors[name].shape[1]))
        matrix[start : start + len(texts)] = vectors[name]
        start += len(texts)


def _write_parquet(path: Path, blocks: Iterator[tuple[list[Text], Vectors]], metadata: str) -> None:
    texts, vectors = next(blocks)
    dims = {name: matrix.shape[1] for name, matrix in vectors.items()}
    schema = pa.schema([*text_fields(), *vector_fields(dims)], metadata={METADATA: metadata})
    with parquet_writer(path, schema) as writer:
        writer.write_batch(_batch(texts, vectors, schema))
        for block in blocks:
            writer.write_batch(_batch(*block, schema))


def _batch(texts: list[Text], vectors: Vectors, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array(text_keys(one.text for one in texts), pa.string()),
        pa.array([one.text for one in texts], pa.string()),
        pa.array([one.language for one in texts], pa.string()),
        *map(vectors_array, vectors.values()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
