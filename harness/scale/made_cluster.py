"""A database, and Ray nodes in their own network, on which projects are materialised."""

import base64
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from made_postgres import Postgres
from made_ray import BIN, Network, Nodes
from projects import Project

_ARGUMENTS = "DAGSTER_COMPRESSED_EXECUTE_STEP_ARGS"


@dataclass(frozen=True)
class StepProcess:
    """A process that Ray has started for a step of a Dagster run; `step` names both."""

    process: int
    step: str


@dataclass
class Cluster:
    """Shared by all runs; the first command starts the nodes, each with its own `node_disk`."""

    postgres: Postgres
    network: Network
    folder: Path
    nodes: Nodes | None = None
    node_disk: Path | None = None

    def environment(self, project: Project) -> dict[str, str]:
        """Return the environment of a command, in which `materialize` runs its steps on Ray."""
        return {
            **os.environ,
            **project.environment,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "DISENT_POSTGRES": self.postgres.address,
            "DISENT_PROFILE": "ray",
            "DISENT_WORKERS": "4",
            "RAY_ADDRESS": Nodes.address,
        }

    def start(self, project: Project, *arguments: str, to: IO[str] | int = subprocess.PIPE) -> "subprocess.Popen[str]":
        """Start `disent materialize` in the network of the two nodes."""
        environment = self.environment(project)
        if self.nodes is None:
            self.nodes = Nodes(self.network, self.folder / "ray", environment, self.node_disk)
            self.nodes.add()
            self.nodes.add()
        command = self.network.command(sys.executable, "-m", "disent_assets.cli", "materialize", *arguments)
        return subprocess.Popen(command, env=environment, stdout=to, stderr=subprocess.STDOUT, text=True)

    def node_of(self, process: int) -> "subprocess.Popen[bytes]":
        """Return the node that a process descends from."""
        assert self.nodes is not None
        above = {process}
        while process > 1:
            process = int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
            above.add(process)
        return next(node for node in self.nodes.started if node.pid in above)

    def close(self) -> None:
        """Stop nodes, network and database."""
        if self.nodes is not None:
            self.nodes.close()
        self.network.close()
        self.postgres.stop()


@contextmanager
def new_cluster() -> Iterator[Cluster]:
    """Start a cluster with a new database, and stop it with the context."""
    with TemporaryDirectory(prefix="ray") as folder:  # socket paths must be short
        Path(folder).chmod(0o755)
        postgres = Postgres(Path(folder) / "postgres")
        postgres.make()
        postgres.start()
        cluster = Cluster(postgres, Network(), Path(folder))
        try:
            yield cluster
        finally:
            cluster.close()


def steps_of(project: Project) -> Iterator[StepProcess]:
    """Yield the processes that Ray has started with the project's home in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if b"execute_step" not in command or command[0].endswith(b"sh"):
                continue
            values = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        settings = dict(value.split("=", 1) for value in values if "=" in value)
        if settings.get("DISENT_HOME") == project.environment["DISENT_HOME"]:
            arguments = zlib.decompress(base64.b64decode(settings[_ARGUMENTS])).decode()
            match = re.search(r'"(?:pipeline_)?run_id": ?"([0-9a-f-]+)"', arguments)
            assert match is not None, arguments
            yield StepProcess(int(folder.name), f"{match[1]} {settings['DAGSTER_RUN_STEP_KEY']}")
