"""Sentence pairs that an encoder is distilled from, and the rule that keeps evaluation texts out of them."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

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
        """Pivot and foreign text of each pair."""
        return zip(self.pivots, self.foreign, strict=True)


@dataclass(frozen=True)
class Material:
    """All that an encoder is distilled from.

    Attributes:
        training: pairs to align and to train on.
        held_out: pairs of which training sees nothing, by which it stops.
        dropped: pairs that were left out because a side is an evaluation text.
    """

    training: Sequence[Translations]
    held_out: Sequence[Translations]
    dropped: int = 0

    @property
    def training_fingerprint(self) -> str:
        """Fingerprint of the training pairs."""
        return fingerprint_in_blocks([vars(part) for part in self.training])

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all pairs."""
        return fingerprint_in_blocks(*([vars(part) for part in parts] for parts in (self.training, self.held_out)))


def exclusion_key(text: str) -> str:
    """Two texts are the same for exclusion if this is equal: NFKC, lower case, one space for what is no word."""
    return _OTHER.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip()


def exclusion_digests(texts: TextColumn) -> np.ndarray:
    """The first 16 bytes of the SHA-256 of each text's `exclusion_key`."""
    return np.concatenate([np.zeros(0, _DIGEST), *map(_digests, blocks(texts))])


def _digests(texts: Sequence[str]) -> np.ndarray:
    digests = (hashlib.sha256(exclusion_key(text).encode()).digest()[: _DIGEST.itemsize] for text in texts)
    return np.frombuffer(b"".join(digests), _DIGEST)


def without(translations: Translations, excluded: np.ndarray) -> Translations:
    """The pairs neither of whose sides is excluded, by its digest; copies are dropped."""
    sides = np.stack([exclusion_digests(side) for side in (translations.pivots, translations.foreign)], axis=1)
    kept = np.flatnonzero(~np.isin(sides, excluded).any(axis=1))
    _, first = np.unique(sides[kept].view(f"S{2 * _DIGEST.itemsize}"), return_index=True)
    rows = kept[np.sort(first)]
    sides = (side.take(rows) for side in (translations.pivots, translations.foreign))
    return Translations(translations.corpus, translations.language, *sides)
