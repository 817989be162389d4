"""Convert classified spans to the BIO tags of a sentence."""

from collections.abc import Sequence
from typing import NamedTuple

from disent_core.corpora.annotation import OUTSIDE
from disent_core.methods.twosl import Overlap


class Prediction(NamedTuple):
    """A span of words, end exclusive, that a classifier predicts to be a slot, with its probability."""

    type: str
    start: int
    end: int
    probability: float


def decode(length: int, predictions: Sequence[Prediction], *, overlap: Overlap) -> list[str]:
    """Return the tags of a sentence of `length` words.

    Args:
        length: words of the sentence.
        predictions: spans of it; they may overlap.
        overlap: `greedy` keeps the most probable span first and drops those that overlap it (of equally
            probable ones the leftmost, then the shortest first); `overwrite` writes all of them from left to
            right, of those that begin together the short ones first, so that the last one written stays.
    """
    tags = [OUTSIDE] * length
    if overlap == "overwrite":
        for span in sorted(predictions, key=lambda span: (span.start, span.end)):
            _write(tags, span)
        return tags
    for span in sorted(predictions, key=lambda span: (-span.probability, span.start, span.end)):
        if all(tag == OUTSIDE for tag in tags[span.start : span.end]):
            _write(tags, span)
    return tags


def _write(tags: list[str], span: Prediction) -> None:
    tags[span.start : span.end] = [f"B-{span.type}", *[f"I-{span.type}"] * (span.end - span.start - 1)]
