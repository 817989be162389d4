"""Write files of this machine atomically, lock them, and record their checksums in manifests.

A new file is written under a temporary name in the folder of its target, flushed to disk, and then renamed, so
readers see either the old file or the complete new one.
"""

import ctypes
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from disent_core.errors import StorageError, located
from disent_core.storage.locks import drop, flush, in_use_for_a_moment, take

log = logging.getLogger(__name__)

_TEMPORARY = re.compile(r"(?P<temporary>\..*[.-][0-9a-f]{32}\.tmp)(\..*)?")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = ("permission denied", "Change its permissions, or use another path")
_KEPT, _AGAIN = "No complete file is lost", "start the same run again"
_FAILURES = {
    **dict.fromkeys(_FULL, ("no space left for this file", f"{_KEPT}: free space and {_AGAIN}")),
    errno.EIO: ("the disk failed to read or write this file", f"{_KEPT}: check the disk and {_AGAIN}"),
    errno.EMFILE: ("too many files are open in this process", f"{_KEPT}: raise the limit (ulimit -n) and {_AGAIN}"),
    errno.ENFILE: ("too many files are open on this machine", f"{_KEPT}: end other programs and {_AGAIN}"),
    errno.ENOLCK: ("it can't be locked", "Mount its folder with locks (disent doctor tests it), or use another path"),
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: ("its disk is read-only", _DENIED[1]),
    errno.ENOTDIR: ("part of this path is a file, not a folder", "Use another path"),
    errno.ENAMETOOLONG: ("a name in this path is too long", "Use another path"),
    errno.ELOOP: ("its symbolic links form a cycle", "Use another path"),
}
"""Problem and remedy for system errors about a file, by error number."""
_ERROR_NUMBER = re.compile(r"(?:os error|errno:?) (\d+)")


FOLDER_MANIFEST = "files.manifest"  # lists the files of a folder that is published as a whole
LISTED_VERSIONS = 3  # versions of a file in its manifest, newest first
REMEDY = "Materialise its asset to rebuild it"


@contextmanager
def atomic_path(
    path: Path,
    publishing: Callable[[Path], AbstractContextManager[object]] = nullcontext,
    rename: Callable[[Path, Path], object] = Path.replace,  # atomic
) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it is flushed to disk and renamed to `path`.

    Either the complete file (or folder) appears under `path` or nothing changes: on any error the temporary file is
    removed. Temporary files left in the folder by killed processes are also removed. The file is renamed inside the
    context `publishing(temporary)`.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        lock = _lock_of(temporary)
        try:
            with take(lock):
                yield temporary
                files = sorted(temporary.rglob("*")) if temporary.is_dir() else []
                _open_to_others([temporary, *files], lock.stat().st_mode)
                for file in (*files, temporary):
                    flush(file)
                with publishing(temporary):
                    in_use_for_a_moment(path, partial(rename, temporary, path))
                flush(path.parent)
        finally:  # a signal may have stopped this process at any statement, so remove whichever exists
            remove_path(temporary)
            remove_path(lock)


@contextmanager
def replacing_folder(folder: Path, publish: Callable[[Path], None] = lambda _: None) -> Iterator[Path]:
    """Like `atomic_path`, for a folder that may exist already; `publish` gets the filled folder before the renaming."""

    @contextmanager
    def publishing(filled: Path) -> Iterator[None]:
        publish(filled)
        yield

    with atomic_path(folder, publishing, _take_place) as temporary:
        yield temporary


def _take_place(new: Path, path: Path) -> None:
    """Rename a new folder to `path`; an old one gets the temporary name, in the same step where the system can."""
    if exchanged(new, path):
        return
    if not path.exists():
        new.replace(path)
        return
    old = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    path.replace(old)
    try:
        new.replace(path)
    except BaseException:
        old.replace(path)
        raise
    remove_path(old)


