"""A one-node Slurm on this machine, in its own network: munge, the controller and the node's daemon."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from made_ray import Network, end

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
CONFIG = """\
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
NodeName=localhost CPUs={cpus} RealMemory=64000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Return the Slurm programs that are not installed here."""
    return [name for name in DAEMONS if shutil.which(name, path=_path()) is None]


def _path() -> str:
    return os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


class Slurm:
    """Runs as root in `folder`; ends only what it has started."""

    def __init__(self, network: Network, folder: Path, cpus: int) -> None:
        self.network, self.folder = network, folder
        self.environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(folder / "slurm.conf")}
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, cpus=cpus), encoding="utf-8")
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = {"key-file": key, "socket": folder / "munge.socket", "pid-file": folder / "munge.pid",
                 "log-file": folder / "munge.log", "seed-file": folder / "munge.seed"}  # fmt: skip
        self.started: list[subprocess.Popen[bytes]] = []
        self.options = [f"--{name}={path}" for name, path in files.items()]

    def start(self) -> None:
        """Start the daemons; return when the node is idle."""
        # Slurm wants an address besides loopback, of the same kind as this machine's.
        subprocess.run(self.network.command("ip", "address", "add", "10.99.0.1/32", "dev", "lo"), check=True)
        self.started.append(self._start("munged", "--foreground", "--force", *self.options))
        self._wait((self.folder / "munge.socket").exists)
        self.started += [self._start("slurmctld", "-D", "-i"), self._start("slurmd", "-D", "-N", "localhost")]
        self._wait(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{command[0]}.out").open("wb")
        return subprocess.Popen(self.network.command(*command), env=self.environment, stdout=log, stderr=log)

    def _wait(self, is_ready) -> None:
        until = time.monotonic() + 60
        while not is_ready():
            if time.monotonic() > until:
                written = [path.read_text(errors="replace")[-800:] for path in self.folder.glob("*.out")]
                raise TimeoutError("".join(written))
            time.sleep(0.5)

    def ask(self, *command: str | Path, environment: Mapping[str, str] | None = None) -> str:
        """Return the output of a Slurm command."""
        ran = subprocess.run(
            self.network.command(*command), env={**self.environment, **(environment or {})}, cwd=self.folder,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return ran.stdout or ran.stderr

    def close(self) -> None:
        self.ask("scancel", "--signal=KILL", "--full", "--user=root")
        for daemon in reversed(self.started):
            end(daemon)
