"""Kill lineages with results in a bucket, and break their requests to the store; `scale_faults.py` runs it.

The bucket's final contents, fetched into an empty folder, must equal the results of an undisturbed lineage in a folder,
to the bit.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from threading import Event, Thread

import disturbed_runs as bench
import faults
from projects import Project
from remote_projects import Fetched, RemoteProject
from stores import Fault, Proxy, busy, cut, cut_upload, environment, gone, lost_answer, make_bucket, moto, through

TRIES = 5
"""Most tries of a command: a step fails if a request is broken more often than it is retried."""


@contextmanager
def bucket() -> Iterator[tuple[str, str]]:
    """Run a store with a bucket for this process; yield the addresses of the store and the bucket."""
    with moto() as endpoint:
        os.environ |= environment(endpoint)
        yield endpoint, make_bucket(endpoint, f"faults-{uuid.uuid4().hex}")


def results_in_bucket(project: RemoteProject) -> dict[str, str]:
    """Return the results in a project's bucket, by name."""
    fetched = Fetched(project.folder, project.address)
    fetched.fetch()
    return bench._results(fetched)


# --- kills ------------------------------------------------------------------------------------------------


@dataclass
class BucketBench(bench.Bench):
    """Keeps disturbed lineages in a bucket, undisturbed ones in a folder.

    A killed lineage goes on here or, for its last run, one time in four on another machine.
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
            bench.require_equal(results_in_bucket(project), recorded, fault, with_history=with_history)

        assert bench.in_a_process(compare), fault


def kill(count: int, seed: int) -> None:
    """Send `count` signals and print their outcomes, as `harness/faults.py` does.

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
"""Share of the requests to break."""


@dataclass
class Breaker:
    """Breaks random requests, up to `most` of each kind, and counts them."""

    chance: random.Random
    most: int
    met: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: BaseHTTPRequestHandler) -> Fault:
        kinds = [name for name, (_, methods) in KINDS.items() if request.command in methods]
        left = [name for name in kinds if self.met[name] < self.most]
        if not left or self.chance.random() > SHARE:
            return through
        name = min(left, key=lambda kind: self.met[kind])
        self.met[name] += 1
        return KINDS[name][0]


def break_requests(most: int, folder: Path, seed: int) -> str:
    """Break `most` requests of each kind; return a line for people.

    Raises:
        AssertionError: if a lineage does not end like the undisturbed one.
    """
    breaker = Breaker(random.Random(seed), most)
    lineages = again = 0
    for project, proxy, compare in _lineages(folder, breaker):
        lineages += 1
        again += _materialize(project, proxy) - 1
        compare()
        if min(breaker.met[name] for name in KINDS) >= most:
            break
    counted = ", ".join(f"{breaker.met[name]} {name}" for name in KINDS)
    return f"requests broken: {counted} in {lineages} lineages, {again} commands started again"


def take_store_away(seconds: Sequence[float], folder: Path, seed: int) -> str:
    """For each length, close all connections to the store, or answer all with 503, at a random moment of a lineage.

    Raises:
        AssertionError: if a command fails, or a lineage does not end like the undisturbed one.
    """
    chance, waited = random.Random(seed), []
    outages = [(fault, length) for length in seconds for fault in (gone, busy)]
    for (fault, length), (project, proxy, compare) in zip(outages, _lineages(folder, lambda _: through), strict=False):
        began = Event()

        def strike(fault: Fault = fault, length: float = length, proxy: Proxy = proxy, began: Event = began) -> None:
            began.wait()
            time.sleep(chance.uniform(0.0, 8.0))
            with proxy.away(fault, length):
                pass

        def first(request: BaseHTTPRequestHandler, began: Event = began) -> Fault:
            if request.command == "PUT" and "tables/" in request.path:  # the command has reached the store
                began.set()
            return through

        proxy.usual = first
        striker = Thread(target=strike)
        striker.start()
        tries = _materialize(project, proxy, lines := [])
        striker.join()
        compare()
        assert tries == 1, f"{tries} commands for an outage of {length} s"
        waited += [line for line in lines if "does not answer: waiting" in line][:1]
    counted = ", ".join(f"{length:g} s" for length in seconds)
    return (
        f"stores away, each closed and with 503, for {counted}: no command failed, {len(waited)} noticed it and waited"
    )


def _lineages(
    folder: Path, usual: Callable[[BaseHTTPRequestHandler], Fault]
) -> Iterator[tuple[RemoteProject, Proxy, Callable[[], None]]]:
    """Yield new lineages in a bucket behind a proxy, each with a comparison with an undisturbed one in a folder."""
    (folder / "wanted").mkdir()
    local = bench.new_lineage(folder / "wanted", bench.SMALLEST)
    local.materialize()
    wanted = bench._results(local)
    with bucket() as (endpoint, address), Proxy(endpoint, usual) as proxy:
        for number in count():
            (place := folder / "found" / str(number)).mkdir(parents=True)
            project = RemoteProject(bench.new_lineage(place, bench.SMALLEST).folder, f"{address}/{number}")

            def compare(project: RemoteProject = project, place: Path = place) -> None:
                bench.require_equal(results_in_bucket(project), wanted, str(place))

            yield project, proxy, compare


def _materialize(project: RemoteProject, proxy: Proxy, lines: list[str] | None = None) -> int:
    """Run a project to its end; return how often its command was started, and add its output to `lines`."""
    environment_of_run = {**os.environ, **project.environment, **environment(proxy.address)}
    command = [sys.executable, "-m", "disent_assets.cli", "materialize"]
    for tries in range(1, TRIES + 1):
        ran = subprocess.run(command, env=environment_of_run, capture_output=True, text=True, check=False)
        if lines is not None:
            lines += (ran.stdout + ran.stderr).splitlines()
        if ran.returncode == 0:
            return tries
        assert "Traceback" not in ran.stdout + ran.stderr, ran.stdout + ran.stderr
    raise AssertionError(f"{TRIES} commands have failed:\n{ran.stdout}{ran.stderr}")
