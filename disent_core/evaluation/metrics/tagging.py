"""Count how well predicted BIO tags agree with gold tags: by token, and by span."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from disent_core.corpora.annotation import OUTSIDE, Slot, tagged_slots

Tags = Sequence[Sequence[str]]
"""A tag for every word of every sentence."""


@dataclass(frozen=True)
class Agreement:
    """Counts over all sentences."""

    correct: int
    predicted: int
    gold: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 0 to 1; 0 where it would be 0 / 0."""
        return 2 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 0.0


def token_agreement(gold: Tags, predicted: Tags, *, tags: Literal["bio", "type"] = "bio") -> Agreement:
    """Count words that have a slot (no O); `bio` distinguishes B- from I-, `type` does not."""
    correct = predicted_count = gold_count = 0
    for gold_tags, predicted_tags in _sentences(gold, predicted):
        for gold_tag, predicted_tag in zip(gold_tags, predicted_tags, strict=True):
            correct += gold_tag != OUTSIDE and _kind(gold_tag, tags) == _kind(predicted_tag, tags)
            predicted_count += predicted_tag != OUTSIDE
            gold_count += gold_tag != OUTSIDE
    return Agreement(correct, predicted_count, gold_count)


def span_agreement(gold: Tags, predicted: Tags, *, spans: Literal["lenient", "strict"] = "lenient") -> Agreement:
    """Count slots of equal type, start and end.

    `lenient` reads slots as seqeval does by default: an I- that continues nothing opens a slot. `strict` reads them
    by `opened_slots`.
    """
    read = tagged_slots if spans == "lenient" else opened_slots
    correct = predicted_count = gold_count = 0
    for gold_tags, predicted_tags in _sentences(gold, predicted):
        gold_spans, predicted_spans = set(read(gold_tags)), set(read(predicted_tags))
        correct += len(gold_spans & predicted_spans)
        predicted_count += len(predicted_spans)
        gold_count += len(gold_spans)
    return Agreement(correct, predicted_count, gold_count)


def opened_slots(tags: Sequence[str]) -> list[Slot]:
    """Return spans of tokens that a B- opens and that every following I- continues, of whatever type.

    xSID's `nluEval.py` reads them so, except that here a span that ends one token before the sentence keeps its end.
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
    for index, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True)):
        if len(gold_tags) != len(predicted_tags):
            counts = f"{len(gold_tags)} gold tags and {len(predicted_tags)} predicted ones"
            raise ValueError(f"sentence {index} has {counts}")
    return list(zip(gold, predicted, strict=True))
