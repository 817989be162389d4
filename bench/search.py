"""Measure an index of many texts: made, one text more, and searched one query at a time, mapped into memory and warm.

python -m bench.search FOLDER [--rows 1000000] [--dim 384] [--threads 2] [--languages 1] [--engine ivf]

FOLDER keeps the index (3 GB for a million rows), so that a second call only adds a text and searches. Peaks of memory
include pages of mapped files, which the system may take back.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args
from zlib import crc32

import numpy as np
import torch

import disent  # noqa: F401 - makes threads wait as in a user's process
from disent_core.evaluation.contract import SearchBackend
from disent_core.search.build import add_texts
from disent_core.search.contents import HeadRecord, read_contents
from disent_core.search.stored import open_index
from disent_core.search.texts import Text

K, QUERIES, NAME, CENTRES = 10, 50, "template", 50_000
HEAD = HeadRecord(fingerprint="", encoder_fingerprint="", seed=None, name="made up", encoder="none", trained_on="")


class Vectors:
    """Make a vector for each text: one of 50,000 centres plus noise, as for texts that share a template."""

    def __init__(self, dim: int) -> None:
        self.centres = np.random.default_rng(0).standard_normal((CENTRES, dim), dtype=np.float32)

    def __call__(self, texts: Sequence[str], language: str | None = None) -> dict[str, np.ndarray]:
        numbers = [int(text[5:]) if text.startswith("text ") else crc32(text.encode()) for text in texts]
        noise = np.random.default_rng(numbers[0]).standard_normal((len(texts), self.centres.shape[1]), dtype=np.float32)
        return {NAME: self.centres[np.array(numbers) % CENTRES] + 0.5 * noise}


def add(folder: Path, vectors: Vectors, first: int, end: int, languages: int, engine: SearchBackend) -> str:
    """Add texts by number to an index, new or not; return what it took."""
    cpu, started = time.process_time(), time.perf_counter()
    texts = (Text(f"text {number}", f"l{number % languages}") for number in range(first, end))
    add_texts(folder, HEAD, vectors, texts, engine=engine)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    clock = time.perf_counter() - started
    return f"{time.process_time() - cpu:.1f} s of the processor, {clock:.1f} s of the clock, at most {peak:,.0f} MB"


def seconds(search: Callable[[np.ndarray], object], queries: np.ndarray) -> tuple[float, float]:
    """Return the median wall-clock and mean processor seconds of a query."""
    clock: list[float] = []
    cpu = time.process_time()
    for query in queries:
        started = time.perf_counter()
        search(query[None])
        clock.append(time.perf_counter() - started)
    return statistics.median(clock), (time.process_time() - cpu) / len(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--languages", type=int, default=1)
    parser.add_argument("--engine", choices=get_args(SearchBackend), default="exact")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    vectors, contents = Vectors(given.dim), read_contents(given.folder)
    rows = 0 if contents is None else contents.rows
    if rows < given.rows:
        cost = add(given.folder, vectors, rows, given.rows, given.languages, given.engine)
        print(f"{given.rows - rows:,} texts added in {cost}; their vectors included")
        rows = given.rows
    print(f"one text more: {add(given.folder, vectors, rows, rows + 1, given.languages, given.engine)}")
    started = time.perf_counter()
    index = open_index(given.folder)
    print(f"opened in {time.perf_counter() - started:.2f} s: {index.contents.rows:,} texts")
    queries = vectors([f"text {number}" for number in range(10**9, 10**9 + QUERIES)])[NAME]
    started = time.perf_counter()
    index.nearest(queries[:1], NAME, K)
    print(f"first query, which compares the vectors with their checksum: {time.perf_counter() - started:.2f} s")
    clock, cpu = seconds(lambda query: index.nearest(query, NAME, K), queries)
    print(f"{given.threads} threads: {clock:.4f} s a query, {cpu:.4f} s of the processor")
    if index.contents.approximate is not None:
        print(f"recall at 10: {index.contents.approximate.recall_at_10}, effort {index.contents.approximate.effort}")


if __name__ == "__main__":
    main()
