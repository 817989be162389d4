"""Open Dagster's state (runs, events, data versions) in the folder `dagster` of the results, which the UI reads too."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

import dagster as dg
import yaml

from disent_assets.settings.environment import database, is_local
from disent_assets.settings.profiles import dagster_settings, database_errors, wait_for_database
from disent_assets.settings.results_folder import is_read_only
from disent_core.errors import ConfigError, StorageError, located
from disent_core.storage.files import locked, storage_errors, temporary_folder, write_text
from disent_core.storage.locks import shared

SETTINGS = Path(__file__).with_name("dagster.yaml")
_NAME = "home.id"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

HIDDEN = ".dagster/disent"  # prefix of tags that the UI hides
FACE = {f"{HIDDEN}_face": "command line"}
"""Tag of runs that a command-line process, not Dagster's daemon, must end."""
NOT_REPEATED = {"dagster/max_retries": "0"}
"""Tag of the same runs: if the process dies, the user repeats the command; the daemon must not retry the run."""
BEGAN = f"{HIDDEN}_began"  # tag of the runs of a command or a refresh: when it began
HOME = f"{HIDDEN}_home"
"""Tag that identifies the folder of results of a run: several folders may share one database of runs."""
_STATE_OF: WeakKeyDictionary[dg.DagsterInstance, Path] = WeakKeyDictionary()
"""The folder `dagster` in the results that an instance records; its settings may lie elsewhere."""
_STATUS = dg.DagsterRunStatus
UNFINISHED = [_STATUS.NOT_STARTED, _STATUS.STARTING, _STATUS.STARTED, _STATUS.CANCELING]


def dagster_home(home: Path) -> Path:
    """Create the folder of Dagster's state, with the profile's `dagster.yaml` unless it has one; return its path."""
    folder = home / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / SETTINGS.name).exists():
        write_text(folder / SETTINGS.name, dagster_settings())
    if not (folder / _NAME).exists():
        write_text(folder / _NAME, uuid.uuid4().hex)
    return folder


def settings_folder(home: Path) -> Path:
    """Return the folder of the `dagster.yaml` to use: in the results, or `DAGSTER_HOME` if steps run elsewhere.

    A `DAGSTER_HOME` with a `home.id` is not the user's: a disent process has set it for its child processes.
    """
    of_user, folder = os.environ.get("DAGSTER_HOME"), dagster_home(home)
    if not of_user or is_local() or Path(of_user, _NAME).exists():
        return folder
    if not Path(of_user).is_dir():
        raise ConfigError(f"DAGSTER_HOME must be a folder that exists, got {of_user!r}")
    return Path(of_user)


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of a folder of results."""
    if database():
        wait_for_database()
    with _state_errors(home / "dagster"):
        with locked(home / "dagster"):  # of two simultaneous first runs, one would fail to create the databases
            folder = str(settings_folder(home))
            instance = dg.DagsterInstance.from_config(folder)
        os.environ["DAGSTER_HOME"] = folder  # child processes of a run read it
        with instance, used(instance, home):
            yield instance


@contextmanager
def used(instance: dg.DagsterInstance, home: Path) -> Iterator[None]:
    """Mark a folder of results as in use by this process; if no other uses it, end the runs of killed processes."""
    folder = _STATE_OF[instance] = dagster_home(home)
    with shared(folder / "processes.lock", lambda: _end_killed_runs(instance)):
        yield


@contextmanager
def shown_state(home: Path) -> Iterator[None]:
    """Point `DAGSTER_HOME` to the state of a folder of results, or to a copy if this process may not write to it."""
    if not is_read_only(home):
        os.environ["DAGSTER_HOME"] = str(dagster_home(home))
        yield
        return
    with temporary_folder() as folder:
        state, copy = home / "dagster", folder / "dagster"
        for file in [*state.glob(SETTINGS.name), *state.rglob("*.db*")]:
            if file.suffix in (".yaml", ".db", ".db-wal"):  # a database in use has its latest changes in its log
                target = copy / file.relative_to(state)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        (folder / "plots").symlink_to(home / "plots")
        os.environ["DAGSTER_HOME"] = str(dagster_home(folder))
        yield


@contextmanager
def _state_errors(folder: Path) -> Iterator[None]:
    with storage_errors(folder):
        try:
            yield
        except database_errors() as error:
            cause = getattr(error, "orig", None) or error.__cause__
            problem = f"Dagster's own state can't be read or written ({str(cause).strip()})"
            remedy = "If the disk is not full, delete this folder: results stay, the history of runs is lost"
            if "readonly" in str(cause):
                remedy = "Change the permissions of its files, or set DISENT_HOME to another folder"
            if "unable to open" in str(cause):
                remedy = "Raise the limit of open files (ulimit -n), or change the permissions of this folder"
            if database():
                remedy = "Results stay. Start the same command again when the database of DISENT_POSTGRES is back"
            raise StorageError(located(folder, None, problem, remedy)) from error


def _end_killed_runs(instance: dg.DagsterInstance) -> None:
    """End the runs of killed processes, which still hold pool slots that later runs would wait for."""
    here = home_tag(instance)
    for run in instance.get_runs(dg.RunsFilter(tags=FACE, statuses=UNFINISHED)):
        if run.tags.get(HOME, here[HOME]) != here[HOME]:  # the lock does not cover processes with another folder
            continue
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        instance.report_run_failed(run, "The process of this run was killed.")


def has_private_database(instance: dg.DagsterInstance) -> bool:
    """Return whether no other folder of results keeps its runs in the same database."""
    settings = Path(instance.root_directory, SETTINGS.name).read_text(encoding="utf-8")
    return not {"storage", "run_storage"} & (yaml.safe_load(settings) or {}).keys()


def home_tag(instance: dg.DagsterInstance) -> dict[str, str]:
    """Return the tag of runs by processes that have opened this folder of results."""
    name = (_STATE_OF.get(instance) or Path(instance.root_directory)) / _NAME
    return {HOME: name.read_text(encoding="utf-8") if name.exists() else ""}
