"""List and check the files of corpora, and notice that they have changed without reading them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Literal

from disent_core.errors import CorpusError, located

MOST_FILES = 100_000
"""In a folder and below it."""


def missing(path: Path, kind: Literal["file", "folder", "file or folder"] = "file or folder") -> CorpusError:
    """Return the error for a path that does not exist."""
    remedy = "Check the path of this corpus in the configuration"
    return CorpusError(located(path, None, f"this {kind} does not exist", remedy))


def check_folder(path: Path) -> None:
    """Check that a folder exists."""
    if not path.is_dir():
        raise missing(path, "folder")


def files_below(path: Path, pattern: str) -> list[Path]:
    """Return the files and folders in a folder or below it whose names match, sorted."""
    remedy = "Set the path to the folder of the corpus alone"
    try:
        files = list(islice(_names_below(path), MOST_FILES + 1))
        if len(files) > MOST_FILES:
            problem = f"more than {MOST_FILES:,} files and folders are in it or below it"
            raise CorpusError(located(path, None, problem, remedy))
        return sorted(Path(folder, name) for folder, name in files if fnmatchcase(name, pattern))
    except OSError as error:
        remedy = f"{remedy}, or try again when nothing changes there"
        raise CorpusError(located(path, None, f"its files can't be listed ({error})", remedy)) from error


def _names_below(path: Path) -> Iterator[tuple[str, str]]:
    """Folder and name of each file and folder below a path, but in folders that may not be read."""

    def tell(error: OSError) -> None:
        if not isinstance(error, PermissionError):
            raise error

    for folder, folders, files in os.walk(path, onerror=tell):
        yield from ((folder, name) for name in (*folders, *files))


def absent(path: Path, what: str, present: Iterable[str]) -> CorpusError:
    """Return the error that `what` (`the pair 'en-fr'`) is not among the items of a path, which the message lists."""
    items = ", ".join(sorted(present)) or "no such files at all: is this the right path?"
    return CorpusError(located(path, None, f"{what} is not in it", f"It has {items}"))


def split_files(
    path: Path, what: str, name: str, files: Mapping[str, Mapping[str, Path]], splits: Iterable[str]
) -> dict[str, Path]:
    """Return split -> file of one language or pair, in the order of `splits`."""
    if name not in files:
        raise absent(path, what, files)
    return {split: files[name][split] for split in splits if split in files[name]}


FileStats = list[tuple[str, int, int, int, int]]
"""Of each file: path, size in bytes, modification and change time in nanoseconds, inode."""


def file_stats(path: Path) -> FileStats:
    """Return the sorted stats of a file, or of every file below a folder; empty if the path does not exist.

    Links to files are followed, links to folders are not.
    """
    files = [path] if path.is_file() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sorted(stats for file in files if (stats := _stats(file)) is not None)


def _stats(file: Path) -> tuple[str, int, int, int, int] | None:
    try:
        status = file.stat()
    except OSError:  # the file was just deleted, or is a dangling link
        return None
    return str(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
