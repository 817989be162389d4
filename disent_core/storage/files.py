"""Files that are whole or not there: written beside their place, flushed, renamed; sealed; made by one at a time.

A result has a manifest beside it, `en.parquet` has `en.parquet.manifest`: size and SHA-256 of the file, facts such
as what it was made from, and a checksum of its own. The manifest is written first and tells of the last few files of
that name. So whichever of them is there after a kill, or while another process looks, is in it; a file that is not
in it is damaged, is set aside as `en.parquet.damaged` and never used.
"""

import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError

from disent_core.errors import DamagedError, StorageError, located

log = logging.getLogger(__name__)

Found = TypeVar("Found")

_REMEMBERED = 3
_REMEDY = "is made anew when its asset is materialised again"
_FOLDER_MANIFEST = "files.manifest"
_TEMPORARY = re.compile(r"\..*\.(?P<host>[^.]*)-(?P<process>\d+)-[0-9a-f]{32}\.tmp(\..*)?")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CODE = re.compile(r"(?:os error|errno:?) (\d+)")


# --- whole or not at all ----------------------------------------------------------------------------------


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder; on success it is flushed to disk and takes the name `path`.

    The name or nothing: on any error the temporary file is removed and `path` stays as it was. What killed
    processes of this machine have left in the folder is removed as well.

    Raises:
        StorageError: if the disk is full or fails.
    """
    with _written(path, nullcontext) as beside:
        yield beside


@contextmanager
def _written(path: Path, publishing: Callable[[Path], AbstractContextManager[object]]) -> Iterator[Path]:
    """`publishing` of the temporary path is entered when that is complete, and left when it has its name."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        beside = path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{uuid.uuid4().hex}.tmp")
        try:
            yield beside
            _flush_all(beside)
            with publishing(beside):
                os.replace(beside, path)  # noqa: PTH105 - the atomicity of os.replace is the point
            _flush(path.parent)
        finally:
            _remove(beside)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    with atomic_path(path) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """A full or failing disk as one line that names the file; other errors pass.

    Raises:
        StorageError: in their stead.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        code = _code(error)
        if code in _FULL:
            found = (
                f"there is no space left for this file ({shutil.disk_usage(_existing(path)).free / 1e6:.0f} MB free)"
            )
            remedy = "Nothing that was there is lost: free space and start the same run again"
        elif code == errno.EIO:
            found = "the disk fails to read or write this file"
            remedy = "Nothing that was whole is lost: check the disk and start the same run again"
        else:
            raise
        raise StorageError(located(path, None, found, remedy)) from error


def _code(error: Exception) -> int | None:
    """Number of an error of the operating system, which some libraries tell in their message only."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if "No space left on device" in str(error):
        return errno.ENOSPC
    told = _CODE.search(str(error))
    return int(told[1]) if told else None


def _existing(path: Path) -> Path:
    return next(folder for folder in path.absolute().parents if folder.is_dir())


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", socket.gethostname())


def _remove_leftovers(folder: Path) -> None:
    for entry in os.scandir(folder):
        named = _TEMPORARY.fullmatch(entry.name)
        if named and named["host"] == _host() and not _is_alive(int(named["process"])):
            _remove(Path(entry.path))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush_all(path: Path) -> None:
    for each in sorted(path.rglob("*")) if path.is_dir() else ():
        _flush(each)
    _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- sealed -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seal:
    """What a manifest says of one file: its size in bytes, its checksum, and facts about its content."""

    bytes: int
    sha256: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def manifest_path(path: Path) -> Path:
    """Where the manifest of a file lies."""
    return path.with_name(f"{path.name}.manifest")


@contextmanager
def sealed_path(path: Path, **facts: str | int) -> Iterator[Path]:
    """As `atomic_path`; the file gets a manifest with these facts."""

    @contextmanager
    def publishing(beside: Path) -> Iterator[None]:
        with _alone_in(path.parent):  # the manifest of one writer must not forget the file of another
            _write_manifest(path, [_seal(beside, facts), *_manifest(path)][:_REMEMBERED])
            yield

    with _written(path, publishing) as beside:
        yield beside


