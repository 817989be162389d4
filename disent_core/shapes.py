"""Group the texts of a log by their shape: what they say without its values, as patterns with slots.

    wake me up at nine     x 3
    wake me up at six      x 1   ->   wake me up at {1}      {1}: nine 3, six 1
    weck mich um acht auf  x 1        weck mich um {1} auf   {1}: acht 1, zehn 1
    weck mich um zehn auf  x 1

Texts whose shape embeddings are near are a group, whatever their language. Texts of a group that share words are a
wording. Its pattern has the words that most of its texts have, in order, a slot where most texts have something between
them, and `…` where some have. Slots are proposals, read off the texts; nobody has annotated them.

Only numpy is imported here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disent_core.methods.modules.word_rows import is_unspaced_character
from disent_core.text import normalise

THRESHOLD = 0.75
"""Cosine of shapes from which on two texts are of one group."""
_SHARED = 0.4
"""Least share of words that a text of a wording has in common with its commonest text."""
_KEPT, _FILLED = 0.6, 0.5
"""Least shares of the texts of a wording that have a word of its pattern, and a value in a slot."""
_BLOCK = 1 << 24  # cosines that are computed at once: 64 MB
_EXAMPLES = 3  # of a wording

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""Shape embeddings of texts, unit vectors [texts, dim]."""
_Tokens = tuple[str, ...]


@dataclass(frozen=True)
class Wording:
    """Texts of a group that share words.

    Attributes:
        pattern: `wake me up at {1}`.
        count: of texts, repeated ones included.
        slots: for each slot its values, the commonest first, with their counts.
        examples: its commonest texts.
    """

    pattern: str
    count: int
    slots: tuple[dict[str, int], ...]
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """Texts of one shape.

    Attributes:
        count: of texts, repeated ones included.
        distinct: of texts, each counted once.
        wordings: the commonest first.
        is_new: whether no earlier text has this shape; None if there are no earlier texts.
        earlier: number of earlier texts of this shape; None as before.
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
    """Group texts by shape.

    Args:
        texts: of one or several languages, which need not be known; repeated ones count.
        encode: makes shape embeddings.
        earlier: texts of an earlier log, to tell new shapes from known ones; None: there is none.
        threshold: cosine from which on texts are of one group, above 0 and at most 1.

    Returns:
        The groups, the largest first.

    Raises:
        ValueError: if the threshold is out of range.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"the threshold is {threshold}; it must be above 0 and at most 1")
    counts = _counted(texts)
    if not counts:
        return []
    listed, weights = list(counts), np.array(list(counts.values()))
    vectors = encode(listed)
    groups = grouped(vectors, weights, threshold)
    of_earlier = None if earlier is None else _members_of(groups, vectors, _counted(earlier), encode, threshold)
    found = []
    for number, members in enumerate(groups):
        known = None if of_earlier is None else int(of_earlier[number])
        of_group = {listed[member]: int(weights[member]) for member in members}
        found.append(
            Shape(
                count=sum(of_group.values()),
                distinct=len(of_group),
                wordings=wordings(of_group),
                is_new=None if known is None else not known,
                earlier=known,
            )
        )
    return sorted(found, key=lambda shape: -shape.count)


def _counted(texts: Sequence[str]) -> Counter[str]:
    return Counter(" ".join(normalise(text).split()) for text in texts if text.strip())


# --- groups -----------------------------------------------------------------------------------------------


def grouped(vectors: NDArray[np.float32], weights: NDArray[Any], threshold: float) -> list[NDArray[np.int64]]:
    """Group unit vectors around leaders; a group has its leader first.

    The vector with most texts near it leads, and takes all that are near and not taken yet; then the next one.

    Args:
        vectors: unit vectors, [texts, dim].
        weights: how often each text occurs, [texts].
        threshold: cosine from which on two are near.
    """
    near = np.concatenate([(block >= threshold) @ weights for block in _cosines(vectors, vectors)])
    is_free = np.ones(len(vectors), dtype=bool)
    groups = []
    for leader in np.lexsort((np.arange(len(vectors)), -weights, np.negative(near))):
        if not is_free[leader]:
            continue
        free = np.flatnonzero(is_free)
        members = free[vectors[free] @ vectors[leader] >= threshold]
        members = np.concatenate([[leader], members[members != leader]])
        is_free[members] = False
        groups.append(members)
    return groups


