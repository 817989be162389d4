"""Group the texts of a log by shape, what they say apart from values, as patterns with slots.

    wake me up at nine     x 3
    wake me up at six      x 1   ->   wake me up at {1}      {1}: nine 3, six 1
    weck mich um acht auf  x 1        weck mich um {1} auf   {1}: acht 1, zehn 1
    weck mich um zehn auf  x 1

First, texts that differ only in a value are joined: in a few words in one place, no more than those they share, and if
their shape embeddings are similar. Then groups whose shape embeddings are near on average are joined, in any language.
Groups depend neither on the order of the texts nor on how often each occurs, and those of a looser threshold are unions
of those of a stricter one.

Texts are compared in lower case and without the punctuation around their words, and patterns show them so.

Texts of a group that share words form a wording. Its pattern has the words that most of its texts have, in order, a
slot where most texts have something in between, and `…` where some do. Slots are proposals read off the texts, not
annotations.

Only numpy is imported here.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import Match, SequenceMatcher
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from disent_core.linkage import Labels, components, linked
from disent_core.methods.modules.word_rows import is_unspaced_character
from disent_core.text import normalise

THRESHOLD = 0.7
"""Least mean cosine of the shapes of wordings in one group."""
_SAME_WORDING = 0.6
"""Least mean cosine of the shapes of texts of one wording that differ in a value, whatever the threshold."""
_LONGEST_VALUE = 4
"""Most words, or characters of scripts without spaces, in which two texts of one wording differ."""
_SHARED = 0.4
"""Least share of words that a text of a wording shares with its commonest text."""
_KEPT, _FILLED = 0.6, 0.5
"""Least shares of a wording's texts that have each word of its pattern, and a value in each slot."""
_EXAMPLES = 3  # of a wording

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""Shape embeddings of texts, unit vectors [texts, dim]."""
_Tokens = tuple[str, ...]


@dataclass(frozen=True)
class Wording:
    """Texts of a group that share words.

    Attributes:
        pattern: `wake me up at {1}`.
        count: number of texts, including repeats.
        slots: for each slot its values, the commonest first, with their counts.
        texts: distinct texts in their commonest spelling, in NFC with single spaces; the commonest first.
        is_new: whether no earlier text has this wording; None if there are no earlier texts.
    """

    pattern: str
    count: int
    slots: tuple[dict[str, int], ...]
    texts: tuple[str, ...]
    is_new: bool | None = None

    @property
    def examples(self) -> tuple[str, ...]:
        """Its commonest texts."""
        return self.texts[:_EXAMPLES]


@dataclass(frozen=True)
class Shape:
    """Texts of one shape.

    Attributes:
        count: number of texts, including repeats.
        distinct: number of distinct texts; those that differ only in case or outer punctuation count once.
        wordings: the commonest first.
        is_new: whether no earlier text has this shape; None if there are no earlier texts.
        earlier: number of earlier texts of this shape; None as above.
    """

    count: int
    distinct: int
    wordings: tuple[Wording, ...]
    is_new: bool | None = None
    earlier: int | None = None


def shapes(
    texts: Sequence[str],
    encode: Encode,
    *,
    earlier: Sequence[str] | None = None,
    threshold: float = THRESHOLD,
) -> list[Shape]:
    """Group texts, of any languages and possibly repeated, by shape, and return the groups, the largest first.

    Texts of an `earlier` log are grouped with them, to tell new shapes from known ones; None: there is none. `encode`
    embeds texts by their shape, and repeated texts count. A group's
    wordings have a mean cosine of at least `threshold`, above 0 and at most 1.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"the threshold is {threshold}; it must be above 0 and at most 1")
    written = _written(texts)
    counts = Counter({text: forms.total() for text, forms in written.items()})
    known = Counter(compared(text) for text in earlier or () if text.strip())
    if not counts:
        return []
    listed = sorted(counts | known)
    of_log = []
    for members in grouped(listed, encode(listed), threshold):
        of_group = {listed[row]: counts[listed[row]] for row in members if listed[row] in counts}
        of_earlier = None if earlier is None else sum(known[listed[row]] for row in members)
        before = None if earlier is None else [listed[row] for row in members if known[listed[row]]]
        if of_group:
            of_log.append(
                Shape(
                    count=sum(of_group.values()),
                    distinct=len(of_group),
                    wordings=tuple(_as_written(wording, written) for wording in wordings(of_group, before)),
                    is_new=None if of_earlier is None else not of_earlier,
                    earlier=of_earlier,
                )
            )
    return sorted(of_log, key=lambda shape: -shape.count)


