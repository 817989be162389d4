"""List, read and hash the files of corpora, and detect changes without reading them."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path
from typing import Literal

from disent_core.errors import CorpusError, located

MOST_FILES = 100_000
"""Most files in a folder and below it."""
_BLOCK_BYTES = 1 << 20


def missing(path: Path, kind: Literal["file", "folder", "file or folder"] = "file or folder") -> CorpusError:
    """Return the error for a path that does not exist."""
    remedy = "Check the path of this corpus in the configuration"
    return CorpusError(located(path, None, f"this {kind} does not exist", remedy))


def absent(path: Path, what: str, present: Collection[str]) -> CorpusError:
    """Return the error that `what` (`pair 'en-fr'`) is not at a path; the message lists what is."""
    items = f", only {', '.join(sorted(present))}" if present else " and nothing like it"
    return CorpusError(located(path, None, f"it has no {what}{items}", "Add it, or correct the configuration"))


def no_files(path: Path, problem: str, examples: str) -> CorpusError:
    """Return the error that a folder has no files named as a format names them."""
    return CorpusError(located(path, None, problem, f"Files are named like {examples}; is this the right path?"))


# --- read -------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open a file; what the system can't open or read, then or later, is a CorpusError."""
    try:
        if not path.is_file():
            raise missing(path, "file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        remedy = "Check the permissions of the file and the disk"
        raise CorpusError(located(path, None, f"can't be read ({error})", remedy)) from error


def read_bytes(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def files_hash(files: Iterable[Path]) -> str:
    """Return the SHA-256, 64 hex digits, of the names and bytes of the files, in this order."""
    digest = hashlib.sha256()
    for path in files:
        with opened(path) as file:
            digest.update(f"{path.name}\n{os.fstat(file.fileno()).st_size}\n".encode())
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


# --- list -------------------------------------------------------------------------------------------------


def files_below(path: Path, pattern: str) -> list[Path]:
    """Return the files and folders in an existing folder or below it whose names match, sorted."""
    if not path.is_dir():
        raise missing(path, "folder")
    remedy = "Set the path to a folder with nothing but the corpus"
    files: list[Path] = []
    count = 0
    try:
        for folder, folders, names in os.walk(path, onerror=_reject_unless_forbidden):
            count += len(folders) + len(names)
            if count > MOST_FILES:
                problem = f"more than {MOST_FILES:,} files and folders are in it or below it"
                raise CorpusError(located(path, None, problem, remedy))
            files += [Path(folder, name) for name in (*folders, *names) if fnmatchcase(name, pattern)]
    except OSError as error:
        remedy = f"{remedy}, or try again when nothing changes there"
        raise CorpusError(located(path, None, f"its files can't be listed ({error})", remedy)) from error
    return sorted(files)


def _reject_unless_forbidden(error: OSError) -> None:
    if not isinstance(error, PermissionError):  # folders that may not be read are skipped
        raise error


@dataclass(frozen=True)
class SplitFiles:
    """The files of a format with one file per split of a language or pair.

    Attributes:
        listed: lists the files of a folder.
        parse: returns the language or pair and the split of a file; None for other files.
        splits: splits in the order in which they are read.
        examples: examples of file names, for messages.
        what: word for a language or pair in messages.
        first_counts: whether to read the first of several files of a split, rather than reject them.
    """

    listed: Callable[[Path], Iterable[Path]]
    parse: Callable[[Path], tuple[str, str] | None]
    splits: Sequence[str]
    examples: str
    what: str = "language {!r}"
    first_counts: bool = False

    def names(self, path: Path) -> list[str]:
        """Return the languages or pairs in the folder or below it, sorted."""
        return sorted(self._by_name(path))

    def of(self, path: Path, name: str) -> dict[str, Path]:
        """Return split -> file of a language or pair."""
        files = self._by_name(path)
        if name not in files:
            raise absent(path, self.what.format(name), files)
        return {split: files[name][split] for split in self.splits if split in files[name]}

    def content_hash(self, path: Path, name: str) -> str:
        """Return the SHA-256, 64 hex digits, of the files of all splits of a language or pair."""
        return files_hash(self.of(path, name).values())

    def _by_name(self, path: Path) -> dict[str, dict[str, Path]]:
        by_name: dict[str, dict[str, Path]] = {}
        for file in self.listed(path):
            if name_and_split := self.parse(file):
                name, split = name_and_split
                first = by_name.setdefault(name, {}).setdefault(split, file)
                if first != file and not self.first_counts:
                    raise two_files(path, file, first)
        if not by_name:
            raise no_files(path, "it has no files of this format", self.examples)
        return by_name


def two_files(path: Path, file: Path, first: Path) -> CorpusError:
    problem = f"{file.relative_to(path)} and {first.relative_to(path)} are of the same language and split"
    return CorpusError(located(path, None, problem, "Keep one of them, or set the path to the folder of one version"))


FileStats = list[tuple[str, int, int, int, int]]
"""For each file: path, size in bytes, modification and change time in nanoseconds, inode."""


def file_stats(path: Path) -> FileStats:
    """Return the sorted stats of a file, or of every file below a folder; empty if the path does not exist.

    Links to files are followed, links to folders are not.
    """
    files = [path] if path.is_file() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    stats: FileStats = []
    for file in files:
        with suppress(OSError):  # the file was just deleted, or is a dangling link
            status = file.stat()
            stats.append((str(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
    return sorted(stats)
