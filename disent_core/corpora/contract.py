"""What a corpus format is: the functions that its reader module has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa


@runtime_checkable
class Reader(Protocol):
    """A reader of one published format with slots or intents. Modules of this package are such readers."""

    LOCALES: Sequence[str]
    """Names under which the format publishes its languages, e.g. `en-US`."""

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

    def content_hash(self, path: Path, locale: str) -> str:
        """SHA-256, 64 hex digits, of everything that this locale is read from, and of nothing else."""
        ...
