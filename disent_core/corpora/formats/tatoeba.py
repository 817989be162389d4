"""Read the Tatoeba test sets of LASER as published: `tatoeba.deu-eng.deu` and `tatoeba.deu-eng.eng`, line by line.

Artetxe and Schwenk 2019, Massively Multilingual Sentence Embeddings for Zero-Shot Cross-Lingual Transfer and
Beyond, https://aclanthology.org/Q19-1038: up to 1,000 sentences of 112 languages with their translations.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.formats.moses import Sides, named_sides, pair_files, read_sides, sides_of
from disent_core.corpora.lines import files_hash

KIND: Kind = "translations"
TRAINS = False
SHARES: Shares | None = None


def pairs(path: Path) -> list[str]:
    """Pairs in the folder or below it, sorted: `de-en` for `tatoeba.deu-eng.*`.

    Raises:
        CorpusError: if the folder does not exist, has no pair, or has one pair twice.
    """
    return sorted(pair_files(path, _sides_of_stem))


def read_pairs(path: Path, pair: str, *, corpus: str) -> pa.Table:
    """Rows of one pair in the schema `sentence_pairs`, in the order of the files, all in split `test`.

    The `pair_id` is the line number. A pair without one side, or with a text that can't be stored, is left out.

    Raises:
        AlignmentError: if the files are of unequal length, or half of the pairs lack a side.
        CorpusError: if the pair is absent, or a file is missing, empty, not UTF-8, or half of the texts can't be
            stored.
    """
    return read_sides(sides_of(path, pair, _sides_of_stem), pair, corpus=corpus)


def content_hash(path: Path, pair: str) -> str:
    """SHA-256, 64 hex digits, of the two files of this pair.

    Raises:
        CorpusError: as `read_pairs`, short of malformed lines.
    """
    return files_hash(sides_of(path, pair, _sides_of_stem))


def _sides_of_stem(stem: str, files: Mapping[str, Path]) -> dict[tuple[str, str], Sides]:
    prefix, _, name = stem.rpartition(".")
    return named_sides(name, files) if prefix == "tatoeba" else {}
