"""Imported first in the process that workers are forked from, which ends with the command."""

import signal
import sys
from types import TracebackType

from disent_core.shards.processes import killed_with_parent

_shown = sys.excepthook


def _silent_if_it_cannot_fork(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Suppress the traceback if no process can be started: the command reports that a worker could not start."""
    if not isinstance(error, BlockingIOError):
        _shown(kind, error, trace)


signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the command ends this process
killed_with_parent()
sys.excepthook = _silent_if_it_cannot_fork
