"""One file out of a published archive, or out of the folder that it was unpacked to.

An archive is never unpacked to disk. Of its members only regular files count, whatever their names: links, devices
and sparse files are none. What comes out of it is bounded by its size, so that a small one can't fill the memory.
"""

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import Any, cast

from disent_core.corpora.paths import absent, missing
from disent_core.errors import CorpusError, located

# tarfile takes numbers of extended headers as they are, and calls itself for each header before a member.
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, OverflowError, RecursionError)
_COMPRESSIONS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}

UNPACKED_TIMES, UNPACKED_LEAST = 100, 1 << 26
"""An archive may hold 100 times its bytes, or 64 MB if that is more; corpora hold 5 to 20 times theirs."""
MOST_AT_ONCE = 1 << 30
"""Bytes of one member, and of one header."""
MOST_MEMBERS = 100_000


def read_data_file(path: Path, name: str) -> tuple[str, bytes]:
    """Place (for messages) and content of the file `data/NAME`.

    Args:
        path: a tar archive, compressed or not; or the folder `data`, the one around it, or one further up.
        name: of the file, e.g. `en-US.jsonl`.

    Raises:
        CorpusError: if the path or the file does not exist or can't be read to its end, or an archive holds far
            more than its size lets expect.
    """
    if path.is_dir():
        return _from_folder(path, name)
    if path.is_file():
        return _from_archive(path, name)
    raise missing(path)


def data_files(path: Path) -> set[str]:
    """Names of the files in the folder `data`, of an archive or unpacked.

    Raises:
        CorpusError: if the path does not exist, or the archive can't be read to its end.
    """
    if path.is_dir():
        return {file.name for folder in _folders(path) for file in folder.glob("*") if file.is_file()}
    if path.is_file():
        return set(_members(path))
    raise missing(path)


def _folders(path: Path) -> list[Path]:
    """Where the files may lie: the newest version first, where versions lie side by side."""
    return [path, path / "data", *sorted(path.glob("*/data"), reverse=True)]


def _from_folder(path: Path, name: str) -> tuple[str, bytes]:
    folders = _folders(path)
    for folder in folders:
        if (folder / name).is_file():
            try:
                return str(folder / name), (folder / name).read_bytes()
            except OSError as error:
                remedy = "Check the rights of the file and the disk"
                raise CorpusError(located(folder / name, None, f"can't be read ({error})", remedy)) from error
    there = [file.name for folder in folders for file in folder.glob(f"*{PurePosixPath(name).suffix}")]
    raise _absent(path, name, there)


def _from_archive(path: Path, name: str) -> tuple[str, bytes]:
    members = _members(path, name)
    found = members.get(name)
    if found is None:
        raise _absent(path, name, list(members))
    return found


def _members(path: Path, wanted: str | None = None) -> dict[str, tuple[str, bytes] | None]:
    """Files in a folder `data` of the archive by name, with the place and content of the one that is wanted.

    Reads to the end even after a hit: the check sum of a compressed archive comes last.
    """
    members: dict[str, tuple[str, bytes] | None] = {}
    try:
        with _unpacked(path) as file, tarfile.open(fileobj=cast(Any, _Bounded(path, file)), mode="r:") as archive:
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
        remedy = "Download the archive again"
        raise CorpusError(located(path, None, f"not a whole tar archive ({error})", remedy)) from error
    return members


def _unpacked(path: Path) -> BufferedIOBase:
    """The bytes of a tar archive, whatever it is compressed with."""
    with path.open("rb") as file:
        head = file.read(6)
    opens = next((opens for magic, opens in _COMPRESSIONS.items() if head.startswith(magic)), open)
    return opens(path, "rb")


class _Bounded:
    """A file as tarfile reads it, with an end to how much comes out of it.

    Raises:
        CorpusError: as soon as more is asked for.
    """

    def __init__(self, path: Path, file: BufferedIOBase) -> None:
        self._path, self._file, self.tell = path, file, file.tell
        self._most = max(UNPACKED_TIMES * path.stat().st_size, UNPACKED_LEAST)

    def read(self, size: int = -1) -> bytes:
        """As a file's."""
        if not 0 <= size <= MOST_AT_ONCE:
            raise _too_large(self._path, f"a part of it claims {size:,} bytes")
        self._require(self.tell() + size)
        return self._file.read(size)

    def seek(self, position: int) -> int:
        """As a file's, from its start."""
        self._require(position)
        return self._file.seek(position)

    def _require(self, position: int) -> None:
        if position > self._most:
            raise _too_large(self._path, f"it unpacks to more than {self._most >> 20:,} MB")


def _too_large(path: Path, found: str) -> CorpusError:
    remedy = "This is no archive of this corpus; unpack it by hand and set the path to the folder if it is"
    return CorpusError(located(path, None, found, remedy))


def _absent(path: Path, name: str, there: list[str]) -> CorpusError:
    suffix = PurePosixPath(name).suffix
    stems = {PurePosixPath(file).stem for file in there if PurePosixPath(file).suffix == suffix}
    return absent(path, f"data/{name}", stems)
