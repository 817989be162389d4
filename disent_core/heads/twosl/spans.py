"""What TWOSL classifies: every short span of words of a sentence, as the sentence without it and its text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from disent_core.corpora.annotation import Slot, tagged_slots
from disent_core.errors import TrainingError
from disent_core.text import MASK, SUBWORD_MASK_CLOSE, SUBWORD_MASK_OPEN, separator_of

Mask = Literal["word", "subword", "span"]


class Tagged(NamedTuple):
    """A sentence with its slots; the language decides whether its words have spaces between them."""

    tokens: Sequence[str]
    tags: Sequence[str]
    language: str = ""


@dataclass(frozen=True)
class SpanItems:
    """Spans, sentence by sentence, short ones first. Words are counted from 0, ends are exclusive.

    `masked` is the sentence with the span masked, `texts` the span's own text, `labels` its slot type or None.
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
        """Some of the items, in the order of `rows`."""
        places = rows.tolist()
        texts = ([column[place] for place in places] for column in (self.masked, self.texts, self.labels))
        return SpanItems(self.sentence[rows], self.start[rows], self.end[rows], *texts)


def span_items(sentences: Sequence[Tagged], *, max_span: int, mask: Mask) -> SpanItems:
    """Every contiguous span of 1 to `max_span` words of every sentence.

    A span is labelled if it is exactly a slot; parts of slots, and spans that contain one, are None. Slots
    of more than `max_span` words are no item: see `too_long`.

    Args:
        sentences: with their tags (all O where they are not known).
        max_span: words of the longest span.
        mask: `word` writes one mask token for each word, `subword` one for each sub-word of the encoder's,
            `span` one for all.

    Raises:
        ValueError: if a sentence does not have as many tags as words.
    """
    places: list[tuple[int, int, int]] = []
    masked, texts, labels = [], [], []
    for index, sentence in enumerate(sentences):
        types = {(slot.start, slot.end): slot.type for slot in _slots(sentence)}
        separator = separator_of(sentence.language)
        tokens = list(sentence.tokens)
        for start, end in _spans(len(tokens), max_span):
            places.append((index, start, end))
            texts.append(text := separator.join(tokens[start:end]))
            hidden = _hidden(text, end - start, mask)
            masked.append(separator.join([*tokens[:start], *hidden, *tokens[end:]]))
            labels.append(types.get((start, end)))
    sentence, start, end = np.array(places, dtype=np.int64).reshape(-1, 3).T
    return SpanItems(sentence, start, end, masked, texts, labels)


def _spans(length: int, longest: int) -> list[tuple[int, int]]:
    return [(start, start + size) for size in range(1, min(longest, length) + 1) for start in range(length - size + 1)]


def _hidden(text: str, words: int, mask: Mask) -> list[str]:
    if mask == "subword":
        return [f"{SUBWORD_MASK_OPEN}{text}{SUBWORD_MASK_CLOSE}"]
    return [MASK] * (words if mask == "word" else 1)


def _slots(sentence: Tagged) -> list[Slot]:
    if len(sentence.tokens) != len(sentence.tags):
        found = f"{len(sentence.tokens)} words and {len(sentence.tags)} tags"
        raise ValueError(f"the sentence {' '.join(sentence.tokens)!r} has {found}")
    return tagged_slots(sentence.tags)


def slot_types(sentences: Sequence[Tagged]) -> tuple[str, ...]:
    """Types that occur, sorted."""
    return tuple(sorted({slot.type for sentence in sentences for slot in _slots(sentence)}))


def too_long(sentences: Sequence[Tagged], max_span: int) -> float:
    """Share of the slots, 0 to 1, that have more than `max_span` words: recall can't exceed what is left."""
    lengths = [slot.end - slot.start for sentence in sentences for slot in _slots(sentence)]
    return sum(length > max_span for length in lengths) / len(lengths) if lengths else 0.0


# --- samples ----------------------------------------------------------------------------------------------


def sample_nones(items: SpanItems, per_sentence: int, seed: int) -> SpanItems:
    """All slots, and at most this many random spans of each sentence that are no slot; in the order of `items`."""
    rank = np.random.default_rng((seed, 3)).random(len(items))
    is_none = np.array([label is None for label in items.labels], dtype=bool)
    nones = np.flatnonzero(is_none)
    order = nones[np.lexsort((rank[nones], items.sentence[nones]))]
    first = np.searchsorted(items.sentence[order], items.sentence[order], side="left")
    kept = order[np.arange(len(order)) - first < per_sentence]
    return items.select(np.sort(np.concatenate([np.flatnonzero(~is_none), kept])))


def sample_sentences(
    sentences: Sequence[Tagged], count: int, seed: int, how: Literal["random", "cover_types"]
) -> list[Tagged]:
    """`count` different sentences; with `cover_types` every slot type is among them, as far as `count` allows.

    Raises:
        TrainingError: if there are fewer sentences.
    """
    if count > len(sentences):
        raise TrainingError(f"examples is {count} and there are {len(sentences)} training sentences. Lower examples")
    order = np.random.default_rng((seed, 4)).permutation(len(sentences)).tolist()
    if how == "cover_types":
        order = [*(cover := _cover(sentences, order)), *(place for place in order if place not in set(cover))]
    return [sentences[place] for place in order[:count]]


def _cover(sentences: Sequence[Tagged], order: Sequence[int]) -> list[int]:
    """Places of sentences that have all types: the first one in `order` for each type, rare types first."""
    types = {place: {slot.type for slot in _slots(sentences[place])} for place in order}
    counts: dict[str, int] = {}
    for place in order:
        for one in types[place]:
            counts[one] = counts.get(one, 0) + 1
    cover: list[int] = []
    covered: set[str] = set()
    for wanted in sorted(counts, key=lambda one: (counts[one], one)):
        if wanted not in covered:
            cover.append(next(place for place in order if wanted in types[place]))
            covered |= types[cover[-1]]
    return cover
