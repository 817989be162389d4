"""Write the vectors of a file of texts: as Parquet with the texts, or one embedding as a matrix."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from disent_core.search.build import Encode
from disent_core.search.contents import HeadRecord
from disent_core.search.parts import TEXT_FIELDS, parquet_writer, record_batch, vector_fields
from disent_core.search.texts import Text, TextFile
from disent_core.storage.files import atomic_path
from disent_core.text import text_keys

FORMATS = (".parquet", ".npy")
METADATA = b"disent"
"""Key of the file's metadata with what made it: the head's description and fingerprints as JSON."""
_BLOCK_TEXTS = 4_096

_Block = tuple[list[Text], Mapping[str, np.ndarray]]  # texts, and their vectors by the name of the embedding


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
    """Write a vector for each text, in order, and return the number of texts, which is at least one.

    The file appears whole or not at all, and replaces an earlier one. Its name ends in `.parquet`, whose metadata has
    the description of the head, or, for one embedding, in `.npy`. One block of texts is in memory at a time; `advance`
    gets the number of texts written.
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
    if path.suffix not in FORMATS:
        raise ValueError(f"{path} must end in {' or '.join(FORMATS)}")
    if path.suffix == ".npy" and len(embeddings) > 1:
        raise ValueError(f"{path}: a matrix has one embedding, of {', '.join(embeddings)}. Name one, or write .parquet")
    if path.exists() and path.samefile(texts.path):
        raise ValueError(f"{path} is both the texts and the output")


def _encoded_blocks(
    texts: TextFile, encode: Encode, embeddings: Sequence[str], advance: Callable[[int], object]
) -> Iterator[_Block]:
    """Yield blocks of texts with their vectors; within a block, texts are encoded by language."""
    remaining = iter(texts)
    while block := list(islice(remaining, _BLOCK_TEXTS)):
        order = sorted(range(len(block)), key=lambda row: block[row].language or "")
        parts = [
            encode([block[row].text for row in rows], language)
            for language, rows in groupby(order, key=lambda row: block[row].language)
        ]
        back = np.argsort(order)
        yield block, {name: np.concatenate([part[name] for part in parts])[back] for name in embeddings}
        advance(len(block))


def _write_matrix(path: Path, blocks: Iterator[_Block], name: str, count: int) -> None:
    matrix, start = None, 0
    for texts, vectors in blocks:
        if matrix is None:
            matrix = np.lib.format.open_memmap(path, "w+", np.float32, (count, vectors[name].shape[1]))
        matrix[start : start + len(texts)] = vectors[name]
        start += len(texts)


def _write_parquet(path: Path, blocks: Iterator[_Block], metadata: str) -> None:
    first = next(blocks)
    dims = {name: matrix.shape[1] for name, matrix in first[1].items()}
    schema = pa.schema([*TEXT_FIELDS, *vector_fields(dims)], metadata={METADATA: metadata})
    with parquet_writer(path, schema) as writer:
        for block, vectors in chain([first], blocks):
            texts, languages = zip(*block, strict=True)
            batch = record_batch(schema, vectors, text_key=text_keys(texts), text=texts, language=languages)
            writer.write_batch(batch)
