"""Compute shards in processes of this machine, each with one thread.

Each worker has its own pipe. So a worker that is killed in the middle of a result leaves an end of file, where readers
of the pipe that `concurrent.futures` shares would wait for the rest forever. Only its shard is lost, and another worker
computes it again.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from ctypes import CDLL
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar, cast

from disent_core.errors import DisentError, ShardError

_TRIES = 3
_PR_SET_PDEATHSIG = 1  # option of `prctl`
_CONTEXT = multiprocessing.get_context("spawn")  # a fork inherits the locks of threads, but not the threads

Shard = TypeVar("Shard")
Result = TypeVar("Result")


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    shard: int | None = None  # number of the shard under way

    def send(self, message: object) -> None:
        """Send to a worker that may have ended; the next receive from it then fails."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(message)

    def close(self) -> None:
        self.connection.close()
        self.process.kill()  # the next write to the folder removes its unfinished file
        self.process.join()


def in_processes(work: Callable[[Shard], Result], shards: Sequence[Shard], count: int) -> Iterator[Result]:
    if not hasattr(signal, "SIGKILL"):
        raise ShardError("DISENT_SHARDS=processes needs Linux or macOS; DISENT_SHARDS=inline works here")
    workers = _new_workers(work, min(count, len(shards)))
    waiting, done, killed = deque(range(len(shards))), dict[int, Any](), Counter[int]()
    try:
        for number in range(len(shards)):
            while number not in done:
                for worker in workers:
                    if worker.shard is None and waiting:
                        worker.shard = waiting.popleft()
                        worker.send(shards[worker.shard])
                for connection in wait([worker.connection for worker in workers]):
                    worker = next(worker for worker in workers if worker.connection is connection)
                    try:
                        message = worker.connection.recv()
                    except (EOFError, ConnectionResetError):
                        waiting.extendleft(_lost(worker, killed))
                        workers.remove(worker)
                        workers += _new_workers(work, 1)
                        continue
                    if isinstance(message, DisentError):
                        raise message
                    if worker.shard is not None:
                        done[worker.shard], worker.shard = message, None
            yield done.pop(number)
    finally:
        for worker in workers:
            worker.close()


def _new_workers(work: object, count: int) -> list[_Worker]:
    workers = []
    for _ in range(count):
        connection, connection_of_worker = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(connection_of_worker,), daemon=True)
        process.start()
        connection_of_worker.close()
        workers.append(_Worker(process, cast(Connection, connection)))
    for worker in workers:  # all of them start before the first must be ready
        worker.send(work)
    return workers


def _lost(worker: _Worker, killed: Counter[int]) -> list[int]:
    """Close a worker that has ended and return its shard, to be computed again."""
    worker.close()
    code, shard = worker.process.exitcode or 0, worker.shard
    if code >= 0:
        raise ShardError(f"a process that computes shards ended with exit code {code}; see its error above")
    if shard is None:
        return []
    killed[shard] += 1
    if killed[shard] == _TRIES:
        remedy = "If the memory was full, start again with fewer processes: DISENT_SHARDS=processes:1"
        ended = f"its process ended by {signal.Signals(-code).name}"
        raise ShardError(f"shard {shard + 1} was lost {_TRIES} times, {ended}. {remedy}")
    return [shard]


# --- inside a worker --------------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the driver ends its workers
    end_with_parent()
    with suppress(EOFError, ConnectionResetError, BrokenPipeError):
        work = connection.recv()
        if "torch" in sys.modules:  # imported with the work
            sys.modules["torch"].set_num_threads(1)
        while True:
            shard = connection.recv()
            try:
                result = work(shard)
            except DisentError as error:
                result = error
            connection.send(result)


def end_with_parent() -> None:
    """Make this process end as soon as its parent has ended for whatever reason.

    A thread waits for that, but can't run while a long call holds the interpreter's lock; Linux needs no thread. If the
    parent has ended already, which Linux does not report, the thread starts before any long call.
    """
    killed_with_parent()
    try:
        threading.Thread(target=_wait_for_parent, daemon=True).start()
    except RuntimeError as error:  # no thread can be started: the parent reports that this process has ended
        raise SystemExit(1) from error


def killed_with_parent() -> None:
    """Make Linux kill this process when the thread that forked it ends, which may be that of a fork server."""
    if sys.platform == "linux":
        CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGKILL)
