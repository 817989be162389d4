"""Measure the shards of a step: whole, shard by shard in one process, and in two; each must give the same bits.

python -m tests.benchmarks.shards negatives|search [--items 600000] [--massive TARBALL] [--engines inline ray]

Seconds of the processor are those of this process and of all that it started, so they include the start of workers;
those of Ray's workers, which belong to the cluster, are not among them.
"""

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from disent_assets.resources import shard_engine
from disent_core.evaluation.metrics.ranking import nearest
from disent_core.negatives.config import BleuConfig
from disent_core.negatives.nearest import max_bleu
from disent_core.shards.engine import sharded
from tests.benchmarks.negatives import DEFAULT_MASSIVE, read_english, recombined
from tests.benchmarks.retrieval import vectors

ENGINES = ("inline", "processes:1", "processes:2")

Work = Callable[[], tuple[np.ndarray, ...]]


def negatives(items: int, massive: Path) -> Work:
    """Unsmoothed BLEU of so many sentences against all others, in shards of 100,000."""
    sentences = recombined(read_english(massive), items)
    return lambda: max_bleu(sentences, BleuConfig())


def search(items: int, massive: Path) -> Work:
    """The 5 nearest of so many vectors, for as many queries."""
    queries, pool = vectors(items)
    return lambda: nearest(queries, pool, 5)


WORK = {"negatives": (negatives, 600_000), "search": (search, 150_000)}


def measure(work: Work, engines: tuple[str, ...]) -> Iterator[str]:
    """A line of a Markdown table for each engine.

    Raises:
        AssertionError: if an engine gives other bits than the first.
    """
    yield "| engine | seconds | of the processor | load before |"
    yield "|---|---|---|---|"
    expected = None
    for name in engines:
        load, cpu, began = os.getloadavg()[0], _processor_seconds(), time.perf_counter()
        with sharded(shard_engine({"DISENT_SHARDS": name})):
            found = work()
        seconds = time.perf_counter() - began
        expected = expected or found
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True)), name
        yield f"| {name} | {seconds:.1f} | {_processor_seconds() - cpu:.1f} | {load:.1f} |"


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=WORK)
    parser.add_argument("--items", type=int)
    parser.add_argument("--massive", type=Path, default=DEFAULT_MASSIVE)
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    chosen = parser.parse_args()
    make, usual = WORK[chosen.what]
    for line in measure(make(chosen.items or usual, chosen.massive), tuple(chosen.engines)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
