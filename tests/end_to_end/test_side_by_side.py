"""Steps in worker processes and commands side by side: equal results, nothing made twice, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from projects import Project, counts

from disent_assets.settings.instance import FACE, open_instance
from disent_core.storage.files import write_text
from disent_core.storage.tables import content_of

pytestmark = pytest.mark.end_to_end
STOPPED = "stopped; results made so far are kept; run the command again to go on\n"


BLANK = """
from projects import blank_pictures
from disent_assets.cli import main
with blank_pictures():
    main()
"""


def start(project: Project, workers: int, *selection: str) -> "subprocess.Popen[str]":
    """Start a run, in a process group of its own as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-c", BLANK, "materialize", *selection, "--workers", str(workers)],
        env=os.environ | project.environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def in_training(project: Project, workers: int) -> "subprocess.Popen[str]":
    """Make a finished project train all its heads for ever, and wait until it does."""
    for method in ("dream", "fmda"):
        project.configure(f"[methods.{method}]\n", f"[methods.{method}]\npatience = 1000000\ncheckpoint_seconds = 0\n")
    for epochs in ("max_epochs = 6", "max_epochs = 3"):
        project.configure(epochs, "max_epochs = 1000000")
    command = start(project, workers, "key:heads/*")
    assert command.stderr is not None
    checkpoints = project.home / "checkpoints" / "tiny"
    wait_until(lambda: any(checkpoints.rglob("*.safetensors")) or command.poll() is not None)
    assert command.poll() is None, command.stderr.read()
    return command


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def processes_of(project: Project) -> list[int]:
    """Living processes that have the home of the project in their environment."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_of_project = f"DISENT_HOME={project.home}\0" in (folder / "environ").read_text(errors="replace")
            if is_of_project and "\nState:\tZ" not in (folder / "status").read_text():
                processes.append(int(folder.name))
        except OSError:
            continue
    return processes


def is_training(process: int) -> bool:
    """Whether a worker computes: it waits for its command otherwise."""
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    command = Path(f"/proc/{process}/cmdline").read_bytes()
    return b"forkserver" in command and stat[0] == "R"


def temporary_files(project: Project) -> list[Path]:
    return [path for path in project.home.rglob("*.tmp*") if "dagster" not in path.parts]


def statuses(project: Project) -> set[dg.DagsterRunStatus]:
    with project.events() as events:
        return {run.status for run in events.instance.get_runs(dg.RunsFilter(tags=FACE))}


def test_two_runs_at_once_with_workers_share_the_work_and_make_what_one_process_makes(fresh, story):
    methods = ["raw", "dream"]  # those with the longest and without a training
    fresh.configure('["raw", "dream", "fmda", "fmda_softmax"]', json.dumps(methods))
    runs = [start(fresh, 2), start(fresh, 1)]
    outputs = [run.communicate(timeout=500) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    summaries = [counts(out) for out, _ in outputs]
    (costs,) = fresh.ask("select sum(steps) as steps, sum(texts) as encoded from step_costs")
    assert {what: sum(summary[what] for summary in summaries) for what in costs} == costs
    weights = story.project.weights()
    assert fresh.weights() == {head: weights[head] for head in ("tiny/dream/en-de", "tiny/dream/en-ja")}
    columns = f"select * exclude (as_of) from metrics where method in {(*methods,)} order by all"
    assert fresh.ask(columns) == story.project.ask(columns)
    folders = [project.home / "tables" / "evaluation" / "metrics" / "tiny" for project in (fresh, story.project)]
    made, before = (
        {
            str(path.relative_to(folder)): content_of(path)
            for name in methods
            for path in (folder / name).glob("*.parquet")
        }
        for folder in folders
    )
    assert made == before
    assert not [line for _, err in outputs for line in err.splitlines() if "locked" in line or "Traceback" in line]
    assert processes_of(fresh) == []


def assert_stopped(project: Project, command: "subprocess.Popen[str]", number: signal.Signals, code: int) -> str:
    """Stop a command by a signal, assert that nothing is left of it, and return what it printed."""
    os.killpg(command.pid, number)
    out, err = command.communicate(timeout=60)
    assert command.returncode == code
    assert err.endswith(STOPPED)
    assert "Traceback" not in err
    wait_until(lambda: processes_of(project) == [])
    for left in temporary_files(project):  # of a process that was killed because it had not stopped within a second
        write_text(left.parent / "next", "the next file of the folder removes them")
    assert temporary_files(project) == []
    with open_instance(project.home):
        pass
    assert not statuses(project) & {dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED}
    return out


def test_a_killed_worker_costs_its_step_only_and_a_signal_stops_the_others_with_one_line(copied):
    command = in_training(copied, 2)
    wait_until(lambda: any(map(is_training, processes_of(copied))))
    worker = next(process for process in processes_of(copied) if is_training(process))
    os.kill(worker, signal.SIGKILL)
    assert command.stderr is not None
    line = next(line for line in command.stderr if "failed" in line)
    assert re.match(r"heads/tiny/\w+_head \[en-\w\w\]: failed", line)
    assert any(line.endswith("left)\n") and "begins" in line for line in command.stderr)  # another one has its place
    assert "memory was full" not in assert_stopped(copied, command, signal.SIGTERM, 143)


def test_an_interrupt_stops_a_command_without_workers_too(copied):
    assert_stopped(copied, in_training(copied, 1), signal.SIGINT, 130)


def test_workers_end_with_a_killed_command_and_their_runs_are_ended_by_the_next(copied):
    command = in_training(copied, 2)
    os.kill(command.pid, signal.SIGKILL)
    command.communicate(timeout=60)
    wait_until(lambda: processes_of(copied) == [])
    assert dg.DagsterRunStatus.STARTED in statuses(copied)
    with open_instance(copied.home):
        pass
    assert statuses(copied) <= {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE}
