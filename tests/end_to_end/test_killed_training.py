"""A killed training resumes from its checkpoint and ends with the same weights."""

import fcntl
import os
import signal
import subprocess
import sys
import time

import dagster as dg
import pytest
from projects import Project

import disent_core.training.stacked
from disent_assets.settings.instance import FACE, open_instance

pytestmark = pytest.mark.end_to_end
EPOCHS = 100
HEAD = ("materialize", "key:heads/tiny/dream_head", "--partition", "en-de")


def lengthen(project: Project) -> None:
    """Much longer, with a checkpoint after every epoch."""
    long = f"[methods.dream]\nmax_epochs = {EPOCHS}\npatience = {EPOCHS}\ncheckpoint_seconds = 0"
    project.configure("[methods.dream]\nmax_epochs = 6", long)


def kill_in_training(project: Project) -> None:
    """Start the command in a process of its own and kill that as soon as there is a checkpoint."""
    checkpoint = project.workspace.checkpoint("tiny", "dream", "en-de")
    process = subprocess.Popen(
        [sys.executable, "-c", "from disent_assets.cli import main; main()", *HEAD],
        env=os.environ | project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not checkpoint.is_file():
        assert process.poll() is None, "the training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_a_killed_training_is_ended_and_goes_on_to_the_weights_of_an_undisturbed_one(finished, tmp_path, monkeypatch):
    killed, undisturbed = (finished.copy(tmp_path / name) for name in ("killed", "undisturbed"))
    for project in (killed, undisturbed):
        lengthen(project)
    earlier = killed.weights()
    kill_in_training(killed)
    assert killed.weights() == earlier
    with (killed.home / "dagster" / "processes.lock").open() as another:  # a process of its kind lives
        fcntl.flock(another, fcntl.LOCK_SH)
        opened(killed)
        assert last_run(killed) == dg.DagsterRunStatus.STARTED
    opened(killed)
    assert last_run(killed) == dg.DagsterRunStatus.FAILURE

    computed = []
    original = disent_core.training.stacked._one_epoch
    monkeypatch.setattr(disent_core.training.stacked, "_one_epoch", lambda *args: computed.append(1) or original(*args))
    killed.materialize(*HEAD[1:])
    assert 0 < len(computed) < EPOCHS
    undisturbed.materialize(*HEAD[1:])
    assert killed.weights() == undisturbed.weights() != earlier
    assert not killed.workspace.checkpoint("tiny", "dream", "en-de").exists()


def opened(project: Project) -> None:
    with open_instance(project.home):
        pass


def last_run(project: Project) -> dg.DagsterRunStatus:
    with project.events() as events:
        [run] = events.instance.get_runs(dg.RunsFilter(tags=FACE), limit=1)
        return run.status
