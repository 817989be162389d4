"""The processes of a command: what they are forked from, that they stop at a signal, and that they end with it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from disent_assets.cli import main
from disent_assets.run import fork_server
from disent_assets.run.fork_server import PRELOADED
from disent_core.shards import processes


def test_workers_fork_from_a_preloaded_single_threaded_process():
    code = (
        "import importlib, json, sys, threading\n"
        f"for name in {PRELOADED}: importlib.import_module(name)\n"
        "loaded = {'torch', 'transformers', 'matplotlib', 'polars', 'duckdb', 'scipy'} <= set(sys.modules)\n"
        "print(json.dumps([loaded, threading.active_count()]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [True, 1]


SWALLOWS = """
import os, signal
from disent_assets.run.stopping import stoppable

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

with stoppable(lambda: print("stopped", flush=True)) as stop:
    Deleted()
    print("went on", flush=True)
    while True:
        stop.check()
"""


def test_a_swallowed_signal_still_stops_a_command_silently():
    run = subprocess.run([sys.executable, "-c", SWALLOWS], capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (130, "went on\nstopped\n", "")


COMMAND = """
import multiprocessing, os, sys, time
from pathlib import Path

from disent_assets.run.stopping import stoppable
from disent_core.shards.processes import end_with_parent


def work(folder):
    os.setpgid(0, 0)
    end_with_parent()
    Path(folder, str(os.getpid())).touch()
    sum(range(10**12))  # holds the lock of the interpreter for an hour


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    if sys.argv[1] == "forkserver":
        context.set_forkserver_preload(["disent_assets.run.in_fork_server"])
    with stoppable(lambda: None):
        for _ in range(2):
            context.Process(target=work, args=(sys.argv[2],)).start()
        while True:
            time.sleep(1)
"""
SECONDS = 2.0


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that has ended and of which nobody has taken notice is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process with its parent")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_in_a_long_call_end_with_their_command(tmp_path, method, number):
    (tmp_path / "command.py").write_text(COMMAND)
    (tmp_path / "started").mkdir()
    command = subprocess.Popen([sys.executable, tmp_path / "command.py", method, tmp_path / "started"])
    workers: list[int] = []
    try:
        assert wait_for(lambda: len(list((tmp_path / "started").iterdir())) == 2, 60)
        workers = [int(file.name) for file in (tmp_path / "started").iterdir()]
        time.sleep(0.2)  # they are in the call
        command.send_signal(number)
        command.wait(SECONDS)
        assert wait_for(lambda: not any(map(is_running, workers)), SECONDS)
    finally:
        for pid in filter(is_running, [command.pid, *workers]):
            os.kill(pid, signal.SIGKILL)
        command.wait()


def test_a_worker_that_can_start_no_thread_ends_without_a_traceback(monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    monkeypatch.setattr(processes, "killed_with_parent", lambda: None)
    with pytest.raises(SystemExit):
        processes.end_with_parent()


def test_a_server_that_can_fork_no_worker_ends_without_a_traceback():
    program = "import disent_assets.run.in_fork_server; raise {}"
    for error, is_shown in (("BlockingIOError(11, 'no process')", False), ("OSError(5, 'a disk')", True)):
        done = subprocess.run(
            [sys.executable, "-c", program.format(error)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) == is_shown


def test_the_server_ignores_an_interrupt_while_it_loads():
    program = (
        "import disent_assets.run.in_fork_server, os, signal; os.kill(os.getpid(), signal.SIGINT); print('loaded')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "loaded\n", "")


@pytest.mark.parametrize(
    ("arguments", "has_warehouse", "is_started"),
    [
        (["--workers", "2"], False, True),
        (["--workers", "1"], False, False),
        (["--workers", "2"], True, False),
        (["corpora", "--workers", "2"], False, False),
    ],
)
def test_only_a_first_run_of_everything_starts_the_server_early(
    arguments, has_warehouse, is_started, tmp_path, monkeypatch
):
    started = []
    monkeypatch.setattr(fork_server, "start_fork_server", lambda: started.append(True))
    monkeypatch.setattr(fork_server, "usable_cores", lambda: 2)
    if has_warehouse:
        (tmp_path / "warehouse.duckdb").touch()
    variables = {"DISENT_HOME": str(tmp_path), "DISENT_CONFIG": str(tmp_path / "no.toml")}
    assert CliRunner().invoke(main, ["materialize", *arguments], env=variables).exit_code == 2
    assert bool(started) == is_started
