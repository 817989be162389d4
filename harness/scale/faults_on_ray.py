"""Kill steps and nodes of lineages on two Ray nodes, and stop their database; `scale_faults.py` runs it.

Dagster restarts a lost step. A command that fails, because a step was lost more often than it is retried, is started
again. In the end, the results must equal those of an undisturbed lineage on this machine, to the bit.
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
"""Number of heads to train, each for a different time, and so of training steps to strike."""
_OTHERS = {f"dream_{number}": 3 + number for number in range(1, HEADS)}
CONFIG = bench.SMALLEST.replace('"dream"]', ", ".join(f'"{name}"' for name in ["dream", *_OTHERS]) + "]") + "\n".join(
    f'[methods.{name}]\nmethod = "dream"\nmax_epochs = {epochs}\ncheckpoint_seconds = 0.0'
    for name, epochs in _OTHERS.items()
)
STRIKES_OF_A_STEP = 3
"""Most strikes: Dagster tries a step five times, and may lose a try by itself on a machine with other load."""
SECONDS = 4.0
"""Processor seconds of a step's process in such a lineage, most of them for its start."""
EVERY = 5
"""One kill in this many hits a node."""
AWAY = (8.0, 120.0)
"""Seconds without the database, in turn."""
TRIES = 4
"""Most tries of a command."""


def kill(series: "Series", step: StepProcess, number: int) -> str:
    """Kill the process of a step, or its node, which is then replaced; return which."""
    if number % EVERY or series.replacing.is_alive():
        os.kill(step.process, signal.SIGKILL)
        return "steps"
    series.replacing = Thread(target=_replace, args=(series.cluster, series.cluster.node_of(step.process)))
    series.replacing.start()  # meanwhile, steps on the other node are struck
    return "nodes"


def _replace(cluster: Cluster, node: "subprocess.Popen[bytes]") -> None:
    assert cluster.nodes is not None
    cluster.nodes.kill(node)
    cluster.nodes.add()


def stop_database(series: "Series", step: StepProcess, number: int) -> str:
    """Stop the database for a while during a step; return for how long."""
    series.cluster.postgres.stop()
    time.sleep(AWAY[number % 2])
    series.cluster.postgres.start()
    return f"{AWAY[number % 2]:.0f} s"


Strike = Callable[["Series", StepProcess, int], str]
STRIKES: dict[str, Strike] = {"killed on Ray": kill, "Postgres away": stop_database}


@dataclass
class Series:
    """Lineages on one cluster, and the lineage that they must equal."""

    cluster: Cluster
    folder: Path
    chance: random.Random
    wanted: Project
    replacing: Thread = field(default_factory=Thread)

    def cause(self, kind: str, count: int) -> Iterator[str]:
        """Strike lineages until there were `count` strikes; yield a line for people after each lineage.

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
                    with suppress(ProcessLookupError, FileNotFoundError):  # the process has ended meanwhile
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
            bench.require_equal(bench._results(project), bench._results(self.wanted), f"{kind}, {folder}")
            counted = ", ".join(f"{name} {times}" for name, times in sorted(done.items()))
            yield f"{kind}: {counted} in {lineages} lineages, {again} commands started again"

    def chosen(self, project: Project, command: "subprocess.Popen[str]") -> Iterator[StepProcess]:
        """Yield processes of steps at random moments, a few of each step, until the command ends."""
        moments: dict[int, float] = {}
        struck: Counter[str] = Counter()
        while command.poll() is None:
            for step in list(steps_of(project)):
                at = moments.setdefault(step.process, self.chance.uniform(0.0, SECONDS))
                if struck[step.step] < STRIKES_OF_A_STEP and bench.processor_seconds(iter([step.process])) >= at:
                    struck[step.step] += 1
                    yield step
            time.sleep(0.1)


def run(counts: dict[str, int], folder: Path, seed: int) -> Iterator[str]:
    """Cause `counts` faults of each kind; yield a line after each lineage."""
    (folder / "wanted").mkdir()
    wanted = bench.new_lineage(folder / "wanted", CONFIG)
    wanted.materialize()
    with new_cluster() as cluster:
        series = Series(cluster, folder, random.Random(seed), wanted)
        for kind, count in counts.items():
            yield from series.cause(kind, count)
