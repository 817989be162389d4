"""Kill steps and nodes of lineages on two nodes of Ray, and take their database away; `scale_faults.py` runs it.

Dagster begins a step that was lost again. A command that ends with an error, because a step was lost more often than it
is tried, is started again. In the end there must be all that an undisturbed lineage on this machine has, to the bit.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import disturbed_runs as bench
from made_cluster import Cluster, StepProcess, new_cluster, steps_of
from projects import Project

HEADS = 10
"""That are trained, each for a time of its own: as many steps that can be struck."""
_OTHERS = {f"dream_{number}": 3 + number for number in range(1, HEADS)}
CONFIG = bench.SMALLEST.replace('"dream"]', ", ".join(f'"{name}"' for name in ["dream", *_OTHERS]) + "]") + "\n".join(
    f'[methods.{name}]\nmethod = "dream"\nmax_epochs = {epochs}\ncheckpoint_seconds = 0.0'
    for name, epochs in _OTHERS.items()
)
STRIKES_OF_A_STEP = 3
"""Dagster begins a step five times, and may lose one by itself on a machine with other work."""
SECONDS = 4.0
"""Of the processor, that the process of a step of such a lineage takes, most of them for its start."""
EVERY = 5
"""Of so many kills, one is of a node."""
AWAY = (8.0, 120.0)
"""Seconds for which the database is away, in turn."""
TRIES = 4
"""Of a command."""


def kill(series: "Series", step: StepProcess, number: int) -> str:
    """Kill the process of a step, or the node on which it runs, which another one follows; returns what it was."""
    if number % EVERY or series.replacing.is_alive():
        os.kill(step.process, signal.SIGKILL)
        return "steps"
    series.replacing = Thread(target=_replace, args=(series.cluster, series.cluster.node_of(step.process)))
    series.replacing.start()  # steps on the other node are struck meanwhile
    return "nodes"


def _replace(cluster: Cluster, node: "subprocess.Popen[bytes]") -> None:
    assert cluster.nodes is not None
    cluster.nodes.kill(node)
    cluster.nodes.add()


def stop_database(series: "Series", step: StepProcess, number: int) -> str:
    """Take the database away while a step runs; returns for how long."""
    series.cluster.postgres.stop()
    time.sleep(AWAY[number % 2])
    series.cluster.postgres.start()
    return f"{AWAY[number % 2]:.0f} s"


Strike = Callable[["Series", StepProcess, int], str]
STRIKES: dict[str, Strike] = {"killed on Ray": kill, "Postgres away": stop_database}


@dataclass
class Series:
    """Lineages on one cluster, and what they must equal."""

    cluster: Cluster
    folder: Path
    chance: random.Random
    wanted: Project
    replacing: Thread = field(default_factory=Thread)

    def cause(self, kind: str, count: int) -> Iterator[str]:
        """Strike lineages until it was done so often; yields a line for people after each of them.

        Raises:
            AssertionError: if a lineage does not end like the undisturbed one.
        """
        done: Counter[str] = Counter()
        lineages = again = 0
        while done.total() < count:
            lineages += 1
            folder = self.folder / f"{kind} {lineages}".replace(" ", "-")
            folder.mkdir()
            project = bench.new_lineage(folder, CONFIG)
            self.cluster.postgres.empty()
            with (folder / "log").open("w+") as log:
                command = self.cluster.start(project, to=log)
                for step in self.chosen(project, command):
                    with suppress(ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
                        done[STRIKES[kind](self, step, done.total())] += 1
                    if done.total() == count:
                        break
                tries = 1
                while command.wait():
                    tries += 1
                    assert tries <= TRIES, f"{kind}: a command fails, see {folder}/log"
                    command = self.cluster.start(project, to=log)
            if self.replacing.is_alive():
                self.replacing.join()
            again += tries - 1
            assert_equal(bench._results(project), bench._results(self.wanted), f"{kind}, {folder}")
            counted = ", ".join(f"{name} {times}" for name, times in sorted(done.items()))
            yield f"{kind}: {counted} in {lineages} lineages, {again} commands started again"

    def chosen(self, project: Project, command: "subprocess.Popen[str]") -> Iterator[StepProcess]:
        """Processes of steps at random moments of their time, a few of each step, until the command ends."""
        moments: dict[int, float] = {}
        struck: Counter[str] = Counter()
        while command.poll() is None:
            for step in list(steps_of(project)):
                at = moments.setdefault(step.process, self.chance.uniform(0.0, SECONDS))
                if struck[step.step] < STRIKES_OF_A_STEP and bench.processor_seconds(iter([step.process])) >= at:
                    struck[step.step] += 1
                    yield step
            time.sleep(0.1)


def assert_equal(results: dict[str, str], wanted: dict[str, str], fault: str) -> None:
    """Compare all tables, weights and metrics; the history tells of commands that had to be started again."""
    other = {name for name in results | wanted if results.get(name) != wanted.get(name)} - {"history"}
    assert not other, f"{fault}: {len(other)} differences\n" + "\n".join(sorted(other)[:10])


def run(counts: dict[str, int], folder: Path, seed: int) -> Iterator[str]:
    """Cause so many faults of each kind; yields a line after each lineage."""
    (folder / "wanted").mkdir()
    wanted = bench.new_lineage(folder / "wanted", CONFIG)
    wanted.materialize()
    with new_cluster() as cluster:
        series = Series(cluster, folder, random.Random(seed), wanted)
        for kind, count in counts.items():
            yield from series.cause(kind, count)
