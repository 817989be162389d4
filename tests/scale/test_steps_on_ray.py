"""A lineage on two nodes of Ray with Postgres: what one machine makes, also if a node or a step is killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from made_postgres import Postgres
from made_ray import BIN, Network, Nodes
from projects import Project, new_project

from disent_core.storage.tables import content_of

HEAD = ("key:heads/tiny/dream_head", "--partition", "en-de")
EPOCHS = 300


@dataclass
class Cluster:
    """A database, and nodes in a network of their own."""

    postgres: Postgres
    network: Network
    folder: Path
    nodes: Nodes | None = field(default=None)

    def environment(self, project: Project) -> dict[str, str]:
        return {
            **os.environ,
            **project.environment,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "DISENT_POSTGRES": self.postgres.address,
            "DISENT_PROFILE": "ray",
            "DISENT_WORKERS": "2",
            "RAY_ADDRESS": Nodes.address,
        }

    def start(self, project: Project, *arguments: str) -> "subprocess.Popen[str]":
        """Start `disent materialize` in the network of the nodes, of which there are two."""
        environment = self.environment(project)
        if self.nodes is None:
            self.nodes = Nodes(self.network, self.folder / "ray", environment)
            self.nodes.add()
            self.nodes.add()
        command = self.network.command(sys.executable, "-m", "disent_assets.cli", "materialize", *arguments)
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def close(self) -> None:
        if self.nodes is not None:
            self.nodes.close()
        self.network.close()
        self.postgres.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with TemporaryDirectory(prefix="ray") as folder:  # paths of sockets are short
        Path(folder).chmod(0o755)
        postgres = Postgres(Path(folder) / "postgres")
        postgres.make()
        postgres.start()
        found = Cluster(postgres, Network(), Path(folder))
        yield found
        found.close()


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


def test_a_lineage_on_two_nodes_is_that_of_one_machine(cluster, local, tmp_path):
    remote = emptied(local, tmp_path)
    done = cluster.start(remote)
    out, _ = done.communicate(timeout=3000)
    assert done.returncode == 0, out
    assert contents(remote) == contents(local)
    metrics = "select * exclude (created_at) from metrics order by all"
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


def training_process(project: Project) -> int:
    """The process that trains, which Ray has started with the home of the project in its environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            is_of_project = f"DISENT_HOME={project.home}\0" in (folder / "environ").read_text(errors="replace")
            if b"execute_step" in command and is_of_project and not command[0].endswith(b"sh"):
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError("nothing trains")


def wait_for_checkpoint(project: Project, command: "subprocess.Popen[str]", seconds: float = 600) -> None:
    checkpoint, until = project.workspace.checkpoint("tiny", "dream", "en-de"), time.monotonic() + seconds
    while not checkpoint.is_file():
        assert command.poll() is None, command.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)


def node_of(cluster: Cluster, process: int) -> "subprocess.Popen[bytes]":
    """The node below which a process runs."""
    assert cluster.nodes is not None
    above = {process}
    while process > 1:
        process = int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
        above.add(process)
    return next(node for node in cluster.nodes.started if node.pid in above)


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
    process = training_process(project)
    if what == "step":
        os.kill(process, signal.SIGKILL)
    else:
        cluster.nodes.kill(node_of(cluster, process))
        cluster.nodes.add()
    out, _ = command.communicate(timeout=1500)
    assert command.returncode == 0, out
    assert "it is tried again" in out
    assert project.weights() == undisturbed.weights()
