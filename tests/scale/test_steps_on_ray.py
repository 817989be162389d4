"""A lineage on two nodes of Ray with Postgres: what one machine makes, also if a node or a step is killed."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_cluster import Cluster, new_cluster, steps_of
from projects import Project, new_project

from disent_core.storage.tables import content_of

pytestmark = pytest.mark.timeout(3600)  # Ray takes minutes to start on a machine with other work
HEAD = ("key:heads/tiny/dream_head", "--partition", "en-de")
EPOCHS = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with new_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Project:
    """Two languages, a head and its comparison, made on this machine."""
    project = new_project(tmp_path_factory.mktemp("local"))
    project.configure('languages = ["en-US", "de-DE", "ja-JP"]', 'languages = ["en-US", "de-DE"]')
    project.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de"]')
    project.configure('methods = ["raw", "dream", "fmda", "fmda_softmax"]', 'methods = ["raw", "dream"]')
    project.materialize()
    return project


def contents(project: Project) -> dict[str, str | None]:
    """Fingerprint of the rows of every table, and of the weights of every head; of embeddings, that of the file."""
    tables, files = project.home / "tables", project.results()
    of_rows = {
        name: files[f"tables/{name}"] if name.startswith("embeddings/") else content_of(tables / name)
        for name in (path.relative_to(tables).as_posix() for path in sorted(tables.rglob("*.parquet")))
        if not name.startswith("warehouse/")  # what is recorded of runs has the time
    }
    return {**of_rows, **project.weights()}


def emptied(project: Project, folder: Path) -> Project:
    """A copy without results."""
    copy = project.copy(folder)
    (copy.home).rename(folder / "away")
    return copy


def test_a_lineage_on_two_nodes_equals_one_on_a_single_machine(cluster, local, tmp_path):
    remote = emptied(local, tmp_path)
    done = cluster.start(remote)
    out, _ = done.communicate(timeout=3000)
    assert done.returncode == 0, out
    assert contents(remote) == contents(local)
    metrics = "select * exclude (as_of) from metrics order by all"
    assert remote.ask(metrics) == local.ask(metrics)


# --- kills ------------------------------------------------------------------------------------------------


def lengthen(project: Project) -> None:
    """A training long enough to be killed, with a checkpoint after every epoch."""
    long = f"[methods.dream]\nmax_epochs = {EPOCHS}\npatience = {EPOCHS}\ncheckpoint_seconds = 0"
    project.configure("[methods.dream]\nmax_epochs = 6", long)


@pytest.fixture(scope="module")
def undisturbed(local, tmp_path_factory) -> Project:
    project = local.copy(tmp_path_factory.mktemp("undisturbed"))
    lengthen(project)
    project.materialize(*HEAD)
    return project


def wait_for_checkpoint(project: Project, command: "subprocess.Popen[str]", seconds: float = 600) -> None:
    checkpoint, until = project.workspace.checkpoint("tiny", "dream", "en-de"), time.monotonic() + seconds
    while not checkpoint.is_file():
        assert command.poll() is None, command.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("what", ["step", "node"])
def test_a_training_whose_step_or_node_is_killed_ends_with_the_weights_of_an_undisturbed_one(
    cluster, local, undisturbed, tmp_path, what
):
    project = local.copy(tmp_path)
    (project.home / "dagster" / "dagster.yaml").unlink()  # of the profile local
    shutil.rmtree(project.home / "heads")  # the database may know one from another test
    lengthen(project)
    command = cluster.start(project, *HEAD)
    wait_for_checkpoint(project, command)
    (step,) = steps_of(project)
    if what == "step":
        os.kill(step.process, signal.SIGKILL)
    else:
        cluster.nodes.kill(cluster.node_of(step.process))
        cluster.nodes.add()
    out, _ = command.communicate(timeout=1500)
    assert command.returncode == 0, out
    assert "it will be tried again" in out
    assert project.weights() == undisturbed.weights()
