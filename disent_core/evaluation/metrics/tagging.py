"""How well BIO tags agree with gold ones: token micro-F1, and F1 of strict spans."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from disent_core.corpora.annotation import OUTSIDE, Slot, tagged_slots

Tags = Sequence[Sequence[str]]
"""Tags of every word of every sentence."""


@dataclass(frozen=True)
class Agreement:
    """Counts over all sentences; every ratio is 0 to 1, and 0 where it would be 0 / 0."""

    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of what is predicted that is correct."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of what is gold that is found."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return 2 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 0.0


def token_agreement(gold: Tags, predicted: Tags, *, tags: Literal["bio", "type"] = "bio") -> Agreement:
    """Words that have a slot, O left out; `bio` tells B- from I-, `type` does not.

    Raises:
        ValueError: if a sentence does not have as many tags as its gold has.
    """
    correct = found = wanted = 0
    for own, guess in _sentences(gold, predicted):
        for right, said in zip(own, guess, strict=True):
            correct += right != OUTSIDE and _kind(right, tags) == _kind(said, tags)
            found += said != OUTSIDE
            wanted += right != OUTSIDE
    return Agreement(correct, found, wanted)


def span_agreement(gold: Tags, predicted: Tags, *, spans: Literal["lenient", "strict"] = "lenient") -> Agreement:
    """Slots of equal type, start and end.

    With `lenient` they are what seqeval counts by default: an I- that continues nothing begins a slot. With `strict`
    they are those of `opened_slots`.

    Raises:
        ValueError: if a sentence does not have as many tags as its gold has.
    """
    read = tagged_slots if spans == "lenient" else opened_slots
    correct = found = wanted = 0
    for own, guess in _sentences(gold, predicted):
        right, said = set(read(own)), set(read(guess))
        correct, found, wanted = correct + len(right & said), found + len(said), wanted + len(right)
    return Agreement(correct, found, wanted)


def opened_slots(tags: Sequence[str]) -> list[Slot]:
    """Spans of tokens that a B- opens and every I- behind it continues, of whatever type.

    As xSID's `nluEval.py` reads them, but that a span that ends one token before the sentence does keeps its end.
    """
    slots: list[Slot] = []
    for position, tag in enumerate(tags):
        prefix, _, slot_type = tag.partition("-")
        if prefix == "B":
            slots.append(Slot(slot_type, position, position + 1))
        elif prefix == "I" and slots and slots[-1].end == position:
            slots[-1] = slots[-1]._replace(end=position + 1)
    return slots


def _kind(tag: str, tags: Literal["bio", "type"]) -> str:
    return tag if tags == "bio" else tag.partition("-")[2] or tag


def _sentences(gold: Tags, predicted: Tags) -> list[tuple[Sequence[str], Sequence[str]]]:
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} sentences have gold tags and {len(predicted)} predicted ones")
    for index, (own, guess) in enumerate(zip(gold, predicted, strict=True)):
        if len(own) != len(guess):
            raise ValueError(f"sentence {index} has {len(own)} gold tags and {len(guess)} predicted ones")
    return list(zip(gold, predicted, strict=True))
