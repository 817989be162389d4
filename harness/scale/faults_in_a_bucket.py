"""Kill lineages whose results are in a bucket, and break their requests to the store; `scale_faults.py` runs it.

What the bucket has in the end, fetched into an empty folder, must be the results of an undisturbed lineage in a folder,
to the bit.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import disturbed_runs as bench
import faults
from projects import Project
from remote_projects import Fetched, RemoteProject
from stores import Fault, Proxy, busy, cut, cut_upload, environment, lost_answer, make_bucket, moto, through

TRIES = 5
"""Of a command, whose step fails if a request was broken more often than it is tried."""


@contextmanager
def bucket() -> Iterator[tuple[str, str]]:
    """A store with a bucket, which this process uses: its own address and that of the bucket."""
    with moto() as endpoint:
        os.environ |= environment(endpoint)
        yield endpoint, make_bucket(endpoint, f"faults-{uuid.uuid4().hex}")


def difference(project: RemoteProject, wanted: Mapping[str, str]) -> set[str]:
    """Names of what the bucket of a project has otherwise."""
    fetched = Fetched(project.folder, project.address)
    fetched.fetch()
    found = bench._results(fetched)
    return {name for name in found | wanted if found.get(name) != wanted.get(name)}


# --- kills ------------------------------------------------------------------------------------------------


@dataclass
class BucketBench(bench.Bench):
    """Disturbed lineages are in a bucket, undisturbed ones in a folder.

    A killed lineage goes on here or, one time in four at its end, on another machine.
    """

    address: str = ""

    def fresh(self) -> tuple[Project, Project]:
        project, wanted = super().fresh()
        return RemoteProject(project.folder, f"{self.address}/{uuid.uuid4().hex}"), wanted

    def stale(self) -> tuple[Project, Project]:
        project, _ = self.fresh()
        self.run(project)
        bench.edit(project)
        return project, self.edited

    def check(self, project: Project, wanted: Project, fault: str, *, with_history: bool = False) -> None:
        assert isinstance(project, RemoteProject)
        if self.chance.random() < 0.25:
            shutil.rmtree(project.home)
        self.run(project)
        assert bench.unfinished_runs(project) == [], f"{fault}: runs that have no end"
        recorded = json.loads(bench._record_of(wanted).read_text(encoding="utf-8"))

        def compare() -> None:
            other = difference(project, recorded) - (set() if with_history else {"history"})
            assert not other, f"{fault}: {len(other)} differences\n" + "\n".join(sorted(other)[:10])

        assert bench.in_a_process(compare), fault


def kill(count: int, seed: int) -> None:
    """Send so many signals, and print their outcomes, as `harness/faults.py` does.

    Raises:
        AssertionError: if a lineage does not end like the undisturbed one.
    """
    with bucket() as (_, address):
        faults.Bench = partial(BucketBench, address=address)
        faults.run({"kills": count}, seed)


# --- broken requests --------------------------------------------------------------------------------------

KINDS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "503s": (busy, ("GET", "HEAD", "PUT", "DELETE")),
    "uploads cut": (cut_upload, ("PUT",)),
    "answers cut": (cut, ("GET",)),
    "answers lost to writes that succeeded": (lost_answer, ("PUT",)),
}
SHARE = 0.2
"""Of all requests are broken."""


@dataclass
class Breaker:
    """Breaks random requests, each kind so often, and counts."""

    chance: random.Random
    most: int
    met: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: BaseHTTPRequestHandler) -> Fault:
        kinds = [name for name, (_, methods) in KINDS.items() if request.command in methods]
        left = [name for name in kinds if self.met[name] < self.most]
        if not left or self.chance.random() > SHARE:
            return through
        name = min(left, key=lambda one: self.met[one])
        self.met[name] += 1
        return KINDS[name][0]


def break_requests(count: int, folder: Path, seed: int) -> str:
    """Break so many requests of each kind; returns a line for people.

    Raises:
        AssertionError: if a lineage does not end like the undisturbed one.
    """
    for name in ("wanted", "found"):
        (folder / name).mkdir()
    local = bench.new_lineage(folder / "wanted", bench.SMALLEST)
    local.materialize()
    wanted, breaker = bench._results(local), Breaker(random.Random(seed), count)
    lineages = again = 0
    with bucket() as (endpoint, address), Proxy(endpoint, breaker) as proxy:
        while min(breaker.met[name] for name in KINDS) < count:
            lineages += 1
            (place := folder / "found" / str(lineages)).mkdir()
            project = RemoteProject(bench.new_lineage(place, bench.SMALLEST).folder, f"{address}/{lineages}")
            again += _materialize(project, proxy) - 1
            other = difference(project, wanted) - {"history"}  # which tells of commands that were started again
            assert not other, f"{place}: {len(other)} differences\n" + "\n".join(sorted(other)[:10])
    told = ", ".join(f"{breaker.met[name]} {name}" for name in KINDS)
    return f"requests broken: {told} in {lineages} lineages, {again} commands started again"


def _materialize(project: RemoteProject, proxy: Proxy) -> int:
    """Run a project to its end; returns how often its command was started."""
    own = {**os.environ, **project.environment, **environment(proxy.address)}
    command = [sys.executable, "-m", "disent_assets.cli", "materialize"]
    for tries in range(1, TRIES + 1):
        ran = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            return tries
        assert "Traceback" not in ran.stdout + ran.stderr, ran.stdout + ran.stderr
    raise AssertionError(f"{TRIES} commands have failed:\n{ran.stdout}{ran.stderr}")
