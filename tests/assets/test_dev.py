"""`disent dev` ends everything that it has started, and repairs what an earlier one has left."""

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from disent_assets.settings.instance import FACE, dagster_home, open_instance
from disent_assets.web.dev import SIGNALS, end_lost_runs, serve
from disent_core.errors import DisentError

STARTER = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a script does for its commands in the background
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores
from disent_assets.web.dev import run_group
with open(sys.argv[1], "w") as lock:
    sys.exit(run_group([sys.executable, "-c", sys.argv[2]], environment={}, lock=lock, grace=float(sys.argv[3])))
"""
LEADER = """
import signal, subprocess, sys
subprocess.run([sys.executable, "-c", '''
import signal, time
{ignore}
print("ready", flush=True)
time.sleep(600)
'''])
"""
ALL_SIGNALS = pytest.mark.parametrize("number", SIGNALS, ids=[number.name for number in SIGNALS])


def start(folder: Path, *, ignore: str = "", grace: float = 60) -> subprocess.Popen[str]:
    """A group of two processes; the inner one prints `ready`."""
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, str(folder / "lock"), LEADER.format(ignore=ignore), str(grace)],
        stdout=subprocess.PIPE,
        text=True,
    )


@ALL_SIGNALS
def test_a_signal_ends_all_processes_that_a_script_in_the_background_has_started(tmp_path, number):
    with start(tmp_path) as starter:
        assert starter.stdout.readline() == "ready\n"
        starter.send_signal(number)
        rest = starter.stdout.read()  # ends when the last process has closed it
        assert (rest, starter.wait()) == ("", 0)


def test_a_process_that_ignores_the_signal_is_killed_and_by_a_second_signal_at_once(tmp_path):
    with start(tmp_path, ignore="signal.signal(signal.SIGTERM, signal.SIG_IGN)", grace=0.2) as starter:
        assert starter.stdout.readline() == "ready\n"
        starter.terminate()
        assert starter.stdout.read() == ""
    ignore = "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))"
    with start(tmp_path, ignore=ignore) as starter:
        assert starter.stdout.readline() == "ready\n"
        starter.terminate()
        assert starter.stdout.readline() == "asked\n"
        starter.terminate()
        assert starter.stdout.read() == ""


def test_a_group_whose_command_was_killed_is_killed_soon():
    code = """import signal
from disent_assets.web.dev import _end_with_parent
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
_end_with_parent()"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **pipes) as leader:
        assert leader.stdout.readline() == "ready\n"
        leader.stdin.close()  # as when `disent dev` is killed
        assert leader.wait(timeout=15) == -signal.SIGKILL  # it would have 20 s after a signal


def test_the_exit_code_of_the_command_is_kept(tmp_path):
    command = [sys.executable, "-c", STARTER, str(tmp_path / "lock"), "exit(3)", "1"]
    assert subprocess.run(command, check=False).returncode == 3


def test_a_second_server_on_the_same_folder_is_refused(tmp_path):
    with Path(dagster_home(tmp_path), "dev.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DisentError, match="already runs here"):
            serve(tmp_path, 0)


ENDED = {"STARTED": "FAILURE", "STARTING": "FAILURE", "CANCELING": "CANCELED", "NOT_STARTED": "NOT_STARTED"}


def test_the_runs_of_a_killed_daemon_are_ended(tmp_path):
    with open_instance(tmp_path) as instance:
        for before in ENDED:
            instance.add_run(dg.DagsterRun("job", before, status=dg.DagsterRunStatus[before]))
    end_lost_runs(tmp_path)
    with open_instance(tmp_path) as instance:
        assert {run.run_id: run.status.value for run in instance.get_runs()} == ENDED


def test_runs_of_a_living_command_are_not_ended(tmp_path):
    with open_instance(tmp_path) as instance:
        instance.add_run(dg.DagsterRun("job", status=dg.DagsterRunStatus.STARTED, tags=FACE))
        end_lost_runs(tmp_path)
        assert [run.status.value for run in instance.get_runs()] == ["STARTED"]
