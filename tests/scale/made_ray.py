"""Nodes of Ray on this machine, in a network of their own, since Ray listens on all addresses."""

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
    """A network namespace with a loopback interface; it is gone when its one process ends."""

    def __init__(self) -> None:
        as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        ready, self.flags = "ip link set lo up && echo up && exec sleep infinity", ["--net", *as_root[:1]]
        self.holder = subprocess.Popen(
            ["unshare", "--net", *as_root, "sh", "-c", ready], stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n", "no network namespace can be made here"

    def command(self, *arguments: str | Path) -> list[str]:
        """The command that runs another one in this network."""
        return ["nsenter", "--target", str(self.holder.pid), *self.flags, *map(str, arguments)]

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()


class Nodes:
    """A head without processors for steps, and nodes of one processor each. Ends only what it has started."""

    def __init__(self, network: Network, folder: Path, environment: Mapping[str, str]) -> None:
        self.network, self.folder, self.environment = network, folder, environment
        self.started: list[subprocess.Popen[bytes]] = []
        head = ["--head", "--num-cpus=0", "--port=6379", "--dashboard-host=127.0.0.1", f"--temp-dir={folder}"]
        self.head = self._start(*head)

    @property
    def address(self) -> str:
        return "http://127.0.0.1:8265"

    def add(self) -> subprocess.Popen[bytes]:
        """Start a node; it joins a little later."""
        return self._start("--address=127.0.0.1:6379", "--num-cpus=1")

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        shared = ["--block", "--disable-usage-stats", "--object-store-memory=80000000", "--memory=100000000000"]
        command = self.network.command(BIN / "ray", "start", *arguments, *shared, "--node-ip-address=127.0.0.1")
        log = (self.folder.parent / f"ray-{len(self.started)}.log").open("ab")
        node = subprocess.Popen(command, env=dict(self.environment), stdout=log, stderr=log, start_new_session=True)
        self.started.append(node)
        return node

    def wait(self, count: int, seconds: float = 180) -> None:
        """Wait until the head answers and so many nodes have joined."""
        until = time.monotonic() + seconds
        ask = "import ray; ray.init('127.0.0.1:6379', log_to_driver=False); print(sum(n['Alive'] for n in ray.nodes()))"
        while time.monotonic() < until:
            command = self.network.command(sys.executable, "-c", ask)
            found = subprocess.run(command, env=dict(self.environment), capture_output=True, text=True, check=False)
            if found.stdout.strip() == str(count + 1):
                return
        raise TimeoutError(found.stderr)

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """Kill the raylet of a node, as if its machine were lost; the rest of the node ends by itself."""
        for process, name in processes_below(node.pid):
            if name == "raylet":
                os.kill(process, signal.SIGKILL)
        node.wait(timeout=60)

    def close(self) -> None:
        for node in reversed(self.started):
            for process, _ in processes_below(node.pid):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            node.kill()
            node.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def processes_below(process: int) -> list[tuple[int, str]]:
    """Id and name of every process that another one has started, and those that they have started."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    below, found = {process}, []
    rows = [
        (int(own), int(parent), name) for own, parent, name in (line.split(None, 2) for line in listed.splitlines())
    ]
    for own, parent, name in sorted(rows):  # by age, unless ids have begun anew
        if parent in below:
            below.add(own)
            found.append((own, name))
    return found
