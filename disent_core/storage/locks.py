"""Lock files with `flock` or, where the system lacks it (Windows), with the library filelock.

A killed process leaves no lock. Folders can be flushed, and open files replaced, only where there is `flock`.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from disent_core.errors import StorageError, located

try:
    fcntl: Any = import_module("fcntl")
except ImportError:  # Windows
    fcntl = None
HAS_FLOCK = fcntl is not None

SECONDS_IN_USE = 2.0  # for which a file that another program has open is tried again; scanners of viruses take less

if HAS_FLOCK:

    def take(path: Path, *, wait: bool = True, is_new: bool = True) -> AbstractContextManager[object]:
        """Hold a file (existing, or `is_new`) exclusively; raise BlockingIOError if it is held and not `wait`."""
        while True:
            lock = path.open("a" if is_new else "r+")  # NFS locks only files open for writing
            try:
                fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not (is_new and wait) or os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                    return lock
            except FileNotFoundError:
                pass
            except BaseException:
                lock.close()
                raise
            lock.close()  # its holder has removed it

    def drop(path: Path) -> None:
        """Remove the file of a lock that this process holds; filelock removes its own."""
        path.unlink(missing_ok=True)

    @contextmanager
    def shared(path: Path, alone: Callable[[], None]) -> Iterator[None]:
        """Hold a file jointly with other processes; call `alone` first if no other process holds it."""
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                alone()
            fcntl.flock(lock, fcntl.LOCK_SH)  # released when this process ends, even if killed
            yield

    def is_shared(path: Path) -> bool:
        """Return whether another process holds a file through `shared`."""
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def flush(path: Path) -> None:
        """Flush a file or a folder to disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def in_use_for_a_moment(path: Path, change: Callable[[], object]) -> None:
        """Replace or remove a file that another process may have open, which is harmless with `flock`."""
        change()

else:
    from filelock import FileLock, ReadWriteLock, Timeout

    def take(path: Path, *, wait: bool = True, is_new: bool = True) -> AbstractContextManager[object]:
        if not is_new and not path.exists():
            raise FileNotFoundError(path)
        lock = FileLock(path, is_singleton=False, thread_local=False)
        try:
            return lock.acquire(blocking=wait)
        except Timeout as error:
            raise BlockingIOError(f"{path} is locked") from error

    def drop(path: Path) -> None:
        return

    @contextmanager
    def shared(path: Path, alone: Callable[[], None]) -> Iterator[None]:
        with closing(ReadWriteLock(path, is_singleton=False)) as lock:
            with suppress(Timeout), lock.write_lock(blocking=False):
                alone()
            with lock.read_lock():
                yield

    def is_shared(path: Path) -> bool:
        with closing(ReadWriteLock(path, is_singleton=False)) as lock:
            try:
                with lock.write_lock(blocking=False):
                    return False
            except Timeout:
                return True

    def flush(path: Path) -> None:
        if not path.is_dir():
            with path.open("rb+") as file:  # Windows flushes only files open for writing
                os.fsync(file.fileno())

    def in_use_for_a_moment(path: Path, change: Callable[[], object]) -> None:
        until = time.monotonic() + SECONDS_IN_USE
        while True:
            try:
                change()
            except PermissionError as error:
                if time.monotonic() > until:
                    problem, remedy = "another program has it open, or it is read-only", "Close it and start again"
                    raise StorageError(located(path, None, problem, remedy)) from error
                time.sleep(0.05)
            else:
                return
