"""Run steps in worker processes, several at once, or one at a time in this process.

Workers are forked from one process that has imported everything and started no thread. Each has one thread for
arithmetic, so that results do not depend on the number of cores. Workers exit when the parent process exits.
A `ProcessPoolExecutor` would lose all steps if one worker is killed.
"""

import hashlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

import dagster as dg

from disent.home import open_home
from disent_assets.run.fork_server import HAS_WORKERS, start_fork_server
from disent_assets.run.plan import AssetStep, StepRun, steps_of
from disent_assets.run.step import Outcome, compute
from disent_assets.run.steps import command
from disent_assets.run.stopping import kill, swallowed_silently
from disent_assets.settings.environment import address_of, shard_backend
from disent_core.config.load import load_config
from disent_core.config.model import signature
from disent_core.errors import ConfigError, DisentError
from disent_core.lineage.workspace import Key, Workspace
from disent_core.shards.processes import end_with_parent
from disent_core.storage.remote import LOOK_SECONDS, bucket_of, looking

if TYPE_CHECKING:  # Windows has none
    from multiprocessing.context import ForkServerProcess

READY = "ready"
NOT_STARTED = "a worker process could not start; `--workers 1` works without any"
NO_FORK = "several workers need Linux or macOS; `--workers 1` works here"
SECONDS_TO_STOP = 0.7  # time for workers to remove what they were writing before they are killed

Load = Callable[[Workspace], dg.Definitions]
Log = Callable[[StepRun, int, str], None]  # called with the logging step, the level and the text


class Executor(Protocol):
    """Runs steps; `ended` waits until at least one step has ended, or briefly."""

    def is_free(self) -> bool: ...
    def start(self, step: StepRun, *, is_fresh: bool) -> None: ...
    def ended(self) -> Iterator[tuple[StepRun, Outcome]]: ...
    def close(self) -> None: ...


class ThisProcess:
    """Runs one step at a time in this process."""

    def __init__(self, workspace: Workspace, steps: Mapping[Key, AssetStep], log: Log) -> None:
        self.workspace, self.steps, self.log = workspace, steps, log
        self.due: StepRun | None = None

    def is_free(self) -> bool:
        return self.due is None

    def start(self, step: StepRun, *, is_fresh: bool) -> None:
        self.due = step

    def ended(self) -> Iterator[tuple[StepRun, Outcome]]:
        if (step := self.due) is not None:
            self.due = None
            with logged(lambda level, text: self.log(step, level, text)), looking(self.workspace.home, LOOK_SECONDS):
                outcome = compute(self.workspace, self.steps[step.key], step.partition)
            yield step, outcome

    def close(self) -> None:
        self.due = None


@contextmanager
def logged(log: Callable[[int, str], None]) -> Iterator[None]:
    """Pass the library's log lines to a function instead of its handlers."""
    library = logging.getLogger("disent_core")
    before = library.level, library.propagate, library.handlers
    library.handlers, library.propagate = [_Handler(log)], False
    library.setLevel(logging.INFO)
    try:
        yield
    finally:
        library.level, library.propagate, library.handlers = before


class _Handler(logging.Handler):
    def __init__(self, log: Callable[[int, str], None]) -> None:
        super().__init__(logging.INFO)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        self.log(record.levelno, record.getMessage())


# --- processes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What a worker needs to know."""

    load: Load  # makes the definitions of a workspace
    path: Path  # file of the configuration
    signature: str | None  # hash of that file, which must be equal in all processes
    address: str  # of the folder of results, as in DISENT_HOME
    prefix: Key  # of the keys of its assets
    command: tuple[str, datetime | None]  # id of the run, and when its command began

    @classmethod
    def of(cls, load: Load, workspace: Workspace) -> "Work":
        path = workspace.config.path
        work = cls(load, path, _hash_of(path), address_of(workspace.home), workspace.prefix, command.get())
        if signature(work.workspace().config) != signature(workspace.config):
            raise _changed(work.path)
        return work

    def workspace(self) -> Workspace:
        """Load the workspace in another process."""
        if _hash_of(self.path) != self.signature:
            raise _changed(self.path)
        return Workspace(load_config(self.path), open_home(self.address), self.prefix, shard_backend())


def _changed(path: Path) -> ConfigError:
    return ConfigError(f"{path} was changed while the command was running. Start the command again")


