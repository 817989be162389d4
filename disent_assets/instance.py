"""Open Dagster's state (runs, events, data versions) in `DISENT_HOME/dagster`.

The UI reads the same folder.
"""

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import dagster as dg
from sqlalchemy.exc import DBAPIError

from disent_assets.homes import is_read_only
from disent_core.errors import StorageError, located
from disent_core.storage.atomic import locked, storage_errors

SETTINGS = Path(__file__).with_name("dagster.yaml")
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

HIDDEN = ".dagster/disent"
"""How tags begin that the UI does not show."""
FACE = {f"{HIDDEN}_face": "command line"}
"""Tag of the runs that a process of the command line, not Dagster's daemon, has to end."""
BEGAN = f"{HIDDEN}_began"
"""Tag of the runs of a command or a refresh: when it began."""
PROCESS = f"{HIDDEN}_process"
"""Tag of the runs of a worker process."""
UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def dagster_home(home: Path) -> Path:
    """Make the folder of Dagster's state, with the project's `dagster.yaml` in it; returns its path."""
    folder = home / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "dagster.yaml"
    if not settings.is_file() or settings.read_bytes() != SETTINGS.read_bytes():
        shutil.copyfile(SETTINGS, settings)
    return folder


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of a folder of results."""
    with _state_errors(home / "dagster"):
        with locked(home / "dagster"):  # if two first runs start at once, one would fail to make the databases
            folder = str(dagster_home(home))
            instance = dg.DagsterInstance.from_config(folder)
        os.environ["DAGSTER_HOME"] = folder  # child processes of a run read it
        with instance, Path(folder, "processes.lock").open("w") as lock:
            _end_killed_runs(instance, lock)
            fcntl.flock(lock, fcntl.LOCK_SH)  # the system releases it when this process ends, also if it is killed
            yield instance


@contextmanager
def open_copy(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open a copy of the Dagster instance of a folder that this process may not write; what is added to it is lost."""
    with _state_errors(home / "dagster"), _copied(home) as copy, dg.DagsterInstance.from_config(str(copy)) as instance:
        yield instance


@contextmanager
def shown_state(home: Path) -> Iterator[None]:
    """Let `DAGSTER_HOME` be the state of a folder of results, or a copy of it if this process may not write it."""
    if not is_read_only(home):
        os.environ["DAGSTER_HOME"] = str(dagster_home(home))
        yield
        return
    with _copied(home) as copy:
        (copy.parent / "plots").symlink_to(home / "plots")
        os.environ["DAGSTER_HOME"] = str(copy)
        yield


@contextmanager
def _copied(home: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix="disent-") as folder:
        copy = dagster_home(Path(folder))
        for file in (home / "dagster").rglob("*.db*"):
            if file.suffix in (".db", ".db-wal"):  # of a file that is being written, the rest is in its log
                target = copy / file.relative_to(home / "dagster")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        yield copy


@contextmanager
def _state_errors(folder: Path) -> Iterator[None]:
    """Turn an error of reading or writing Dagster's state into one line."""
    with storage_errors(folder):
        try:
            yield
        except DBAPIError as error:
            problem = f"Dagster's own state can't be read or written ({error.orig})"
            remedy = "If the disk is not full, delete this folder: results stay, the history of runs is lost"
            if "readonly" in str(error.orig):
                remedy = "Change the permissions of its files, or set DISENT_HOME to another folder"
            raise StorageError(located(folder, None, problem, remedy)) from error


def _end_killed_runs(instance: dg.DagsterInstance, lock: TextIO) -> None:
    """End the runs of killed processes: each still occupies its place in a pool, for which later runs would wait."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another process is alive, so its runs may be too
        return
    for run in instance.get_runs(dg.RunsFilter(tags=FACE, statuses=UNFINISHED)):
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        instance.report_run_failed(run, "The process of this run was killed.")


def process_tag(process: int) -> dict[str, str]:
    """Tag of the runs of a worker process."""
    return {PROCESS: f"{socket.gethostname()}-{process}"}


def cancel_run_of(instance: dg.DagsterInstance, process: int) -> None:
    """Announce that the process will be stopped, so that its run ends as canceled, not as failed."""
    for run in _unfinished(instance, process):
        instance.report_run_canceling(run)


def end_run_of(instance: dg.DagsterInstance, process: int, message: str) -> None:
    """End the run of a worker process that has died; as canceled if that was announced."""
    for run in _unfinished(instance, process):
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, message)
        else:
            instance.report_run_failed(run, message)


def _unfinished(instance: dg.DagsterInstance, process: int) -> Sequence[dg.DagsterRun]:
    return instance.get_runs(dg.RunsFilter(tags=FACE | process_tag(process), statuses=UNFINISHED))
