"""Keep the copies of results of a bucket below a size: those that were used longest ago are removed.

Every copy can be fetched or made again. What was used within the hour stays, since a process may be about to open it;
and encoders stay, which a training may open again after hours.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from disent_core.storage.atomic import remove_path

IN_USE_SECONDS = 3_600.0
LOOK_EVERY_SECONDS = 60.0
_FOLDERS = ("tables", "plots", "cache/arrays")


@dataclass
class Room:
    """What the copies may take.

    Attributes:
        folder: of the copies of a home; a folder beside it may be a home itself, which nobody could fetch again.
        most: bytes.
    """

    folder: Path
    most: int
    _looked: float = field(default=-LOOK_EVERY_SECONDS, compare=False)

    def make(self) -> None:
        """Remove copies until the rest fits; a look at all of them once a minute."""
        if time.monotonic() - self._looked < LOOK_EVERY_SECONDS:
            return
        self._looked = time.monotonic()
        copies = sorted((*_used_and_bytes(copy), copy) for copy in self._copies())
        size = sum(own for _, own, _ in copies)
        for _, own, copy in copies:
            if size > self.most and time.time() - _used_and_bytes(copy)[0] > IN_USE_SECONDS:
                for path in copy:
                    remove_path(path)
                size -= own

    def _copies(self) -> Iterator[list[Path]]:
        """A result with its manifest, or a folder of arrays."""
        for name in _FOLDERS:
            for file in _files(self.folder / name):
                if file.suffix == ".manifest":
                    yield [file.with_suffix(""), file]
                elif file.name == "record.json":
                    yield [file.parent]


def use(path: Path) -> None:
    """Note that a copy is used now: by the manifest of a result, or the record of arrays."""
    with suppress(OSError):  # there is none, or this process may only read
        os.utime(path)


def _used_and_bytes(copy: list[Path]) -> tuple[float, int]:
    used, size = 0.0, 0
    for file in (file for path in copy for file in _files(path)):
        with suppress(FileNotFoundError):  # another process has removed it
            used, size = max(used, file.stat().st_mtime), size + file.stat().st_size
    return used, size


def _files(path: Path) -> Iterator[Path]:
    """All files below a folder, or a file; other processes may remove some meanwhile."""
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)
