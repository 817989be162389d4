"""Read a question from an address, ask the index, and prepare its answers for the page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Protocol

LONGEST = 1_000
"""Characters of a sentence; more is a document, and encoding takes time for each."""
MOST_ANSWERS = 100
OTHERS = "-"
"""Asks for answers in other languages than the sentence's."""
PARAMETERS = ("q", "k", "language", "only")


@dataclass(frozen=True)
class Question:
    """A question to the index.

    Attributes:
        q: the sentence, stripped of white space at both ends; empty if nothing is asked yet.
        k: answers of each kind.
        language: of the sentence; empty if unknown.
        only: the language of the answers, or `OTHERS`; empty: any.
    """

    q: str = ""
    k: int = 10
    language: str = ""
    only: str = ""


def question(parameters: Mapping[str, str], languages: Sequence[str]) -> Question:
    """Read a question from the parameters of an address.

    Args:
        parameters: as a browser sends them; what is left out or empty has its default.
        languages: those that the index has.
    """
    if unknown := [name for name in parameters if name not in PARAMETERS]:
        raise ValueError(f"{unknown[0][:40]}: no such parameter. There are {', '.join(PARAMETERS)}")
    asked = Question(
        parameters.get("q", "").strip(),
        _count(parameters.get("k") or "10"),
        parameters.get("language", ""),
        parameters.get("only", ""),
    )
    if len(asked.q) > LONGEST:
        raise ValueError(f"The sentence has {len(asked.q):,} characters; at most {LONGEST:,} can be searched for")
    for wanted, known in ((asked.language, languages), (asked.only, (*languages, OTHERS))):
        if wanted and wanted not in known:
            raise ValueError(f"No sentence here is in {wanted[:40]!r}; choose one of {', '.join(languages)}")
    if asked.only == OTHERS and not asked.language:
        raise ValueError("Choose the language of the sentence: answers are then in the others")
    return asked


def _count(written: str) -> int:
    if not (written.isascii() and written.isdigit() and len(written) < 10 and 1 <= int(written) <= MOST_ANSWERS):
        raise ValueError(
            f"The number of answers, k, is a whole number from 1 to {MOST_ANSWERS} and not {written[:40]!r}"
        )
    return int(written)


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
    """Search by each embedding of the index that has a column here; the sentence itself is no answer."""
    hits_of = index.search_each(
        [asked.q],
        [name for name in KINDS if name in index.embeddings],
        asked.k,
        language=asked.language or None,
        other_language=asked.only == OTHERS,
        only_language=None if asked.only in ("", OTHERS) else asked.only,
        except_same_text=True,
    )
    return [Column(name, *KINDS[name], hits) for name, (hits,) in hits_of.items()]


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
    languages = list(by_language.values())
    # Rows at the same position in two languages may be translations of each other.
    numbers = range(EXAMPLES if languages else 0)
    of_number = [(number, languages[number % len(languages)]) for number in numbers]
    chosen = [listed[number * len(listed) // EXAMPLES] for number, listed in of_number]
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
