"""List the candidates that TWOSL classifies: every short span of words, as its text and as the sentence without it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from disent_core.heads.families.few_shot import Tagged, slots_of
from disent_core.methods.twosl import Mask
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
        places = rows.tolist()
        texts = ([column[place] for place in places] for column in (self.masked, self.texts, self.labels))
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

    Raises:
        ValueError: if a sentence's numbers of tags and words differ.
    """
    places: list[tuple[int, int, int]] = []
    masked, texts, labels = [], [], []
    for index, sentence in enumerate(sentences):
        types = {(slot.start, slot.end): slot.type for slot in slots_of(sentence)}
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


# --- samples ----------------------------------------------------------------------------------------------


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
