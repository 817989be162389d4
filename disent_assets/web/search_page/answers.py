"""Ask an index, and prepare its answers for the page: columns, shared words, examples."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from disent_assets.search_page.question import OTHERS, Question

KINDS = {
    "template": ("Same shape", "the same request, for other things"),
    "residual": ("Same values", "other requests, for the same things"),
    "meaning": ("Same meaning", "the same request, for the same things"),
}
"""Title and note of each column, by the embedding that it compares."""
EXAMPLES = 6
_EXAMPLE_CHARACTERS = range(12, 60)
_LOOKED_AT = 2_000
"""Rows among which examples are sought."""
_WORD = re.compile(r"\w+")
_WORD_OR_GAP = re.compile(r"\w+|\W+")


class Hit(Protocol):
    """What the page shows of a `disent.Hit`."""

    @property
    def text(self) -> str: ...
    @property
    def language(self) -> str | None: ...
    @property
    def score(self) -> float: ...


class Index(Protocol):
    """What the page asks of a `disent.Index`."""

    @property
    def embeddings(self) -> Sequence[str]: ...
    @property
    def texts(self) -> Sequence[str]: ...
    @property
    def languages(self) -> Sequence[str | None]: ...

    def search_each(
        self,
        texts: Sequence[str],
        by: Sequence[str],
        k: int,
        *,
        language: str | None,
        other_language: bool,
        only_language: str | None,
        except_same_text: bool,
    ) -> Mapping[str, Sequence[Sequence[Hit]]]: ...


@dataclass(frozen=True)
class Column:
    """The answers of one kind, the nearest first."""

    name: str
    title: str
    note: str
    hits: Sequence[Hit]


def columns(index: Index, asked: Question) -> list[Column]:
    """Search by each embedding of the index that has a column here; the sentence itself is no answer.

    Raises:
        DisentError: if the sentence can't be encoded.
        ValueError: if it can't be searched for.
    """
    found = index.search_each(
        [asked.q],
        [name for name in KINDS if name in index.embeddings],
        asked.k,
        language=asked.language or None,
        other_language=asked.only == OTHERS,
        only_language=None if asked.only in ("", OTHERS) else asked.only,
        except_same_text=True,
    )
    return [Column(name, *KINDS[name], hits) for name, (hits,) in found.items()]


@dataclass(frozen=True)
class Example:
    """A sentence to begin with."""

    text: str
    language: str | None


def examples(index: Index) -> list[Example]:
    """A few short sentences of all languages of an index."""
    by_language: dict[str, list[Example]] = {}
    for row in range(0, len(index.texts), max(len(index.texts) // _LOOKED_AT, 1)):
        if len(text := index.texts[row].strip()) in _EXAMPLE_CHARACTERS:
            language = index.languages[row]
            by_language.setdefault(language or "", []).append(Example(text, language))
    each = list(by_language.values())
    # The rows of one place in two languages may be translations of each other.
    places = range(EXAMPLES if each else 0)
    chosen = [each[place % len(each)][place * len(each[place % len(each)]) // EXAMPLES] for place in places]
    return list(dict.fromkeys(chosen))


def pieces(text: str, sentence: str) -> list[tuple[str, bool]]:
    """A text in pieces, each with whether its words are words of the sentence too; case does not matter."""
    words = {word.casefold() for word in _WORD.findall(sentence)}
    parts = _WORD_OR_GAP.findall(text)
    shared = [part.casefold() in words for part in parts]
    for gap in range(1, len(parts) - 1):
        shared[gap] |= parts[gap].isspace() and shared[gap - 1] and shared[gap + 1]
    runs = groupby(zip(parts, shared, strict=True), key=itemgetter(1))
    return [("".join(part for part, _ in run), is_shared) for is_shared, run in runs]
