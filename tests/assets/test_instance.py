"""Several processes may open Dagster's state of a new home at once, and several homes share one database of runs."""

import multiprocessing
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError

from disent_assets.settings.instance import FACE, SETTINGS, dagster_home, home_tag, open_instance
from disent_assets.web.dev import end_lost_runs
from disent_core.errors import StorageError

PROCESSES = 4


def open_together(home: Path, barrier, opened) -> None:
    barrier.wait()
    with open_instance(home) as instance:
        opened.put(len(instance.get_runs()))


def test_processes_that_open_a_new_home_at_once_all_succeed(tmp_path):
    context = multiprocessing.get_context("forkserver")  # imports are done before the barrier
    context.set_forkserver_preload(["disent_assets.settings.instance"])
    barrier, opened = context.Barrier(PROCESSES), context.Queue()
    processes = [context.Process(target=open_together, args=(tmp_path, barrier, opened)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert [opened.get(timeout=10) for _ in processes] == [0] * PROCESSES


@pytest.fixture
def two_homes(tmp_path):
    """Two folders of results whose runs are in one database, as those of two machines may be."""
    for name in ("one", "other"):
        settings = dagster_home(tmp_path / name) / SETTINGS.name
        settings.write_text(settings.read_text() + f"storage: {{sqlite: {{base_dir: {tmp_path}/shared}}}}\n")
    return tmp_path / "one", tmp_path / "other"


def test_runs_of_another_results_folder_are_not_ended(two_homes):
    first, second = two_homes
    with open_instance(first) as living:
        for number, tags in enumerate((FACE | home_tag(living), {})):  # of a command, and of a daemon
            living.add_run(dg.DagsterRun("job", str(number), status=dg.DagsterRunStatus.STARTED, tags=tags))
        end_lost_runs(second)
        with open_instance(second) as instance:
            assert [run.status.value for run in instance.get_runs()] == ["STARTED"] * 2
    with open_instance(first) as instance:
        assert [instance.get_run_by_id(number).status.value for number in "01"] == ["FAILURE", "STARTED"]


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        ("unable to open database file", r"Raise the limit of open files \(ulimit -n\)"),
        ("attempt to write a readonly database", "Change the permissions of its files"),
        ("database disk image is malformed", "delete this folder: results stay"),
    ],
)
def test_an_error_of_dagsters_database_names_its_remedy(tmp_path, cause, remedy):
    match = rf"state can't be read or written \({cause}\)\. .*{remedy}"
    with pytest.raises(StorageError, match=match), open_instance(tmp_path):
        raise OperationalError("insert", {}, Exception(cause))