def exchanged(left: Path, right: Path) -> bool:
    """Let two paths change places in one step; return False where the system, or the disk, has no such call."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(left), here, os.fsencode(right), exchange) == 0


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield an empty folder, which is removed afterwards.

    What can't be removed stays; `tempfile.TemporaryDirectory` would raise RecursionError.
    """
    folder = Path(tempfile.mkdtemp(prefix=".disent-" if parent else "disent-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_path(path: Path) -> None:
    """Remove a file or a whole folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        in_use_for_a_moment(path, partial(path.unlink, missing_ok=True))


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Report a full, failing or forbidden disk, or a lock, in one line with the file's name; let other errors pass."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if (message := failure_of_disk(error, path)) is None:
            raise
        raise StorageError(message) from error


def failure_of_disk(error: BaseException, path: Path) -> str | None:
    """Return one line about an error of a full, failing or forbidden disk or of a lock; None for another error."""
    number = _error_number(error)
    if number not in _FAILURES:
        return None
    problem, remedy = _FAILURES[number]
    if number in _FULL:
        problem += f" ({shutil.disk_usage(_existing_parent(path)).free / 1e6:.0f} MB free)"
    return located(path, None, problem, remedy)


def may_write(path: Path) -> bool:
    """Whether this process may create or replace a file, including the folders it needs."""
    return is_allowed(_existing_parent(path), os.W_OK | os.X_OK)


def is_allowed(path: Path, mode: int) -> bool:
    """Call `os.access` for the effective user of this process."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _error_number(error: BaseException) -> int | None:
    """Return the number of an operating system error; some libraries have it only in the message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if "No space left on device" in str(error):
        return errno.ENOSPC
    match = _ERROR_NUMBER.search(str(error))
    return int(match[1]) if match else None


def _existing_parent(path: Path) -> Path:
    return next(folder for folder in path.absolute().parents if folder.is_dir())


# --- temporary files of killed processes: told by a lock, as names of machines and processes are not unique ---


def _lock_of(temporary: Path) -> Path:
    return temporary.with_name(f"{temporary.name}.lock")


def _remove_leftovers(folder: Path) -> None:
    """Remove each file under its writer's lock; a writer about to take the lock then writes a new file."""
    for file in os.scandir(folder):
        if match := _TEMPORARY.fullmatch(file.name):
            path, lock = Path(file.path), _lock_of(folder / match["temporary"])
            try:
                with take(lock, wait=False, is_new=False):
                    (drop if path == lock else remove_path)(path)
            except FileNotFoundError:
                remove_path(path)
            except BlockingIOError:  # its writer is alive
                continue


def _open_to_others(files: Sequence[Path], usual: int) -> None:
    """Apply the umask's default permissions to files; safetensors writes them with mode 0600.

    `usual` is the mode of a file just opened for writing: the umask can't be read without setting it.
    """
    for file in files:
        mode = file.lstat().st_mode
        if stat.S_ISREG(mode) and usual & ~mode:
            file.chmod(stat.S_IMODE(mode | usual))


# --- locks ------------------------------------------------------------------------------------------------


def check_locks(folder: Path) -> None:
    """Take a lock twice in a folder, local or on a file server; raise StorageError if both attempts succeed."""
    path = folder / f".doctor-{uuid.uuid4().hex}"
    with storage_errors(path), take(path):
        try:
            with take(path, wait=False, is_new=False):
                pass
        except BlockingIOError:
            return
        finally:
            drop(path)
    problem = "locks have no effect here, so two processes could make the same result at once"
    raise StorageError(located(folder, None, problem, "Mount the folder with locks, or set DISENT_HOME to another"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; a second process waits. A killed process leaves no lock."""
    lock = path.with_name(f".{path.name}.lock")
    with storage_errors(lock):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            held = take(lock, wait=False)
        except BlockingIOError:
            log.info("another run is making %s: waiting for it", path)
            held = take(lock)
    with held:
        yield


# --- manifests: small JSON texts with the checksums of files, and a checksum of themselves ------------------


@dataclass(frozen=True)
class ManifestEntry:
    """The record of one file in a manifest: its size in bytes, its checksum, and facts about its content."""

    bytes: int
    sha256: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def is_of(self, other: "ManifestEntry") -> bool:
        """Whether both record the same bytes."""
        return (self.bytes, self.sha256) == (other.bytes, other.sha256)


def manifest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.manifest")


def entry_of(path: Path, facts: Mapping[str, str | int]) -> ManifestEntry:
    """Hash a file and return its entry."""
    with storage_errors(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ManifestEntry(file.tell(), digest, dict(facts))


def manifest_text(files: Sequence[Mapping[str, Any]]) -> str:
    """Format a manifest of versions of a file, the newest first."""
    return json.dumps({"files": files, "manifest_sha256": _checksum(files)}, indent=1, sort_keys=True) + "\n"


def versions_in(text: bytes) -> list[dict[str, Any]]:
    """Parse the versions in a manifest; none if it is damaged."""
    try:
        manifest = json.loads(text)
        return manifest["files"] if manifest["manifest_sha256"] == _checksum(manifest["files"]) else []
    except (ValueError, KeyError, TypeError):
        return []


def _checksum(files: object) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> list[ManifestEntry]:
    """Read the entries of a file's manifest, newest first; none if the manifest is missing or damaged."""
    try:
        with storage_errors(manifest_path(path)):
            text = manifest_path(path).read_bytes()
    except FileNotFoundError:
        return []
    return [ManifestEntry(**entry) for entry in versions_in(text)]


@contextmanager
def recording(path: Path, entry: ManifestEntry) -> Iterator[None]:
    """Add an entry to the manifest of a file that this context renames."""
    # Without the lock, two writers would each read the old manifest, and one would drop the other's file.
    lock = path.parent / ".lock"
    with take(lock):
        try:
            entries = [entry, *read_manifest(path)][:LISTED_VERSIONS]
            write_text(manifest_path(path), manifest_text([asdict(listed) for listed in entries]))
            yield
        finally:
            drop(lock)


@contextmanager
def recorded_path(path: Path, **facts: str | int) -> Iterator[Path]:
    """Like `atomic_path`, and write a manifest with these facts beside the file."""
    with atomic_path(path, lambda temporary: recording(path, entry_of(temporary, facts))) as temporary:
        yield temporary
