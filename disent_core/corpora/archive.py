"""Read single files from a published archive, or from the folder that it was unpacked to.

An archive is never unpacked to disk. Only regular members are read: links, devices and sparse files are skipped.
The unpacked bytes are bounded by the size of the archive, so that a small one can't fill the memory.
"""

import bz2
import errno
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import Any, cast

from disent_core.corpora.paths import absent, missing, read_bytes
from disent_core.errors import CorpusError, located

# tarfile does not check the numbers of extended headers, and recurses for each header before a member.
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, OverflowError, RecursionError)
_COMPRESSIONS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}

UNPACKED_TIMES, UNPACKED_LEAST = 100, 1 << 26
"""An archive may hold 100 times its bytes, or 64 MB if that is more; corpora hold 5 to 20 times theirs."""
MOST_AT_ONCE = 1 << 30
"""Bytes of one member, and of one header."""
MOST_MEMBERS = 100_000


def read_data_file(path: Path, name: str) -> tuple[str, bytes]:
    """Return the location (for messages) and content of the file `data/NAME`, such as `en-US.jsonl`.

    The path is a tar archive, compressed or not; or the folder `data`, the one around it, or one further up.
    """
    suffix = PurePosixPath(name).suffix
    if path.is_dir():
        folders = _folders(path)
        for folder in folders:
            if (folder / name).is_file():
                return str(folder / name), read_bytes(folder / name)
        present = [file.name for folder in folders for file in folder.glob(f"*{suffix}")]
    elif path.is_file():
        members = _members(path, name)
        if file := members.get(name):
            return file
        present = list(members)
    else:
        raise missing(path)
    stems = {PurePosixPath(file).stem for file in present if PurePosixPath(file).suffix == suffix}
    raise absent(path, f"data/{name}", stems)


def data_files(path: Path) -> set[str]:
    """Return the names of the files in the folder `data`, archived or unpacked."""
    if path.is_dir():
        return {file.name for folder in _folders(path) for file in folder.glob("*") if file.is_file()}
    if path.is_file():
        return set(_members(path))
    raise missing(path)


def _folders(path: Path) -> list[Path]:
    """Return the folders that may hold the files, the newest version first."""
    return [path, path / "data", *sorted(path.glob("*/data"), reverse=True)]


def _members(path: Path, wanted: str | None = None) -> dict[str, tuple[str, bytes] | None]:
    """Return the files in a folder `data` of the archive by name, with location and content of the file named `wanted`.

    Reads to the end even after that file: the checksum of a compressed archive comes last.
    """
    members: dict[str, tuple[str, bytes] | None] = {}
    try:
        with path.open("rb") as packed:
            head = packed.read(6)
        unpacked = next((unpack for magic, unpack in _COMPRESSIONS.items() if head.startswith(magic)), open)
        with unpacked(path, "rb") as file, tarfile.open(fileobj=cast(Any, _Bounded(path, file)), mode="r:") as archive:
            for count, member in enumerate(archive):
                if count == MOST_MEMBERS:
                    raise _too_large(path, f"it has more than {MOST_MEMBERS:,} members")
                parts = PurePosixPath(member.name).parts
                if not member.isreg() or member.issparse() or ".." in parts or parts[-2:-1] != ("data",):
                    continue
                content = archive.extractfile(member) if parts[-1] == wanted else None
                members[parts[-1]] = (f"{path}:{member.name}", content.read()) if content else None
            while archive.fileobj and archive.fileobj.read(1 << 20):
                pass
    except _DAMAGE as error:
        is_of_disk = isinstance(error, OSError) and error.errno == errno.EIO
        remedy = "Check the disk" if is_of_disk else "Download the archive again"
        raise CorpusError(located(path, None, f"not a whole tar archive ({error})", remedy)) from error
    return members


class _Bounded:
    """A file for tarfile to read, with a limit on the unpacked bytes."""

    def __init__(self, path: Path, file: BufferedIOBase) -> None:
        self._path, self._file, self.tell = path, file, file.tell
        self._most = max(UNPACKED_TIMES * path.stat().st_size, UNPACKED_LEAST)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_AT_ONCE:
            raise _too_large(self._path, f"a part of it claims {size:,} bytes")
        self._require(self.tell() + size)
        return self._file.read(size)

    def seek(self, position: int) -> int:
        self._require(position)
        return self._file.seek(position)

    def _require(self, position: int) -> None:
        if position > self._most:
            raise _too_large(self._path, f"it unpacks to more than {self._most >> 20:,} MB")


def _too_large(path: Path, problem: str) -> CorpusError:
    remedy = "This does not look like an archive of this corpus; if it is one, unpack it and set the path to the folder"
    return CorpusError(located(path, None, problem, remedy))
