"""Notice that a file has changed without reading it."""

import os
from pathlib import Path

Stamps = list[tuple[str, int, int, int, int]]
"""One stamp a file: path, size in bytes, modification and change time in nanoseconds, inode."""


def stamps(path: Path) -> Stamps:
    """The sorted stamps of a file, or of every file below a folder; empty if the path does not exist.

    Links to files are followed, links to folders are not.
    """
    files = [path] if path.is_file() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sorted(stamp for file in files if (stamp := _stamp(file)) is not None)


def _stamp(file: Path) -> tuple[str, int, int, int, int] | None:
    try:
        status = file.stat()
    except OSError:  # the file was just deleted, or is a dangling link
        return None
    return str(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
