"""Define the protocols of corpus formats: the functions and constants that a reader module must have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

Kind = Literal["utterances", "entities", "translations", "bitext", "similarity", "quality"]
"""Kind of rows in a corpus; each task names the kinds that it accepts.

`utterances` have an intent, slots, or both; `entities` are sentences whose tags are named entities. The others are
sentence pairs: `translations` is a test set, `bitext` a training corpus, `similarity` has gold similarities, and
`quality` has translations with human quality scores.
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

Parallel = Literal["all", "some", "none"]
"""Which utterances with equal ids are translations of each other."""

Shares = tuple[float, float, float]
"""Shares of train, dev and test."""
OF_COPY = "~"  # in an id made from a text, precedes the number of a further row with the same text


@runtime_checkable
class Format(Protocol):
    """Members of every reader module.

    Its functions raise CorpusError if the path does not exist, or if the files are missing, damaged, malformed or not
    of any locale or pair.

    A module may also have `CODE_VERSION`, a string, by default `"1"`. Raise it when the reader makes different rows
    from the same files: then they are read again. A module that reads files outside the path has `outside`, a function
    that returns their folders.
    """

    KIND: Kind
    TRAINS: bool
    """Whether heads train on a corpus of this format unless its configuration says otherwise."""
    SHARES: Shares | None
    """Shares of the splits to draw if the format publishes none; None: use the published splits."""

    def content_hash(self, path: Path, name: str) -> str:
        """Return the SHA-256, 64 hex digits, of exactly the data that this locale or pair is read from."""
        ...


@runtime_checkable
class Reader(Format, Protocol):
    """A reader of utterances; modules of `disent_core.corpora.formats` satisfy it."""

    LOCALES: Sequence[str] | None
    """Names under which the format publishes its languages, e.g. `en-US`; None: any language code."""
    PARALLEL: Parallel

    def language_of(self, locale: str) -> str:
        """Return the language of a locale: `en-US` -> `en`."""
        ...

    def locales(self, path: Path) -> list[str]:
        """Return the locales in the corpus, sorted."""
        ...

    def read_utterances(self, path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
        """Return the rows of one locale in the schema `utterances`, in the order of the file.

        The rows carry the names `corpus` and `language`; the language decides how texts are tokenised.
        """
        ...


@runtime_checkable
class PairReader(Format, Protocol):
    """A reader of sentence pairs; modules of `disent_core.corpora.formats` satisfy it."""

    def pairs(self, path: Path) -> list[str]:
        """Return the sorted pairs in the codes of `languages`: `en-de` has English sources and German targets."""
        ...

    def read_pairs(self, path: Path, pair: str, *, corpus: str) -> pa.Table:
        """Return the rows of one pair in the schema `sentence_pairs`, in the order of the files.

        A format without splits of its own puts every row in `test`, and `rows.draw_splits` draws the splits.
        """
        ...
