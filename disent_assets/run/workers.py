"""Run steps in worker processes, several at once, or one at a time in this process.

Workers are forked from one process that has imported everything and started no thread. Each has one thread for
arithmetic, so that results do not depend on the number of cores. A worker ends with the process that started it,
however that ends.
"""

import hashlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NoReturn, Protocol, cast

import dagster as dg

from disent_assets.instance import cancel_run_of, end_run_of, open_instance, process_tag
from disent_assets.plan import Step
from disent_assets.resources import ONE_THREAD, address_of, environment, open_home, shard_engine
from disent_assets.run_step import Outcome, run_step
from disent_assets.stopping import swallowed_silently
from disent_core.config.load import load_config
from disent_core.config.signature import signature
from disent_core.errors import ConfigError, DisentError
from disent_core.experiment.workspace import Workspace
from disent_core.shards.processes import end_with_parent

PRELOADED = [
    "disent_assets.definitions", "disent_assets.duckdb_warehouse", "disent_assets.workers",
    "disent_core.corpora.rows", "disent_core.experiment.history", "disent_core.experiment.measuring",
    "disent_core.heads.families.frozen", "disent_core.negatives.state", "disent_core.targets.aligned_pairs",
    "matplotlib.figure", "scipy.special", "transformers",
]  # fmt: skip
"""Imported once, before workers are forked. Importing torch starts no thread, but calling it may."""
READY = "ready"
NOT_STARTED = "a worker process could not start; `--workers 1` works without any"
SECONDS_TO_STOP = 0.7
"""Time that workers have to remove what they were writing before they are killed."""

Load = Callable[[Workspace], dg.Definitions]
Log = Callable[[Step, int, str], None]
"""Called with the step that logs, the level and the text."""


class Executor(Protocol):
    """Something that runs steps."""

    def is_free(self) -> bool:
        """Whether another step can be started now."""
        ...

    def start(self, step: Step, *, is_fresh: bool) -> None:
        """Begin a step."""
        ...

    def ended(self) -> Iterator[tuple[Step, Outcome]]:
        """Wait until at least one step has ended, or for a short while."""
        ...

    def close(self) -> None:
        """Stop what is still running."""
        ...


class ThisProcess:
    """Runs one step at a time in this process."""

    def __init__(
        self, definitions: dg.Definitions, instance: dg.DagsterInstance, tags: Mapping[str, str], log: Log
    ) -> None:
        self.definitions, self.instance, self.tags, self.log = definitions, instance, tags, log
        self.due: tuple[Step, bool] | None = None

    def is_free(self) -> bool:
        return self.due is None

    def start(self, step: Step, *, is_fresh: bool) -> None:
        self.due = step, is_fresh

    def ended(self) -> Iterator[tuple[Step, Outcome]]:
        if self.due is not None:
            (step, is_fresh), self.due = self.due, None
            with logged(lambda level, text: self.log(step, level, text)):
                outcome = run_step(self.definitions, step, self.instance, is_fresh=is_fresh, tags=self.tags)
            yield step, outcome

    def close(self) -> None:
        self.due = None


@contextmanager
def logged(log: Callable[[int, str], None]) -> Iterator[None]:
    """Give the log lines of the library to a function; those that Dagster makes of them stay in its runs."""
    handler, library, of_dagster = _Handler(log), logging.getLogger("disent_core"), logging.getLogger("dagster")
    before = library.level, library.propagate, of_dagster.propagate
    library.addHandler(handler)
    library.setLevel(logging.INFO)
    library.propagate = of_dagster.propagate = False
    try:
        yield
    finally:
        library.removeHandler(handler)
        library.level, library.propagate, of_dagster.propagate = before


class _Handler(logging.Handler):
    def __init__(self, log: Callable[[int, str], None]) -> None:
        super().__init__(logging.INFO)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        self.log(record.levelno, record.getMessage())


