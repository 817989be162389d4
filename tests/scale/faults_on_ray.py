"""Kill steps and nodes of lineages on two nodes of Ray, and take their database away, while nobody looks after them.

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
from dataclasses import dataclass
from pathlib import Path

import bench
from made_cluster import Cluster, StepProcess, new_cluster, steps_of
from projects import Project

HEADS = 10
"""That are trained, each for a time of its own: as many steps that can be struck."""
_OTHERS = {f"dream_{number}": 3 + number for number in range(1, HEADS)}
CONFIG = bench.SMALLEST.replace('"dream"]', ", ".join(f'"{name}"' for name in ["dream", *_OTHERS]) + "]") + "\n".join(
    f'[methods.{name}]\nmethod = "dream"\nmax_epochs = {epochs}\ncheckpoint_seconds = 0.0'
    for name, epochs in _OTHERS.items()
)
KILLS_OF_A_STEP = 2
"""Dagster begins a step five times, and may lose one by itself on a machine with other work."""
SECONDS = 8.0
"""Of the processor, that the process of a step of such a lineage takes at most, 3 of them for its start."""
TRIES = 4
"""Of a command."""


def kill_steps(series: "Series", project: Project, command: "subprocess.Popen[str]", most: int) -> int:
    """Kill processes of steps at random moments; returns how many."""
    done = 0
    for step in series.chosen(project, command, KILLS_OF_A_STEP):
        with suppress(ProcessLookupError):
            os.kill(step.process, signal.SIGKILL)
            done += 1
        if done == most:
            break
    return done


def kill_nodes(series: "Series", project: Project, command: "subprocess.Popen[str]", most: int) -> int:
    """Kill the nodes on which steps run, one after another, each followed by a new one; returns how many."""
    assert series.cluster.nodes is not None
    done = 0
    for step in series.chosen(project, command, 1):
        try:
            node = series.cluster.node_of(step.process)
        except FileNotFoundError:  # it has ended meanwhile
            continue
        series.cluster.nodes.kill(node)
        series.cluster.nodes.add()
        done += 1
        if done == most:
            break
    return done


def without_database(seconds: float) -> "Strike":
    """A strike that takes the database away for so long while a step runs, again and again."""

    def strike(series: "Series", project: Project, command: "subprocess.Popen[str]", most: int) -> int:
        done = 0
        for _ in series.chosen(project, command, 1):
            series.cluster.postgres.stop()
            time.sleep(seconds)
            series.cluster.postgres.start()
            done += 1
            if done == most:
                break
        return done

    return strike


Strike = Callable[["Series", Project, "subprocess.Popen[str]", int], int]
STRIKES: dict[str, Strike] = {
    "steps killed on Ray": kill_steps,
    "nodes of Ray killed": kill_nodes,
    "Postgres away for 8 s": without_database(8.0),
    "Postgres away for 120 s": without_database(120.0),
}


@dataclass
class Series:
    """Lineages on one cluster, and what they must equal."""

    cluster: Cluster
    folder: Path
    chance: random.Random
    wanted: Project

    def cause(self, kind: str, count: int) -> str:
        """Strike lineages until it was done so often; returns a line for people.

        Raises:
            AssertionError: if a lineage does not end like the undisturbed one.
        """
        done, lineages, again = 0, 0, 0
        while done < count:
            lineages += 1
            folder = self.folder / f"{kind} {lineages}".replace(" ", "-")
            folder.mkdir()
            project = bench.new_lineage(folder, CONFIG)
            self.cluster.postgres.empty()
            with (folder / "log").open("w+") as log:
                command = self.cluster.start(project, to=log)
                done += STRIKES[kind](self, project, command, count - done)
                tries = 1
                while command.wait():
                    tries += 1
                    assert tries <= TRIES, f"{kind}: a command fails, see {folder}/log"
                    command = self.cluster.start(project, to=log)
            again += tries - 1
            assert_equal(bench._results(project), bench._results(self.wanted), f"{kind}, {folder}")
        return f"{kind}: {done} in {lineages} lineages, {again} commands started again"

    def chosen(self, project: Project, command: "subprocess.Popen[str]", most: int) -> Iterator[StepProcess]:
        """Processes of steps at random moments of their time, at most so many of a step, until the command ends."""
        moments: dict[int, float] = {}
        struck: Counter[str] = Counter()
        while command.poll() is None:
            for step in list(steps_of(project)):
                at = moments.setdefault(step.process, self.chance.uniform(0.0, SECONDS))
                if struck[step.run] < most and bench.processor_seconds(iter([step.process])) >= at:
                    struck[step.run] += 1
                    yield step
            time.sleep(0.1)


def assert_equal(found: dict[str, str], wanted: dict[str, str], fault: str) -> None:
    """Compare all tables, weights and metrics; the history tells of commands that had to be started again."""
    other = {name for name in found | wanted if found.get(name) != wanted.get(name)} - {"history"}
    assert not other, f"{fault}: {len(other)} differences\n" + "\n".join(sorted(other)[:10])


def run(counts: dict[str, int], folder: Path, seed: int) -> Iterator[str]:
    """Cause so many faults of each kind; yields a line for each."""
    (folder / "wanted").mkdir()
    wanted = bench.new_lineage(folder / "wanted", CONFIG)
    wanted.materialize()
    with new_cluster() as cluster:
        series = Series(cluster, folder, random.Random(seed), wanted)
        for kind, count in counts.items():
            yield series.cause(kind, count)
