"""Sentence pairs that an encoder is distilled from, and the rule that keeps evaluation texts out of them."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from disent_core.encoders.kinds.huggingface import RECORD
from disent_core.storage.text_columns import TextColumn, blocks, fingerprint_in_blocks

_OTHER = re.compile(r"\W+")
_DIGEST = np.dtype("S16")


@dataclass(frozen=True)
class Translations:
    """Pairs of one corpus and language. `pivots[i]`, in the teacher's language, means the same as `foreign[i]`."""

    corpus: str
    language: str
    pivots: TextColumn
    foreign: TextColumn

    def __len__(self) -> int:
        return len(self.pivots)

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        return zip(self.pivots, self.foreign, strict=True)


@dataclass(frozen=True)
class Material:
    training: Sequence[Translations]  # pairs to align and to train on
    held_out: Sequence[Translations]  # pairs that training never sees, for early stopping
    dropped: int = 0  # number of pairs left out because a side is an evaluation text

    @property
    def training_fingerprint(self) -> str:
        return fingerprint_in_blocks([vars(part) for part in self.training])

    @property
    def fingerprint(self) -> str:
        return fingerprint_in_blocks(*([vars(part) for part in parts] for parts in (self.training, self.held_out)))


def record_file(record: Mapping[str, Any]) -> dict[str, str]:
    """Return, by name, the file that records what an encoder was made from."""
    return {RECORD: json.dumps(record, indent=1, sort_keys=True) + "\n"}


def exclusion_key(text: str) -> str:
    """Return the form in which texts count as equal for exclusion: NFKC, lower case, non-words as one space."""
    return _OTHER.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip()


def exclusion_digests(texts: TextColumn) -> np.ndarray:
    """Return the first 16 bytes of the SHA-256 of each text's `exclusion_key`."""
    digests = [np.zeros(0, _DIGEST)]
    for block in blocks(texts):
        hashed = (hashlib.sha256(exclusion_key(text).encode()).digest()[: _DIGEST.itemsize] for text in block)
        digests.append(np.frombuffer(b"".join(hashed), _DIGEST))
    return np.concatenate(digests)


def without(translations: Translations, excluded: np.ndarray) -> Translations:
    """Return the distinct pairs without an excluded side, compared by digest."""
    sides = np.stack([exclusion_digests(side) for side in (translations.pivots, translations.foreign)], axis=1)
    kept = np.flatnonzero(~np.isin(sides, excluded).any(axis=1))
    _, first = np.unique(sides[kept].view(f"S{2 * _DIGEST.itemsize}"), return_index=True)
    rows = kept[np.sort(first)]
    sides = (side.take(rows) for side in (translations.pivots, translations.foreign))
    return Translations(translations.corpus, translations.language, *sides)