# --- processes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """All that a worker has to know: how to make the definitions, from which configuration, for which folder.

    Attributes:
        load: makes the definitions of a workspace.
        path: file of the configuration.
        signature: hash of that file, which must be the same for all processes.
        home: folder of results.
        address: what DISENT_HOME is for it.
        tags: of all runs.
    """

    load: Load
    path: Path
    signature: str | None
    home: Path
    address: str
    tags: Mapping[str, str]

    @classmethod
    def of(cls, load: Load, workspace: Workspace, tags: Mapping[str, str]) -> "Work":
        """The work in a workspace.

        Raises:
            ConfigError: if the configuration has changed since it was loaded.
        """
        path = workspace.config.path
        work = cls(load, path, _hash_of(path), workspace.home, address_of(workspace.home), tags)
        if signature(work.workspace().config) != signature(workspace.config):
            raise _changed(work.path)
        return work

    def workspace(self) -> Workspace:
        """The same workspace in another process.

        Raises:
            ConfigError: if the configuration has changed.
        """
        if _hash_of(self.path) != self.signature:
            raise _changed(self.path)
        return Workspace(load_config(self.path), open_home(self.address), engine=shard_engine())


def _changed(path: Path) -> ConfigError:
    return ConfigError(f"{path} was changed while the command was running. Start the command again")


def _hash_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:  # it was deleted
        return None


@dataclass
class _Worker:
    process: ForkServerProcess
    connection: Connection
    is_ready: bool = False
    step: Step | None = None

    @property
    def pid(self) -> int:
        """Id of the process, which has been started."""
        assert self.process.pid is not None
        return self.process.pid


class Processes:
    """Runs steps in processes, one at a time in each."""

    def __init__(self, work: Work, instance: dg.DagsterInstance, count: int, log: Log) -> None:
        self.work, self.instance, self.log = work, instance, log
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)
        with environment(ONE_THREAD):
            forkserver.ensure_running()
        self.workers = [self._new_worker() for _ in range(count)]

    def _new_worker(self) -> _Worker:
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(theirs, self.work))
        try:
            process.start()
        except (EOFError, ConnectionError) as error:  # the process that it is forked from has died
            raise DisentError(NOT_STARTED) from error
        theirs.close()
        return _Worker(process, cast(Connection, ours))

    def is_free(self) -> bool:
        return any(worker.step is None for worker in self.workers)

    def start(self, step: Step, *, is_fresh: bool) -> None:
        worker = next(worker for worker in self.workers if worker.step is None)
        worker.step = step
        worker.connection.send((step, is_fresh))

    def ended(self) -> Iterator[tuple[Step, Outcome]]:
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

    def _replaced(self, worker: _Worker) -> Iterator[tuple[Step, Outcome]]:
        """Replace a worker that has died; its step has failed."""
        worker.process.join()
        if not worker.is_ready:
            raise DisentError(NOT_STARTED)
        end_run_of(self.instance, worker.pid, "The process of this run was killed.")
        self.workers[self.workers.index(worker)] = self._new_worker()
        if worker.step is not None:
            yield worker.step, Outcome(failure=f"{worker.step}: {how_ended(worker.process.exitcode)}")

    def close(self) -> None:
        running = [worker for worker in self.workers if worker.step is not None]
        for worker in running:
            cancel_run_of(self.instance, worker.pid)
            worker.process.terminate()
        for worker in self.workers:
            worker.connection.close()  # an idle worker ends when its connection does
        until = time.monotonic() + SECONDS_TO_STOP
        for worker in self.workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            worker.process.kill()
            worker.process.join()
        for worker in running:
            end_run_of(self.instance, worker.pid, "The command was stopped.")


def how_ended(code: int | None) -> str:
    """What the exit code of a worker means."""
    if code == -signal.SIGKILL:
        return "its process was killed; if the memory was full, start again with fewer --workers"
    if code == -signal.SIGBUS:
        return "its process could not read a mapped file to its end; the file was shortened, or the disk fails"
    return f"its process ended with exit code {code}"


# --- inside a worker --------------------------------------------------------------------------------------


def _serve(connection: Connection, work: Work) -> None:
    """Run the steps that arrive until the connection ends."""
    os.setpgid(0, 0)  # the terminal sends Ctrl-C to the group of the command, which then ends its workers
    _end_at_signals(signal.SIG_DFL)  # while it loads, there is nothing to remove
    threading.Thread(target=end_with_parent, daemon=True).start()
    one_thread()
    sending = threading.Lock()

    def send(message: object) -> None:
        with suppress(BrokenPipeError), sending:
            connection.send(message)

    try:
        definitions = work.load(work.workspace())
        tags = {**work.tags, **process_tag(os.getpid())}
        ends = suppress(EOFError, ConnectionResetError)
        with ends, swallowed_silently(), open_instance(work.home) as instance:
            _end_at_signals(_end)
            send(READY)
            while True:
                step, is_fresh = connection.recv()
                with logged(lambda level, text: send((level, text))):
                    outcome = run_step(definitions, step, instance, is_fresh=is_fresh, tags=tags)
                send(outcome)
    except DisentError as error:
        send(error)


def _end_at_signals(handler: Callable[[int, object], NoReturn] | signal.Handlers) -> None:
    """Handle SIGINT and SIGTERM; Dagster, which replaces both during a run, puts back that of SIGINT for both."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _end(number: int, _: object) -> NoReturn:
    """End this process without a traceback, after it has removed what it was writing."""
    raise SystemExit(128 + number)


def one_thread() -> None:
    """Let torch compute with one thread in this process."""
    import torch

    torch.set_num_threads(1)
