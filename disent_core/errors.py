"""Errors that a user can act on.

    DisentError
    |-- ConfigError      the configuration file is wrong
    |-- CorpusError      a corpus file is missing, damaged or malformed
    |   `-- AlignmentError  two sides that must be parallel are not
    |-- TableError       a stored table is missing, damaged or of another schema
    |   `-- DamagedError    a stored file is not as it was written
    |-- StorageError     the disk is full or fails
    |-- EncoderError     an encoder can't be loaded or gives unusable vectors
    `-- TrainingError    training can't go on

A message says what was found, where (file and line, or key), and what to do about it. `ValueError` stays for
a caller's mistake in code.
"""

from pathlib import Path


class DisentError(Exception):
    """Base of every error that is about data or configuration, not about code."""


class ConfigError(DisentError):
    """The configuration file is missing, malformed, or asks for something that does not exist."""


class CorpusError(DisentError):
    """A corpus file is missing, damaged or malformed."""


class AlignmentError(CorpusError):
    """Rows that must be parallel are not."""


class TableError(DisentError):
    """A stored table is missing, damaged or does not have its schema."""


class DamagedError(TableError):
    """A stored file is not as it was written, and was quarantined."""


class StorageError(DisentError):
    """Results can't be stored: the disk is full or fails."""


class EncoderError(DisentError):
    """An encoder can't be loaded, or gives vectors that can't be used."""


class TrainingError(DisentError):
    """Training can't start or can't go on."""


def located(path: Path | str, line: int | None, found: str, remedy: str) -> str:
    """One line that names the place, what was found and what to do: `massive.tar.gz:en-US.jsonl:12: ...`."""
    place = str(path) if line is None else f"{path}:{line}"
    return f"{place}: {found}. {remedy}"
