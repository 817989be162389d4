"""Measure searches in an index of a million texts: one query at a time, the index mapped into memory and warm.

python -m bench.search FOLDER [--rows 1000000] [--threads 2] [--languages 1] [--engine ivf]

FOLDER keeps the index (3 GB for a million rows), so that a second call only searches.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import torch

import disent  # noqa: F401 - makes threads wait as in a user's process
from disent_core.evaluation.contract import SearchBackend
from disent_core.search.build import add_texts
from disent_core.search.contents import HeadRecord, read_contents
from disent_core.search.stored import open_index
from disent_core.search.texts import Text

DIM, K, QUERIES, NAME = 384, 10, 50, "template"
HEAD = HeadRecord(fingerprint="", encoder_fingerprint="", seed=None, name="made up", encoder="none", trained_on="")


def vectors(texts: Sequence[str], language: str | None = None) -> dict[str, np.ndarray]:
    """Return a vector for each text: one of 50,000 centres plus noise, as for texts that share a template."""
    numbers = np.array([int(text.split()[1]) for text in texts])
    rng = np.random.default_rng(int(numbers[0]))
    centres = np.stack(
        [np.random.default_rng(int(seed)).standard_normal(DIM, dtype=np.float32) for seed in numbers % 50_000]
    )
    return {NAME: centres + 0.5 * rng.standard_normal(centres.shape, dtype=np.float32)}


def build(folder: Path, rows: int, languages: int, engine: SearchBackend) -> None:
    """Build the index, or add what it lacks."""
    contents = read_contents(folder)
    new = rows if contents is None or contents.rows < rows else 0
    texts = (Text(f"text {number}", f"l{number % languages}") for number in range(new))
    add_texts(folder, HEAD, vectors, texts, engine=engine)


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
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--languages", type=int, default=1)
    parser.add_argument("--engine", choices=get_args(SearchBackend), default="exact")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    started = time.process_time()
    build(given.folder, given.rows, given.languages, given.engine)
    print(f"built in {time.process_time() - started:.0f} s of the processor, made-up vectors included")
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
