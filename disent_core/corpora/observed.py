"""Content hashes that are taken again only where a file has moved: looking at an unchanged corpus costs stats alone.

As git's index does, a record holds what `stat` says of each file: size, times of the content and of the entry, inode.
A file may be rewritten at the same size within one tick of the clock, and no `stat` tells. So a record is only kept
of files that had lain still for `SETTLED` when their hash was begun, and hashes of younger ones are taken every time.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from disent_core.errors import CorpusError
from disent_core.storage.files import write_text
from disent_core.storage.tables import fingerprint

log = logging.getLogger(__name__)

CODE_VERSION = "1"
"""Part of every record: raise it when a reader hashes otherwise."""
SETTLED = 2_000_000_000
"""Nanoseconds; the coarsest clock of a file system in use, FAT's, ticks every two seconds."""
MAX_FILES = 100_000
"""Of a folder with more, nothing is recorded."""

Stamps = list[tuple[str, int, int, int, int]]
"""Of every file: path, size, times of content and entry in nanoseconds, inode."""


def stamps(path: Path) -> Stamps:
    """What `stat` says of a file, or of every file below a folder, sorted; nothing where there is none.

    Links are followed to files but not to folders.
    """
    found = [path] if path.is_file() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sorted(stamp for file in found if (stamp := _stamp(file)) is not None)


def _stamp(file: Path) -> tuple[str, int, int, int, int] | None:
    try:
        found = file.stat()
    except OSError:  # it went away just now, or is a link to nothing
        return None
    return str(file), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def are_settled(of: Stamps, now: int) -> bool:
    """Whether a change from `now` on, in nanoseconds, must show in the stamps."""
    return len(of) <= MAX_FILES and all(max(changed, entered) + SETTLED < now for _, _, changed, entered, _ in of)


class Observer:
    """One look at corpora: hashes from the record where nothing has moved, and taken anew where something has.

    Args:
        record: JSON file of what was seen last; where it is missing or damaged everything is hashed.
        clock: nanoseconds since 1970, of the same clock as that of the files.
    """

    def __init__(self, record: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self.record, self.clock = record, clock
        self.known = _read(record)
        self.seen: dict[str, tuple[str, str | None]] = {}
        self.trees: dict[Path, Stamps] = {}

    def hash_of(self, path: Path, name: object, read: Callable[[], str]) -> str | None:
        """The hash of what is read under a name from a path; None where it can't be read.

        Args:
            path: file or folder; nothing outside it may have a say in the hash.
            name: whatever tells hashes of one path apart.
            read: takes the hash, or raises a CorpusError.
        """
        key, before = fingerprint(str(path), name), self._stamps(path)
        state = fingerprint(CODE_VERSION, before)
        if (last := self.known.get(key)) is not None and last[0] == state:
            self.seen[key] = last
            return last[1]
        is_settled, found = are_settled(before, self.clock()), _hash(read)
        if is_settled and stamps(path) == before:
            self.seen[key] = (state, found)
        return found

    def _stamps(self, path: Path) -> Stamps:
        """Of a path, once a look."""
        if path not in self.trees:
            self.trees[path] = stamps(path)
        return self.trees[path]

    def save(self, *, is_whole: bool = True) -> None:
        """Keep what was seen for the next look; after a look that was broken off, besides what is known."""
        kept = self.seen if is_whole else self.known | self.seen
        if kept != self.known:
            write_text(self.record, json.dumps(kept, indent=1) + "\n")


def _hash(read: Callable[[], str]) -> str | None:
    try:
        return read()
    except CorpusError as error:
        log.debug("%s", error)
        return None


def _read(record: Path) -> dict[str, tuple[str, str | None]]:
    try:
        return dict(_entries(json.loads(record.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _entries(stored: dict[str, list[str | None]]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    for key, (state, content) in stored.items():
        if not isinstance(state, str) or not isinstance(content, str | None):
            raise TypeError(f"{state!r}, {content!r}")
        yield key, (state, content)
