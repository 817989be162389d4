"""What a corpus format is: the functions and facts that its reader module has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

Kind = Literal["utterances", "entities", "translations", "bitext", "similarity", "quality"]
"""What rows of a corpus are; tasks say which kinds they are for.

`utterances` have an intent, slots, or both; `entities` are sentences whose tags are named entities. The others are
pairs of sentences: `translations` a test set of them, `bitext` a corpus of them, `similarity` with a gold
similarity, `quality` a translation with its judged quality.
"""

KINDS: Mapping[str, Literal["utterances", "sentence_pairs"]] = {
    "utterances": "utterances",
    "entities": "utterances",
    "translations": "sentence_pairs",
    "bitext": "sentence_pairs",
    "similarity": "sentence_pairs",
    "quality": "sentence_pairs",
}
"""Table that each kind is read into."""

Shares = tuple[float, float, float]
"""Of train, dev and test."""


@runtime_checkable
class Format(Protocol):
    """What every reader module has."""

    KIND: Kind
    TRAINS: bool
    """Whether heads train on a corpus of this format unless its configuration says otherwise."""
    SHARES: Shares | None
    """Of the splits that are drawn where the format publishes none; None: the published splits hold."""

    def content_hash(self, path: Path, name: str) -> str:
        """SHA-256, 64 hex digits, of everything that this locale or pair is read from, and of nothing else.

        Raises:
            CorpusError: if it can't be read.
        """
        ...


@runtime_checkable
class Reader(Format, Protocol):
    """A reader of utterances. Modules of this package are such readers."""

    LOCALES: Sequence[str] | None
    """Names under which the format publishes its languages, e.g. `en-US`; None: any code of a language."""
    PARALLEL: Literal["all", "some", "none"]
    """Whether utterances of equal id are translations: of every utterance, of some of them, or never."""

    def language_of(self, locale: str) -> str:
        """The language of a locale: `en-US` -> `en`."""
        ...

    def locales(self, path: Path) -> list[str]:
        """Locales that are there, sorted.

        Raises:
            CorpusError: if the path does not exist, is damaged, or has none.
        """
        ...

    def read_utterances(self, path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
        """Rows of one locale in the schema `utterances`, in the order of the file.

        Args:
            path: file or folder as published.
            locale: one of `LOCALES`.
            corpus: the name that the rows carry.
            language: the language that the rows carry; it decides the tokens.

        Raises:
            CorpusError: if the files are missing, damaged or malformed.
        """
        ...


@runtime_checkable
class PairReader(Format, Protocol):
    """A reader of pairs of sentences. Modules of this package are such readers."""

    def pairs(self, path: Path) -> list[str]:
        """Pairs that are there, sorted: `en-de` reads source English, target German, in the codes of `languages`.

        Raises:
            CorpusError: if the path does not exist, is damaged, or has none.
        """
        ...

    def read_pairs(self, path: Path, pair: str, *, corpus: str) -> pa.Table:
        """Rows of one pair in the schema `sentence_pairs`, in the order of the files.

        A format without splits of its own puts every row in `test`; `prepare.draw_splits` draws them.

        Raises:
            CorpusError: if the files are missing, damaged, malformed or not of equal length.
        """
        ...