def _cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    size = max(1, _BLOCK // max(len(right), 1))
    return (left[start : start + size] @ right.T for start in range(0, len(left), size))


def _members_of(
    groups: Sequence[NDArray[np.int64]],
    vectors: NDArray[np.float32],
    earlier: Mapping[str, int],
    encode: Encode,
    threshold: float,
) -> NDArray[np.int64]:
    """Return how many earlier texts each group has: those that are nearest to its leader, and near."""
    counts = np.zeros(len(groups), dtype=np.int64)
    if not earlier:
        return counts
    leaders = vectors[[members[0] for members in groups]]
    weights, start = np.array(list(earlier.values())), 0
    for block in _cosines(encode(list(earlier)), leaders):
        nearest = block.argmax(axis=1)
        is_near = block[np.arange(len(block)), nearest] >= threshold
        np.add.at(counts, nearest[is_near], weights[start : start + len(block)][is_near])
        start += len(block)
    return counts


# --- patterns ---------------------------------------------------------------------------------------------


def wordings(texts: Mapping[str, int]) -> tuple[Wording, ...]:
    """Split texts of one shape, with their counts, into wordings."""
    left = {text: tokens_of(text) for text in sorted(texts, key=lambda text: (-texts[text], text))}
    found = []
    while left:
        first = next(iter(left.values()))
        members = {text: tokens for text, tokens in left.items() if _shared(first, tokens) >= _SHARED}
        found.append(_wording(members, texts))
        left = {text: tokens for text, tokens in left.items() if text not in members}
    return tuple(sorted(found, key=lambda wording: -wording.count))


def tokens_of(text: str) -> _Tokens:
    """Return the words between white space; in scripts without spaces, the characters."""
    tokens: list[str] = []
    for word in text.split():
        tokens += list(word) if any(map(is_unspaced_character, word)) else [word]
    return tuple(tokens)


def _shared(left: _Tokens, right: _Tokens) -> float:
    return SequenceMatcher(None, left, right, autojunk=False).ratio() if left != right else 1.0


def _wording(members: Mapping[str, _Tokens], counts: Mapping[str, int]) -> Wording:
    """Return the pattern of texts: words of the first that most of them have, and what lies between as slots."""
    first, *others = members.values()
    total = len(members)
    kept_by = np.ones(len(first))
    for tokens in others:
        for start, _, size in SequenceMatcher(None, first, tokens, autojunk=False).get_matching_blocks():
            kept_by[start : start + size] += 1
    words = tuple(word for word, kept in zip(first, kept_by, strict=True) if kept >= _KEPT * total)
    gaps: list[Counter[str]] = [Counter() for _ in range(len(words) + 1)]
    for text, tokens in members.items():
        for gap, value in _values(words, tokens):
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
    examples = sorted(members, key=lambda text: -counts[text])[:_EXAMPLES]
    return Wording(_joined(piece for piece in pieces if piece), count, tuple(slots), tuple(examples))


def _values(words: _Tokens, tokens: _Tokens) -> Iterator[tuple[int, str]]:
    """Yield what a text has between the words of a pattern: the number of the gap, and its text."""
    end = 0
    for word, start, size in SequenceMatcher(None, words, tokens, autojunk=False).get_matching_blocks():
        if start > end:
            yield word, _joined(tokens[end:start])
        end = start + size


def _joined(tokens: Iterable[str]) -> str:
    """Join words by spaces, and characters of scripts without spaces by none."""
    text = ""
    for token in tokens:
        is_joined = text and is_unspaced_character(text[-1]) and is_unspaced_character(token[0])
        text += token if not text or is_joined else f" {token}"
    return text
