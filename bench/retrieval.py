"""Compare exact retrieval with a bare matrix product, sentence-transformers and, if installed, FAISS.

python -m bench.retrieval [--rows 100000] [--k 5]
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

from bench.measuring import forget_peak, peak_gigabytes, row
from disent_core.evaluation.metrics.ranking import nearest, unit_rows
from disent_core.matmul import product

ROWS, DIM, K = 100_000, 384, 5
QUERIES_OF_TURN = 25_000  # each turn includes preparing the pool
THREADS, QUERIES_OF_THREADS = 2, 25_000  # for the second comparison, with oneDNN alone
QUERIES, CANDIDATES = 512, 2_048  # block of the bare product; its scores fit in the cache

Rows = tuple[np.ndarray, np.ndarray]
Search = Callable[..., np.ndarray | None]


class Run(NamedTuple):
    """Wall-clock and processor seconds, peak memory beyond the vectors, and the indices."""

    seconds: float
    cpu: float
    gigabytes: float
    indices: np.ndarray | None


def vectors(rows: int) -> Rows:
    """Return queries and pool, shape (rows, DIM); a query is a row of the pool plus noise of the same variance."""
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((rows, DIM), dtype=np.float32)
    queries = rng.standard_normal((rows, DIM), dtype=np.float32)
    queries += pool
    return queries, pool


def ours(queries: np.ndarray, pool: np.ndarray, k: int) -> np.ndarray:
    """Search exactly, including normalisation and duplicates."""
    return nearest(queries, pool, k)[1]


def torch_product(queries: np.ndarray, pool: np.ndarray, k: int) -> None:
    """Compute the product with torch; discard the results."""
    _every_block(queries, pool, lambda left, right: left @ right.T)


def onednn_product(queries: np.ndarray, pool: np.ndarray, k: int) -> None:
    """Compute the product with disent; discard the results."""
    _every_block(queries, pool, lambda left, right: product(left, right, "float32"))


def _every_block(queries: np.ndarray, pool: np.ndarray, multiply: Callable[..., Any]) -> None:
    parts = torch.from_numpy(pool).split(CANDIDATES)
    for left in torch.from_numpy(queries).split(QUERIES):
        for right in parts:
            multiply(left, right)


def sentence_transformers(queries: np.ndarray, pool: np.ndarray, k: int) -> np.ndarray:
    """Search by `semantic_search` with its defaults."""
    from sentence_transformers.util import semantic_search

    results = semantic_search(torch.from_numpy(queries), torch.from_numpy(pool), top_k=k)
    return np.array([[hit["corpus_id"] for hit in row] for row in results])


def faiss_flat(queries: np.ndarray, pool: np.ndarray, k: int) -> np.ndarray:
    """Search by `IndexFlatIP` on rows of norm 1."""
    import faiss

    index = faiss.IndexFlatIP(DIM)
    index.add(unit_rows(pool, "pool"))
    return index.search(unit_rows(queries, "queries"), k)[1]


ONEDNN = {"a product through oneDNN, discarded": onednn_product}
PEERS = ONEDNN | {
    "torch's own product, discarded": torch_product,
    "sentence-transformers' semantic_search": sentence_transformers,
    "faiss IndexFlatIP": faiss_flat,
}


class Contender:
    """A search in a separate process, so that its peak memory is that of this search alone."""

    def __init__(self, search: Search, rows: int, k: int, threads: int) -> None:
        self.workers = multiprocessing.get_context("spawn").Pool(1, _prepare, (search, rows, k, threads))
        self.runs: list[Run] = []

    def take_turn(self, queries: slice) -> None:
        """Search for a slice of the queries; each turn includes preparing the pool."""
        self.runs.append(self.workers.apply(_measure, (queries,)))

    def total(self) -> Run:
        """Return the totals of all turns, and end the process."""
        self.workers.terminate()
        parts = [run.indices for run in self.runs if run.indices is not None]
        seconds, cpu = sum(run.seconds for run in self.runs), sum(run.cpu for run in self.runs)
        indices = np.concatenate(parts) if parts else None
        return Run(seconds, cpu, max(run.gigabytes for run in self.runs), indices)


_state: dict[str, Any] = {}  # state of a contender's process


def _prepare(search: Search, rows: int, k: int, threads: int) -> None:
    torch.set_num_threads(threads)
    search(*vectors(2_000), k)  # loads the libraries
    _state.update(search=search, rows=vectors(rows), k=k)


def _measure(some: slice) -> Run:
    queries, pool = _state["rows"]
    forget_peak()
    before = peak_gigabytes()
    started, cpu = time.perf_counter(), time.process_time()
    indices = _state["search"](queries[some], pool, _state["k"])
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Run(seconds, cpu, peak_gigabytes() - before, indices)


def run(rows: int = ROWS, k: int = K) -> list[dict[str, Any]]:
    """Run every comparison on one thread, and the bare product on several."""
    peers = {name: search for name, search in PEERS.items() if search is not faiss_flat or find_spec("faiss")}
    on_one = _compared(peers, rows, rows, k, 1)
    return [*on_one, *_compared(ONEDNN, rows, min(rows, QUERIES_OF_THREADS), k, THREADS)]


def _compared(peers: Mapping[str, Search], rows: int, queries: int, k: int, threads: int) -> list[dict[str, Any]]:
    """Run the contenders one after another, each on the same queries in a turn."""
    contenders = {name: Contender(search, rows, k, threads) for name, search in {"ours": ours, **peers}.items()}
    loads = [os.getloadavg()[0]]
    turns = max(2, -(-queries // QUERIES_OF_TURN))
    for start in range(0, queries, -(-queries // turns)):
        for contender in contenders.values():
            contender.take_turn(slice(start, min(start + -(-queries // turns), queries)))
        loads.append(os.getloadavg()[0])
    us, *peer_runs = (contender.total() for contender in contenders.values())
    load = f"{threads} thread(s), load average {min(loads):.1f} to {max(loads):.1f}"
    return [
        row(
            f"{k} nearest of {rows}, {queries} queries of {DIM} dimensions, beside {name}"
            + (f", {threads} threads" if threads > 1 else ""),
            us.seconds,
            peer.seconds,
            f"seconds of the processor {us.cpu:.1f} and {peer.cpu:.1f}, {peer.cpu / us.cpu:.2f} times; "
            f"memory beyond the vectors {us.gigabytes:.2f} and {peer.gigabytes:.2f} GB{_agreement(us, peer)}; {load}",
            digits=2,
        )
        for name, peer in zip(peers, peer_runs, strict=True)
    ]


def _agreement(us: Run, peer: Run) -> str:
    if us.indices is None or peer.indices is None:
        return ""
    return f"; {(us.indices == peer.indices).mean():.5%} of the indices are the same"


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--k", type=int, default=K)
    arguments = parser.parse_args()
    for line in run(arguments.rows, arguments.k):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