def compared(text: str) -> str:
    """Return a text as it is compared: in NFC and lower case, without punctuation around words, with single spaces.

    A text of punctuation alone stays as it is.
    """
    words = normalise(text).lower().split()
    return " ".join(filter(None, map(_without_punctuation, words))) or " ".join(words)


def _without_punctuation(word: str) -> str:
    start, end = 0, len(word)
    while start < end and unicodedata.category(word[start]).startswith("P"):
        start += 1
    while start < end and unicodedata.category(word[end - 1]).startswith("P"):
        end -= 1
    return word[start:end]


def _written(texts: Sequence[str]) -> dict[str, Counter[str]]:
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for text in filter(str.strip, texts):
        written[compared(text)][" ".join(normalise(text).split())] += 1
    return written


def _as_written(wording: Wording, written: Mapping[str, Counter[str]]) -> Wording:
    forms = (written[text] for text in wording.texts)
    return replace(wording, texts=tuple(min(each, key=lambda form: (-each[form], form)) for each in forms))


# --- groups -----------------------------------------------------------------------------------------------


def grouped(texts: Sequence[str], vectors: NDArray[np.float32], threshold: float) -> list[NDArray[np.int64]]:
    """Group distinct texts, which must be in a reproducible order, and return the rows of each group.

    `vectors` are their shape embeddings, unit vectors [texts, dim]; `threshold` is the least mean cosine of wordings in
    one group.
    """
    return _rows_of(linked(vectors, threshold, same_wording(texts, vectors)))


def same_wording(texts: Sequence[str], vectors: NDArray[np.float32]) -> Labels:
    labels = np.empty(len(texts), dtype=np.int64)
    count = 0
    for rows in _rows_of(components(len(texts), _differing_in_a_value(texts))):
        of_rows = linked(vectors[rows], _SAME_WORDING)
        labels[rows] = count + of_rows
        count += int(of_rows.max()) + 1
    return labels


