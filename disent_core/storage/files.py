"""Write files atomically and lock them.

A new file is written under a temporary name in the folder of its target, flushed to disk, and then renamed, so
readers see either the old file or the complete new one.
"""

import errno
import fcntl
import logging
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from safetensors import SafetensorError

from disent_core.errors import StorageError, located

log = logging.getLogger(__name__)

_TEMPORARY = re.compile(r"(?P<own>\..*[.-][0-9a-f]{32}\.tmp)(\..*)?")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REFUSED = {
    errno.EACCES: "this process has no permission for it",
    errno.EPERM: "this process has no permission for it",
    errno.EROFS: "its disk is read-only",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.ENAMETOOLONG: "a name in this path is too long",
    errno.ELOOP: "its symbolic links lead in a circle",
}
"""What the numbers of errors mean for a path that this process can't use."""
_ERROR_NUMBER = re.compile(r"(?:os error|errno:?) (\d+)")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it is flushed to disk and renamed to `path`.

    Either the complete file (or folder) appears under `path` or nothing changes: on any error the temporary file is
    removed. Temporary files that killed processes left in the folder are removed as well.

    Raises:
        StorageError: if the disk is full or fails.
    """
    with replacing(path, nullcontext) as temporary:
        yield temporary


@contextmanager
def replacing(path: Path, publishing: Callable[[Path], AbstractContextManager[object]]) -> Iterator[Path]:
    """As `atomic_path`, and rename inside the context `publishing(temporary)`."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        with _lock_file(_lock_of(temporary)):
            try:
                yield temporary
                _open_to_others(temporary, _lock_of(temporary).stat().st_mode)
                _flush_all(temporary)
                with publishing(temporary):
                    os.replace(temporary, path)  # noqa: PTH105 - the atomicity of os.replace is the point
                _flush(path.parent)
            finally:
                remove_path(temporary)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_path(path: Path) -> None:
    """Remove a file or a whole folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Report a full, failing or forbidden disk in one line that names the file; other errors pass.

    Raises:
        StorageError: instead of the operating system's error.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        number = _error_number(error)
        if number in _FULL:
            free = shutil.disk_usage(_existing_parent(path)).free / 1e6
            problem = f"there is no space left for this file ({free:.0f} MB free)"
            remedy = "No complete file is lost: free space and start the same run again"
        elif number == errno.EIO:
            problem = "the disk fails to read or write this file"
            remedy = "No complete file is lost: check the disk and start the same run again"
        elif number in REFUSED:
            problem = REFUSED[number]
            remedy = "Change its permissions, or use another path"
        else:
            raise
        raise StorageError(located(path, None, problem, remedy)) from error


def may_write(path: Path) -> bool:
    """Whether this process may make or replace a file, and the folders that it lacks."""
    return is_allowed(_existing_parent(path), os.W_OK | os.X_OK)


def is_allowed(path: Path, mode: int) -> bool:
    """`os.access` for the user as whom this process acts."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _error_number(error: Exception) -> int | None:
    """Number of an operating system's error; some libraries give it in their message only."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if "No space left on device" in str(error):
        return errno.ENOSPC
    match = _ERROR_NUMBER.search(str(error))
    return int(match[1]) if match else None


def _existing_parent(path: Path) -> Path:
    return next(folder for folder in path.absolute().parents if folder.is_dir())


# --- temporary files of killed processes: a lock tells them, as a name of a machine and a process is not unique -------


def _lock_of(temporary: Path) -> Path:
    return temporary.with_name(f"{temporary.name}.lock")


def _remove_leftovers(folder: Path) -> None:
    for file in os.scandir(folder):
        if match := _TEMPORARY.fullmatch(file.name):
            _remove_unless_written(Path(file.path), _lock_of(folder / match["own"]))


def _remove_unless_written(path: Path, lock: Path) -> None:
    """Remove a file under the lock of its writer, who may be about to take it, and then makes a new one."""
    try:
        held = lock.open("r+")
    except FileNotFoundError:
        remove_path(path)
        return
    with held, suppress(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_path(path)


def _open_to_others(path: Path, usual: int) -> None:
    """Let others do with each file what `usual` lets them: safetensors gives its files to their maker alone.

    Args:
        path: a file or folder of this process.
        usual: mode of a file that was just opened for writing, which has the umask; to ask for the umask would set it.
    """
    for file in path.rglob("*") if path.is_dir() else (path,):
        mode = file.lstat().st_mode
        if stat.S_ISREG(mode) and usual & ~mode:
            file.chmod(stat.S_IMODE(mode | usual))


def _flush_all(path: Path) -> None:
    for below in sorted(path.rglob("*")) if path.is_dir() else ():
        _flush(below)
    _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- locks ------------------------------------------------------------------------------------------------


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on an existing folder; a second process waits. A killed process leaves no lock."""
    with _lock_file(folder / ".lock"):
        yield


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file that exists only as long."""
    with _new_lock(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _new_lock(path: Path) -> IO[str]:
    while True:
        lock = path.open("a")  # NFS locks only what is open for writing
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                return lock
        lock.close()  # who held it has removed it


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; a second process waits. A killed process leaves no lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("%s is being made by another run: waiting for it", path)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
