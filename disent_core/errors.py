"""Errors and warnings that a user can act on.

    DisentError
    |-- ConfigError      the configuration file is wrong
    |-- CorpusError      a corpus file is missing, damaged or malformed
    |   `-- AlignmentError  two sides that must be parallel are not
    |-- TableError       a stored table is missing, damaged or of another schema
    |   `-- DamagedError    a stored file is not as it was written
    |-- StorageError     the disk is full or fails
    |   `-- TransientError  a store or a lease is lost for now: the same step may succeed later
    |-- EncoderError     an encoder can't be loaded or gives unusable vectors
    |-- TrainingError    training can't go on
    `-- ShardError       processes or nodes that compute the shards of a step are lost

A message says where the problem is (file and line, or key), what it is, and what to do about it. `ValueError` is for
mistakes in the calling code.
"""

import errno
from collections.abc import Iterable
from pathlib import Path


class Notice(UserWarning):
    """Base of warnings about data; the command line prints each as one line."""


class DisentError(Exception):
    """Base of all errors about data or configuration, as opposed to code."""


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


class TransientError(StorageError):
    """The store is unreachable or the lease is lost: the data are fine, and the same step may succeed later."""


class EncoderError(DisentError):
    """An encoder can't be loaded, or gives vectors that can't be used."""


class TrainingError(DisentError):
    """Training can't start or can't go on."""


class ShardError(DisentError):
    """The processes or nodes that compute the shards of a step are lost, or there are none."""


_QUOTED, _LONGEST = 200, 1_000
"""Most characters of a quotation, and of a problem or a remedy: a faulty line of a file may have a gigabyte."""


def is_failure(error: BaseException) -> bool:
    """Return whether a library failed: an `Exception`, or a panic in Rust, whose class does not derive from it."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def located(path: Path | str, line: int | None, problem: str, remedy: str) -> str:
    """Return one line with the place, the problem and the remedy: `massive.tar.gz:en-US.jsonl:12: ...`."""
    place = shortened(str(path)) + ("" if line is None else f":{line}")
    return f"{place}: {shortened(problem)}. {shortened(remedy)}"


def reason(error: BaseException) -> str:
    """Return why a library can't load a folder of unknown origin, which may raise any error."""
    if "trust_remote_code" in str(error):  # which the message recommends
        return "it brings code, which disent does not run"
    return " ".join(f"{type(error).__name__}: {error}".split())


def commas(values: Iterable[object]) -> str:
    """Return values for a message, `a, b`; if they are long, their beginning and their length."""
    return shortened(", ".join(map(str, values)), _QUOTED)


def quoted(value: object) -> str:
    """Return `repr(value)` for a message; if it is long, its beginning and its length."""
    return shortened(repr(value), _QUOTED)


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return the text or, if it is long, its beginning and its length."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


# --- what a machine runs out of; each library reports it in its own words -------------------------------------------

_REMEDY = "End other programs, or raise the limit ({}, or that of the container)"
_NO_MEMORY = (
    "allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "memory allocation",
    "could not create a primitive",
    "failed to map segment",
    "pyobject pointer is null",  # a panic of safetensors
)
_NO_PROCESSES = ("start new thread", "launch worker thread", "resource temporarily unavailable")


def shortage(error: BaseException, free_memory: str = _REMEDY.format("ulimit -v")) -> str | None:
    """Return one line if an allocation failed, or no process or thread could be started; None for other errors.

    `free_memory` is the remedy for a failed allocation.
    """
    if _is_out_of_memory(error):
        return f"out of memory. {free_memory}"
    if _says(error, _NO_PROCESSES):
        return f"no process or thread can be started. {_REMEDY.format('ulimit -u')}"
    return None


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or _says(error, _NO_MEMORY)


def _says(error: BaseException, words: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(word in text for word in words)
