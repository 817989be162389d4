"""Ray nodes on this machine, in their own network, since Ray listens on all addresses."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

BIN = Path(sys.executable).parent


class Network:
    """A network namespace with a loopback interface; it disappears when its only process ends."""

    def __init__(self) -> None:
        as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        ready, self.flags = "ip link set lo up && echo up && exec sleep infinity", ["--net", *as_root[:1]]
        self.holder = subprocess.Popen(
            ["unshare", "--net", *as_root, "sh", "-c", ready], stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n", "no network namespace can be made here"

    def command(self, *arguments: str | Path) -> list[str]:
        """Return the command that runs another one in this network."""
        return ["nsenter", "--target", str(self.holder.pid), *self.flags, *map(str, arguments)]

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()


class Nodes:
    """A head node without processors for steps, and nodes of one processor each. Ends only what it has started.

    Each has the folder `node_disk`, if given, on its own disk.
    """

    address = "http://127.0.0.1:8265"

    def __init__(
        self, network: Network, folder: Path, environment: Mapping[str, str], node_disk: Path | None = None
    ) -> None:
        self.network, self.folder, self.environment, self.node_disk = network, folder, dict(environment), node_disk
        self.started: list[subprocess.Popen[bytes]] = []
        self._start("--head", "--num-cpus=0", "--port=6379", "--dashboard-host=127.0.0.1", f"--temp-dir={folder}")

    def add(self) -> subprocess.Popen[bytes]:
        """Start a node; return when it has joined."""
        return self._start("--address=127.0.0.1:6379", "--num-cpus=1")

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a node, again if it gives up because its agent needs more than 15 s on a machine with other load."""
        before = self.alive()
        for _ in range(10):
            node = self._started(*arguments)
            until = time.monotonic() + 120
            while node.poll() is None and time.monotonic() < until and "raylet" not in ended(node.pid):
                if self.alive() > before:
                    return node
                time.sleep(1)
            end(node)
        raise TimeoutError(f"no node can be started; see {self.folder.parent}/ray-*.log")

    def _started(self, *arguments: str) -> subprocess.Popen[bytes]:
        number = len(self.started)
        agents = ("dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent", "metrics-export")
        ports = [f"--{name}-port={52400 + 10 * number + place}" for place, name in enumerate(agents)]
        ports += [f"--min-worker-port={20000 + 500 * number}", f"--max-worker-port={20499 + 500 * number}"]
        size = ["--object-store-memory=80000000", "--memory=100000000000"]
        shared = ["--block", "--disable-usage-stats", "--node-ip-address=127.0.0.1", *size, *ports]
        log = (self.folder.parent / f"ray-{number}.log").open("ab")
        on_tmpfs = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', self.node_disk]
        apart = [] if self.node_disk is None else on_tmpfs
        command = self.network.command(*apart, BIN / "ray", "start", *arguments, *shared)
        node = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self.started.append(node)
        return node

    def alive(self) -> int:
        """Return how many nodes have joined; 0 while there is no head."""
        ask = self.network.command("curl", "-s", f"{self.address}/nodes?view=summary")
        return subprocess.run(ask, capture_output=True, text=True, check=False).stdout.count('"ALIVE"')

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """Kill everything on a node, as if its machine were lost; wait until Ray notices."""
        before = self.alive()
        end(node)
        until = time.monotonic() + 300
        while self.alive() >= before and time.monotonic() < until:  # else `add` could not tell when a new node joins
            time.sleep(1)

    def close(self) -> None:
        for node in reversed(self.started):
            end(node)
        shutil.rmtree(self.folder, ignore_errors=True)


def end(node: subprocess.Popen[bytes]) -> None:
    """Kill a node, or a daemon, with all processes that it has started."""
    for process, _, _ in processes_below(node.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    node.kill()
    node.wait()


def ended(process: int) -> set[str]:
    """Return the names of the ended processes that a process had started."""
    return {name for _, name, state in processes_below(process) if state.startswith("Z")}


def processes_below(process: int) -> list[tuple[int, str, str]]:
    """Return id, name and state of every descendant of a process."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=True)
    rows = [(int(row[0]), int(row[1]), *row[2:]) for row in (line.split() for line in listed.stdout.splitlines())]
    below, children = {process}, []
    while more := [row for row in rows if row[1] in below and row[0] not in below]:
        below |= {row[0] for row in more}
        children += [(child, name, state) for child, _, state, name, *_ in more]
    return children