def _hash_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:  # it was deleted
        return None


@dataclass
class _Worker:
    process: "ForkServerProcess"
    connection: Connection
    is_ready: bool = False
    step: StepRun | None = None


class Processes:
    """Runs steps in processes, one at a time in each."""

    def __init__(self, work: Work, count: int, log: Log) -> None:
        if not HAS_WORKERS:
            raise DisentError(NO_FORK)
        self.work, self.log = work, log
        self.context = start_fork_server()
        self.workers = [self._new_worker() for _ in range(count)]

    def _new_worker(self) -> _Worker:
        connection, of_worker = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(of_worker, self.work))
        try:
            process.start()
        except (EOFError, ConnectionError) as error:  # the process it is forked from has died
            raise DisentError(NOT_STARTED) from error
        of_worker.close()
        return _Worker(process, cast(Connection, connection))

    def is_free(self) -> bool:
        return any(worker.step is None for worker in self.workers)

    def start(self, step: StepRun, *, is_fresh: bool) -> None:
        worker = next(worker for worker in self.workers if worker.step is None)
        worker.step = step
        worker.connection.send(step)

    def ended(self) -> Iterator[tuple[StepRun, Outcome]]:
        for connection in wait([worker.connection for worker in self.workers], timeout=0.2):
            worker = next(worker for worker in self.workers if worker.connection is connection)
            try:
                message = worker.connection.recv()
            except (EOFError, ConnectionResetError):
                yield from self._replaced(worker)
                continue
            if isinstance(message, DisentError):
                raise message
            if message == READY:
                worker.is_ready = True
            elif (step := worker.step) is not None:
                if isinstance(message, Outcome):
                    worker.step = None
                    yield step, message
                else:
                    self.log(step, *message)

    def _replaced(self, worker: _Worker) -> Iterator[tuple[StepRun, Outcome]]:
        worker.process.join()
        if not worker.is_ready:
            raise DisentError(NOT_STARTED)
        self.workers[self.workers.index(worker)] = self._new_worker()
        if worker.step is not None:
            yield worker.step, Outcome(failure=f"{worker.step}: {how_ended(worker.process.exitcode)}")

    def close(self) -> None:
        for worker in self.workers:
            if worker.step is not None:
                worker.process.terminate()
            worker.connection.close()  # an idle worker ends with its connection
        until = time.monotonic() + SECONDS_TO_STOP
        for worker in self.workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            kill(worker.process)
            worker.process.join()


def how_ended(code: int | None) -> str:
    if code in (-signal.SIGKILL, -signal.SIGABRT):  # SIGABRT comes from a library that can't allocate
        return "its process was killed; if the memory was full, start again with fewer --workers"
    if code == -signal.SIGBUS:
        return "its process could not read a mapped file to its end; the file was shortened, or the disk is failing"
    return f"its process ended with exit code {code}"


# --- inside a worker --------------------------------------------------------------------------------------


def _serve(connection: Connection, work: Work) -> None:
    """Run the steps that arrive until the connection ends."""
    os.setpgid(0, 0)  # the terminal sends Ctrl-C to the command's group; the command then ends its workers
    _end_at_signals(signal.SIG_DFL)  # nothing to remove while it loads
    end_with_parent()
    one_thread()
    sending = threading.Lock()

    def send(message: object) -> None:
        with suppress(BrokenPipeError), sending:
            connection.send(message)

    try:
        workspace = work.workspace()
        if (bucket := bucket_of(workspace.home)) is not None:
            bucket.patience.has_answered = True  # it has answered the command, which planned these steps
        steps = {step.key: step for step in steps_of(workspace, work.load(workspace))}
        command.set(work.command)
        with suppress(EOFError, ConnectionResetError), swallowed_silently():
            _end_at_signals(_end)
            send(READY)
            while True:
                step = connection.recv()
                with logged(lambda level, text: send((level, text))), looking(workspace.home):
                    outcome = compute(workspace, steps[step.key], step.partition)
                send(outcome)
    except DisentError as error:
        send(error)


def _end_at_signals(handler: Callable[[int, object], NoReturn] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _end(number: int, _: object) -> NoReturn:
    """End this process without a traceback, after removing what it was writing."""
    raise SystemExit(128 + number)


def one_thread() -> None:
    import torch

    torch.set_num_threads(1)