def _differing_in_a_value(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows of texts that differ only in a few words in one place, no more than those they share.

    Each text is paired with the first that has the same words before and after that place.
    """
    before: dict[tuple[int, str], int] = {}
    after: dict[tuple[int, str], int] = {}
    first: dict[tuple[int, int], int] = {}
    for row, text in enumerate(texts):
        tokens = tokens_of(text)
        heads, tails = _numbered(tokens, before), _numbered(tokens[::-1], after)
        for size in range(1, min(_LONGEST_VALUE, len(tokens) // 2) + 1):
            for start in range(len(tokens) - size + 1):
                place = heads[start], tails[len(tokens) - size - start]
                if (other := first.setdefault(place, row)) != row:
                    yield other, row


def _numbered(tokens: _Tokens, numbers: dict[tuple[int, str], int]) -> list[int]:
    """Return a number for each prefix of a text, 0 for the empty one; equal prefixes have equal numbers."""
    listed = [0]
    for token in tokens:
        listed.append(numbers.setdefault((listed[-1], token), len(numbers) + 1))
    return listed


def _rows_of(labels: Labels) -> list[NDArray[np.int64]]:
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1]) if labels.size else []


# --- patterns ---------------------------------------------------------------------------------------------


def wordings(texts: Mapping[str, int], earlier: Sequence[str] | None = None) -> tuple[Wording, ...]:
    """Split texts of one shape, with their counts, into wordings; `earlier` texts of the shape tell which are new."""
    before = frozenset(earlier or ())
    texts = dict.fromkeys(before, 0) | dict(texts)
    left = {text: tokens_of(text) for text in sorted(texts, key=lambda text: (-texts[text], text))}
    listed = []
    while left:
        first = next(iter(left.values()))
        shared = {text: _matches(first, tokens) for text, tokens in left.items()}
        near = [text for text, tokens in left.items() if _ratio(shared[text], first, tokens) >= _SHARED]
        words = _words(first, [shared[text] for text in near]) or first
        fitted = {text: _matches(words, left[text]) for text in near}
        # A text that lacks a word of the pattern would show another word as a value.
        members = {
            text: _values(blocks, left[text])
            for text, blocks in fitted.items()
            if left[text] is first or _size(blocks) == len(words)
        }
        if any(texts[text] for text in members):
            is_new = None if earlier is None else before.isdisjoint(members)
            listed.append(replace(_wording(words, members, texts), is_new=is_new))
        left = {text: tokens for text, tokens in left.items() if text not in members}
    return tuple(sorted(listed, key=lambda wording: -wording.count))


def tokens_of(text: str) -> _Tokens:
    """Return the words between white space; in scripts without spaces, the characters."""
    tokens: list[str] = []
    for word in text.split():
        tokens += list(word) if any(map(is_unspaced_character, word)) else [word]
    return tuple(tokens)


def _matches(left: _Tokens, right: _Tokens) -> list[Match]:
    """Return the runs of words that both have, in order; the last is empty."""
    return SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()


def _size(matches: Iterable[Match]) -> int:
    return sum(size for *_, size in matches)


def _ratio(matches: Iterable[Match], left: _Tokens, right: _Tokens) -> float:
    """Return the share of words that are in both, as `SequenceMatcher.ratio` does."""
    return 2 * _size(matches) / (len(left) + len(right))


def _words(first: _Tokens, matches: Sequence[Iterable[Match]]) -> _Tokens:
    """Return the words of the first text that most texts have; `matches` are those of every text, itself included."""
    kept_by = np.zeros(len(first))
    for start, _, size in chain.from_iterable(matches):
        kept_by[start : start + size] += 1
    return tuple(word for word, kept in zip(first, kept_by, strict=True) if kept >= _KEPT * len(matches))


def _wording(words: _Tokens, members: Mapping[str, list[tuple[int, str]]], counts: Mapping[str, int]) -> Wording:
    """Return the wording of texts that share `words`; what each has between them fills the slots of the pattern."""
    gaps: list[Counter[str]] = [Counter() for _ in range(len(words) + 1)]
    for text, values in members.items():
        for gap, value in values if counts[text] else ():
            gaps[gap][value] += counts[text]
    count = sum(counts[text] for text in members)
    slots, pieces = [], []
    for gap, word in zip(gaps, (*words, ""), strict=True):
        if gap.total() > _FILLED * count:
            slots.append(dict(gap.most_common()))
            pieces.append(f"{{{len(slots)}}}")
        elif gap:
            pieces.append("…")
        pieces.append(word)
    texts = sorted(filter(counts.get, members), key=lambda text: -counts[text])
    return Wording(_joined(piece for piece in pieces if piece), count, tuple(slots), tuple(texts))


def _values(matches: Iterable[Match], tokens: _Tokens) -> list[tuple[int, str]]:
    """Return what a text has between the matched words of a pattern: the number of each gap, and its text."""
    values, end = [], 0
    for word, start, size in matches:
        if start > end:
            values.append((word, _joined(tokens[end:start])))
        end = start + size
    return values


def _joined(tokens: Iterable[str]) -> str:
    """Join words by spaces, and characters of scripts without spaces by none."""
    text = ""
    for token in tokens:
        is_joined = text and is_unspaced_character(text[-1]) and is_unspaced_character(token[0])
        text += token if not text or is_joined else f" {token}"
    return text
