"""Evict the least recently used copies of the results of a bucket.

Every copy can be fetched or made again. Copies used within the hour stay, since a process may be about to open them;
encoders stay too, which a training may open again after hours.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from disent_core.storage.files import remove_path

IN_USE_SECONDS = 3_600.0
LOOK_EVERY_SECONDS = 60.0
_FOLDERS = ("tables", "plots", "cache/arrays")


@dataclass
class LruCache:
    """A limit of what the copies take.

    Attributes:
        folder: of the copies of a home; a folder beside it may be a home itself, which can't be fetched again.
        most: bytes.
    """

    folder: Path
    most: int
    _looked: float = field(default=-LOOK_EVERY_SECONDS, compare=False)

    def evict(self) -> None:
        """Remove the least recently used copies until the rest fits; at most once a minute."""
        if time.monotonic() - self._looked < LOOK_EVERY_SECONDS:
            return
        self._looked = time.monotonic()
        copies = sorted((*_used_and_bytes(copy), copy) for copy in self._copies())
        total = sum(size for _, size, _ in copies)
        for _, size, copy in copies:
            if total > self.most and time.time() - _used_and_bytes(copy)[0] > IN_USE_SECONDS:
                for path in copy:
                    remove_path(path)
                total -= size

    def _copies(self) -> Iterator[list[Path]]:
        """Yield the paths of each copy: a result with its manifest, or a folder of arrays."""
        for name in _FOLDERS:
            for file in _files(self.folder / name):
                if file.suffix == ".manifest":
                    yield [file.with_suffix(""), file]
                elif file.name == "record.json":
                    yield [file.parent]


def touch(path: Path) -> None:
    """Mark a copy as used now, by the manifest of a result or the record of arrays."""
    with suppress(OSError):  # no such file, or read-only access
        os.utime(path)


def _used_and_bytes(copy: list[Path]) -> tuple[float, int]:
    used, size = 0.0, 0
    for file in (file for path in copy for file in _files(path)):
        with suppress(FileNotFoundError):  # another process has removed it
            used, size = max(used, file.stat().st_mtime), size + file.stat().st_size
    return used, size


def _files(path: Path) -> Iterator[Path]:
    """Yield all files below a folder, or the file itself; other processes may remove some meanwhile."""
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)
