"""Read untrusted tar and zip archives: only regular files of bounded size, so that a small one can't fill memory."""

import bz2
import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from disent_core.storage.files import storage_errors
from disent_core.storage.names import safe_part

UNPACKED_TIMES, UNPACKED_LEAST = 100, 1 << 26
"""A file may unpack to 100 times its size, or to 64 MB if that is more; texts and vectors unpack to 1 to 20 times."""
MOST_AT_ONCE = 1 << 30
"""Most bytes of a header, and of a part that is read at once."""
MOST_MEMBERS = 100_000

# tarfile does not check the numbers in extended headers, and recurses for each header before a member; zipfile raises
# RuntimeError if a member is encrypted or packed in an unknown way.
_DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, OverflowError,
    RuntimeError,
)  # fmt: skip
_COMPRESSIONS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}


class ArchiveError(Exception):
    """An archive is damaged; its cause, if there is one, is the library's error."""


class TooLargeError(ArchiveError):
    """An archive contains more than is allowed."""


class UnsafeError(ArchiveError):
    """An archive has a member that must not be written."""


@contextmanager
def opened_tar(path: Path) -> Iterator[Iterator[tuple[tarfile.TarInfo, Callable[[], IO[bytes] | None]]]]:
    """Yield the members of a tar archive, compressed or not, each with a function that opens it.

    Read to the end, because the checksum of a compressed archive comes last. Inside the context, errors of the
    libraries become ArchiveError.
    """
    try:
        with path.open("rb") as packed:
            head = packed.read(6)
        unpacked = next((unpack for magic, unpack in _COMPRESSIONS.items() if head.startswith(magic)), open)
        with unpacked(path, "rb") as file, tarfile.open(fileobj=cast(Any, _Bounded(path, file)), mode="r:") as archive:
            yield _members(archive)
            while archive.fileobj and archive.fileobj.read(1 << 20):
                pass
    except _DAMAGE as error:
        raise ArchiveError(f"not a whole tar archive ({error})") from error


def _members(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, Callable[[], IO[bytes] | None]]]:
    for count, member in enumerate(archive):
        _require_count(count)
        yield member, lambda member=member: archive.extractfile(member)


def _require_count(count: int) -> None:
    if count >= MOST_MEMBERS:
        raise TooLargeError(f"it has more than {MOST_MEMBERS:,} members")


class _Bounded:
    """A file that tarfile reads, with a limit on the unpacked bytes."""

    def __init__(self, path: Path, file: BufferedIOBase) -> None:
        self._file, self.tell, self._most = file, file.tell, most_unpacked(path.stat().st_size)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_AT_ONCE:
            raise TooLargeError(f"a part of it claims {size:,} bytes")
        _require(self.tell() + size, self._most)
        return self._file.read(size)

    def seek(self, position: int) -> int:
        _require(position, self._most)
        return self._file.seek(position)


def most_unpacked(size: int) -> int:
    """Return how many bytes files of `size` bytes may unpack to."""
    return max(UNPACKED_TIMES * size, UNPACKED_LEAST)


def _require(count: int, most: int) -> None:
    if count > most:
        raise TooLargeError(f"it unpacks to more than {most >> 20:,} MB")


def unpack(path: Path, folder: Path) -> None:
    """Write the files of a tar or zip archive (a wheel is one) into a folder.

    Raises:
        ArchiveError: if it is no archive, damaged or too large; or has links, devices, or names that are absolute,
            contain `..` or are not valid on every system. The folder may then have some of its files.
    """
    with path.open("rb") as packed:
        is_zip = packed.read(4) == b"PK\x03\x04"
    with _opened_zip(path) if is_zip else opened_tar(path) as members:
        for member, opened in members:
            name, is_file, is_folder = _described(member)
            try:
                target = folder.joinpath(*map(safe_part, PurePosixPath(name).parts))
            except ValueError as error:
                raise UnsafeError(str(error)) from error
            if not is_file and not is_folder:
                raise UnsafeError(f"{name!r} is a link or a device")
            with storage_errors(target):
                (target.parent if is_file else target).mkdir(parents=True, exist_ok=True)
                if is_file and (content := opened()):
                    with closing(content), target.open("xb") as written:
                        shutil.copyfileobj(content, written, 1 << 20)


def _described(member: tarfile.TarInfo | zipfile.ZipInfo) -> tuple[str, bool, bool]:
    """Return the name of a member, and whether it is a regular file or a folder."""
    if isinstance(member, tarfile.TarInfo):
        return member.name, member.isreg() and not member.issparse(), member.isdir()
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 if the packing system has no file types
    return member.filename, kind in (0, stat.S_IFREG) and not member.is_dir(), member.is_dir()


@contextmanager
def _opened_zip(path: Path) -> Iterator[Iterator[tuple[zipfile.ZipInfo, Callable[[], IO[bytes]]]]]:
    try:
        with zipfile.ZipFile(path) as archive:
            listed = archive.infolist()
            _require_count(len(listed) - 1)
            unpacked = sum(member.file_size for member in listed)  # no more of each is unpacked
            _require(unpacked, most_unpacked(path.stat().st_size))
            yield ((member, lambda member=member: archive.open(member)) for member in listed)
    except _DAMAGE as error:
        raise ArchiveError(f"not a whole zip archive ({error})") from error
