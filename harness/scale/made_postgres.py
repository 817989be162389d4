"""A Postgres server in a folder, listening only on a socket there."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

USER = "postgres"


@dataclass(frozen=True)
class Postgres:
    """A server with its files and socket in `folder`; a socket's path has at most 107 characters."""

    folder: Path

    @property
    def address(self) -> str:
        return f"postgresql+psycopg2://{USER}@/postgres?host={self.folder}"

    def make(self) -> None:
        self.folder.mkdir(parents=True)
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self.folder, USER)
        self._run("initdb", "--auth=trust", "--no-sync", f"--username={USER}")

    def start(self) -> None:
        self._run("pg_ctl", "start", "--wait", f"--options=-k {self.folder} -c listen_addresses='' -c fsync=off")

    def stop(self) -> None:
        """Stop the server at once, with every connection."""
        self._run("pg_ctl", "stop", "--mode=immediate")

    def empty(self) -> None:
        """Start over without any runs."""
        self.stop()
        shutil.rmtree(self.folder)
        self.make()
        self.start()

    def is_up(self) -> bool:
        asked = ["pg_isready", "--quiet", f"--host={self.folder}", f"--username={USER}"]
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        as_other = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        command = [*as_other, program, "-D", str(self.folder / "data"), *arguments]
        log = (self.folder / "log").open("ab")
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, cwd="/")
