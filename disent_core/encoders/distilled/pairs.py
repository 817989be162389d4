"""Sentence pairs that an encoder is distilled from, and the rule that keeps evaluation texts out of them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from disent_core.storage.tables import fingerprint

_OTHER = re.compile(r"\W+")


@dataclass(frozen=True)
class Translations:
    """Pairs of one corpus and language. `pivots[i]`, in the teacher's language, means the same as `foreign[i]`."""

    corpus: str
    language: str
    pivots: Sequence[str]
    foreign: Sequence[str]

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
    def fingerprint(self) -> str:
        """Fingerprint of all pairs."""
        return fingerprint(*([vars(part) for part in parts] for parts in (self.training, self.held_out)))


def exclusion_key(text: str) -> str:
    """Two texts are the same for exclusion if this is equal: NFKC, lower case, one space for what is no word."""
    return _OTHER.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip()


def exclusion_keys(texts: Iterable[str]) -> set[str]:
    """`exclusion_key` of each text."""
    return {exclusion_key(text) for text in texts}


def without(translations: Translations, excluded: Set[str]) -> Translations:
    """The pairs neither of whose sides has an excluded key, copies dropped."""
    kept: dict[tuple[str, str], tuple[str, str]] = {}
    for pivot, foreign in translations.pairs:
        keys = exclusion_key(pivot), exclusion_key(foreign)
        if excluded.isdisjoint(keys):
            kept.setdefault(keys, (pivot, foreign))
    pivots, foreign_texts = zip(*kept.values(), strict=True) if kept else ((), ())
    return Translations(translations.corpus, translations.language, pivots, foreign_texts)
