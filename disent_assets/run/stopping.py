"""Stop a command on a signal: within a second, and immediately on a second signal.

Dagster replaces signal handlers while it runs a step, and loses a signal that arrives at the wrong moment. The wake-up
descriptor receives every signal whatever the handlers do, so a thread reads that.
"""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess

SECONDS = 0.9  # time for an orderly stop
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """Raised to stop the command; not an Exception, so that `except Exception` does not catch it."""


class Stop:
    """The signal that has arrived, if any; `farewell` is called when the command stops, in whatever way."""

    def __init__(self, farewell: Callable[[], None]) -> None:
        self.signal: int | None = None
        self._farewell, self._lock = farewell, threading.Lock()

    def arrive(self, number: int, _: object) -> None:
        """Handle a signal in the main thread; a second signal is for the watching thread."""
        if self.signal is None:
            self.signal = number
            raise Stopped

    def check(self) -> None:
        """Raise `Stopped` if a signal arrived and was lost."""
        if self.signal is not None:
            raise Stopped

    def watch(self, arrivals: socket.socket) -> None:
        """Read signal numbers; end the process if it does not end by itself, or on a second signal."""
        is_second = False
        with arrivals:
            while numbers := arrivals.recv(64):
                for number in set(numbers) & set(_SIGNALS):
                    self.signal = self.signal or number
                    if is_second:
                        self.end()
                    is_second = True
                    late = threading.Timer(SECONDS, self.end)
                    late.daemon = True
                    late.start()

    def end(self) -> None:
        """End the process immediately, since an interpreter with torch takes a second to exit.

        Workers are killed; the next command ends their runs.
        """
        with self._lock:
            try:
                self._farewell()
                for worker in multiprocessing.active_children():
                    kill(worker)
                sys.stdout.flush()
            finally:
                os._exit(128 + (self.signal or 0))


def kill(worker: BaseProcess) -> None:
    """Kill a worker, with its process group if it has its own."""
    if worker.pid is not None and hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):  # it has no group, or has ended
            os.killpg(worker.pid, signal.SIGKILL)
    worker.kill()


@contextmanager
def swallowed_silently() -> Iterator[None]:
    """Suppress output about a stop that Python swallows because the signal arrived while an object was deleted.

    The process is stopped all the same: a command by its watching thread, a worker by its command. SQLAlchemy logs and
    raises a stop that arrives while it closes a connection.
    """
    shown, pool = sys.unraisablehook, logging.getLogger("sqlalchemy.pool")
    level = pool.level

    def show(swallowed: "sys.UnraisableHookArgs") -> None:
        if isinstance(swallowed.exc_value, Exception):
            shown(swallowed)

    sys.unraisablehook = show
    pool.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        sys.unraisablehook = shown
        pool.setLevel(level)


@contextmanager
def stoppable(farewell: Callable[[], None]) -> Iterator[Stop]:
    """Let SIGINT and SIGTERM end the block with exit code 130 or 143, after the farewell.

    Outside the main thread, do not handle signals.
    """
    stop = Stop(farewell)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    arrivals, wake_up = socket.socketpair()
    wake_up.setblocking(False)
    handlers = {number: signal.signal(number, stop.arrive) for number in _SIGNALS}
    before = signal.set_wakeup_fd(wake_up.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=stop.watch, args=(arrivals,), daemon=True).start()
    try:
        with swallowed_silently():
            yield stop
    finally:
        if stop.signal is not None:  # whatever was raised is due to the stop
            stop.end()
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        wake_up.close()  # ends the thread