def write_sealed_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically, with a manifest."""
    with sealed_path(path) as beside:
        beside.write_text(text, encoding="utf-8")


def check_seal(path: Path) -> Seal | None:
    """What the manifest says of the file as it is now; None where there is no file.

    Raises:
        DamagedError: if it is not as it was written. It has been set aside.
        StorageError: if the disk fails.
    """
    return _checked(path, lambda: _seal(path, {}))


def read_sealed(path: Path) -> bytes | None:
    """The file's bytes, once they were found to be what was written; None where there is no file.

    Raises:
        DamagedError: if they are not. The file has been set aside.
        StorageError: if the disk fails.
    """
    read = b""

    def seal() -> Seal:
        nonlocal read
        read = path.read_bytes()
        return Seal(len(read), hashlib.sha256(read).hexdigest())

    return None if _checked(path, seal) is None else read


def _checked(path: Path, seal_now: Callable[[], Seal]) -> Seal | None:
    known: list[Seal] | None = None
    while known != (manifest := _manifest(path)):  # at first, and while other processes put new files there
        known = manifest
        with storage_errors(path):
            try:
                now = seal_now()
            except FileNotFoundError:
                return None
        for seal in known:
            if (seal.bytes, seal.sha256) == (now.bytes, now.sha256):
                return seal
    raise set_aside(path, "is not as it was written" if known else "has no manifest")


def unless_damaged(read: Callable[[], Found]) -> Found | None:
    """What is read, for who can make the file anew: None where it was damaged, which is logged."""
    try:
        return read()
    except DamagedError as error:
        log.warning("%s", str(error).replace(_REMEDY, "is made anew"))
        return None


def sound(path: Path) -> Seal | None:
    """As `check_seal`, but None where the file was damaged."""
    return unless_damaged(lambda: check_seal(path))


def set_aside(path: Path, found: str) -> DamagedError:
    """Rename a damaged file (or folder), so that nothing reads it; returns the error to raise."""
    aside = path.with_name(f"{path.name}.damaged")
    _remove(aside)
    path.replace(aside)
    return DamagedError(located(path, None, f"this file {found}", f"It was set aside as {aside.name}, and {_REMEDY}"))


def remove_sealed(path: Path) -> None:
    """Remove a file, if it is there, and its manifest."""
    path.unlink(missing_ok=True)
    manifest_path(path).unlink(missing_ok=True)


def _seal(path: Path, facts: Mapping[str, str | int]) -> Seal:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Seal(file.tell(), digest, dict(facts))


def _write_manifest(path: Path, seals: Sequence[Seal]) -> None:
    files = [asdict(seal) for seal in seals]
    told = {"files": files, "manifest_sha256": _checksum(files)}
    write_text(manifest_path(path), json.dumps(told, indent=1, sort_keys=True) + "\n")


def _manifest(path: Path) -> list[Seal]:
    """Its entries, newest first; none where it is damaged itself."""
    try:
        told = json.loads(manifest_path(path).read_bytes())
        is_sound = told["manifest_sha256"] == _checksum(told["files"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []
    return [Seal(**entry) for entry in told["files"]] if is_sound else []


def _checksum(files: object) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def seal_folder(folder: Path) -> None:
    """Put a manifest of all files of a folder into it, before it takes its name."""
    files = {file.relative_to(folder).as_posix(): asdict(_seal(file, {})) for file in _files(folder)}
    (folder / _FOLDER_MANIFEST).write_text(json.dumps(files, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def is_sound_folder(folder: Path) -> bool:
    """Whether a folder is there and all its files are as they were; a damaged one is set aside, which is logged."""
    if not folder.is_dir():
        return False
    try:
        known = json.loads((folder / _FOLDER_MANIFEST).read_bytes())
        now = {file.relative_to(folder).as_posix(): asdict(_seal(file, {})) for file in _files(folder)}
    except (FileNotFoundError, ValueError):
        known, now = None, {}
    if known != now:
        log.warning("%s", set_aside(folder, "or one below it is not as it was written"))
    return known == now


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.name != _FOLDER_MANIFEST)


# --- one at a time ----------------------------------------------------------------------------------------


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else makes this file meanwhile: who comes second waits. A killed process leaves no lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("%s is being made by another run: waiting for it", path)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
