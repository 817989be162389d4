"""Spans of words for TWOSL: list them, draw pairs of them for training, and write classified ones as BIO tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from disent_core.corpora.annotation import OUTSIDE
from disent_core.errors import TrainingError
from disent_core.methods.families.tagger import Tagged, slots_of
from disent_core.methods.twosl import Mask, Overlap
from disent_core.text import MASK, SUBWORD_MASK_CLOSE, SUBWORD_MASK_OPEN, separator_of


@dataclass(frozen=True)
class SpanItems:
    """Spans, sentence by sentence, short ones first. Words are counted from 0, ends are exclusive.

    `masked` is the sentence with the span masked, `texts` the text of the span, `labels` its slot type or None.
    """

    sentence: Int[np.ndarray, " items"]
    start: Int[np.ndarray, " items"]
    end: Int[np.ndarray, " items"]
    masked: list[str]
    texts: list[str]
    labels: list[str | None]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Int[np.ndarray, " chosen"]) -> "SpanItems":
        """Return some of the items, in the order of `rows`."""
        texts = ([column[row] for row in rows.tolist()] for column in (self.masked, self.texts, self.labels))
        return SpanItems(self.sentence[rows], self.start[rows], self.end[rows], *texts)


def span_items(sentences: Sequence[Tagged], *, max_span: int, mask: Mask) -> SpanItems:
    """Return every contiguous span of 1 to `max_span` words of every sentence.

    A span is labelled if it is exactly a slot; parts of slots, and spans that contain one, are None. Slots
    of more than `max_span` words are never classified, so recall is at most the share of shorter slots.

    Args:
        sentences: sentences with their tags (all O if unknown).
        max_span: words of the longest span.
        mask: `word` writes one mask token for each word, `subword` one for each sub-word of the encoder's,
            `span` one for all.
    """
    positions: list[tuple[int, int, int]] = []
    masked, texts, labels = [], [], []
    for index, sentence in enumerate(sentences):
        types = {(slot.start, slot.end): slot.type for slot in slots_of(sentence)}
        separator = separator_of(sentence.language)
        tokens = list(sentence.tokens)
        for start, end in _spans(len(tokens), max_span):
            positions.append((index, start, end))
            texts.append(text := separator.join(tokens[start:end]))
            hidden = _hidden(text, end - start, mask)
            masked.append(separator.join([*tokens[:start], *hidden, *tokens[end:]]))
            labels.append(types.get((start, end)))
    sentence, start, end = np.array(positions, dtype=np.int64).reshape(-1, 3).T
    return SpanItems(sentence, start, end, masked, texts, labels)


def _spans(length: int, longest: int) -> list[tuple[int, int]]:
    return [(start, start + size) for size in range(1, min(longest, length) + 1) for start in range(length - size + 1)]


def _hidden(text: str, words: int, mask: Mask) -> list[str]:
    if mask == "subword":
        return [f"{SUBWORD_MASK_OPEN}{text}{SUBWORD_MASK_CLOSE}"]
    return [MASK] * (words if mask == "word" else 1)


def sample_nones(items: SpanItems, per_sentence: int, seed: int) -> SpanItems:
    """Keep all slots, and at most this many random spans of each sentence that are no slot; in the order of `items`."""
    rank = np.random.default_rng((seed, 3)).random(len(items))
    is_none = np.array([label is None for label in items.labels], dtype=bool)
    nones = np.flatnonzero(is_none)
    order = nones[np.lexsort((rank[nones], items.sentence[nones]))]
    # Non-slots sorted by sentence, in random order within one: keep the first `per_sentence` of each.
    first = np.searchsorted(items.sentence[order], items.sentence[order], side="left")
    kept = order[np.arange(len(order)) - first < per_sentence]
    return items.select(np.sort(np.concatenate([np.flatnonzero(~is_none), kept])))


@dataclass(frozen=True)
class SpanPairs:
    """Rows of the first and second item of each pair; all positive pairs come first."""

    first: Int[np.ndarray, " pairs"]
    second: Int[np.ndarray, " pairs"]
    is_same: Bool[np.ndarray, " pairs"]

    def __len__(self) -> int:
        return len(self.first)


def contrastive_pairs(
    labels: Sequence[str | None], *, negatives_per_positive: int, max_positive_pairs: int, seed: int
) -> SpanPairs:
    """Return every pair of items of one type, and for each of them random items of another type, or of none.

    Args:
        labels: slot type of each item, None if it is no slot.
        negatives_per_positive: the paper's 2K: K for either item of the positive pair, drawn independently;
            1 draws one of the two items, then one negative for it.
        max_positive_pairs: largest number of positive pairs; of more, this many different random ones are taken.
        seed: random seed of the draws.

    Returns:
        The pairs; at least one item of each has a type.
    """
    if negatives_per_positive < 1 or (negatives_per_positive % 2 and negatives_per_positive != 1):
        raise ValueError(f"negatives_per_positive must be 1 or even, not {negatives_per_positive}")
    random = np.random.default_rng((seed, 5))
    groups = _Groups(labels)
    first, second = groups.positives(max_positive_pairs, random)
    if negatives_per_positive == 1:
        anchors = np.where(random.random(len(first)) < 0.5, first, second)
    else:
        half = negatives_per_positive // 2
        anchors = np.concatenate([np.repeat(first, half), np.repeat(second, half)])
    return SpanPairs(
        np.concatenate([first, anchors]),
        np.concatenate([second, groups.negatives(anchors, random)]),
        np.arange(len(first) + len(anchors)) < len(first),
    )


class _Groups:
    """Items sorted into blocks of one label each, the block without a type last."""

    def __init__(self, labels: Sequence[str | None]) -> None:
        types = sorted({label for label in labels if label is not None})
        codes: dict[str | None, int] = {label: code for code, label in enumerate(types)}
        self.code = np.array([codes.get(label, len(types)) for label in labels], np.int64)
        self.order = np.argsort(self.code, kind="stable")
        self.size = np.bincount(self.code, minlength=len(types) + 1)
        self.begin = np.cumsum(self.size) - self.size
        self.types = len(types)

    def positives(
        self, at_most: int, random: np.random.Generator
    ) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        # Number all pairs, type by type; `ends` are the numbers at which each type's pairs end.
        size = self.size[: self.types]
        ends = np.cumsum(size * (size - 1) // 2)
        total = int(ends[-1]) if len(ends) else 0
        if not total:
            raise TrainingError("no two training spans have one slot type. Set contrastive to false, or add examples")
        few = total <= at_most
        chosen = np.arange(total) if few else np.sort(random.choice(total, at_most, replace=False, shuffle=False))
        group = np.searchsorted(ends, chosen, side="right")
        low, high = _unrank(chosen - (ends - size * (size - 1) // 2)[group])
        return self.order[self.begin[group] + low], self.order[self.begin[group] + high]

    def negatives(
        self, anchors: Int[np.ndarray, " anchors"], random: np.random.Generator
    ) -> Int[np.ndarray, " anchors"]:
        """Return one item with another label for each anchor, drawn uniformly by skipping the anchor's block."""
        anchor_code = self.code[anchors]
        candidates = len(self.code) - self.size[anchor_code]
        if not candidates.all():
            raise TrainingError("all training spans have one label, so there is no negative. Add examples")
        drawn = random.integers(0, candidates)
        return self.order[drawn + np.where(drawn >= self.begin[anchor_code], self.size[anchor_code], 0)]


def _unrank(rank: Int[np.ndarray, " pairs"]) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Return the pair low < high of each rank, in the order (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    high = ((1 + np.sqrt(1 + 8 * rank.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > rank  # the square root may be off by one in the last bit
    high += high * (high + 1) // 2 <= rank
    return rank - high * (high - 1) // 2, high


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
