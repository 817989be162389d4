"""Search rows of norm 1 with faiss, which may miss a neighbour: for pools too large for exact search.

Johnson et al. 2019, Billion-scale similarity search with GPUs, https://arxiv.org/abs/1702.08734 (IVF); Malkov and
Yashunin 2018, https://arxiv.org/abs/1603.09320 (HNSW). faiss only proposes candidates: the caller scores them exactly
(`exact_search`), so that a score does not depend on the engine. An index is searched with the least effort that finds
enough of the exact neighbours of a sample.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from disent_core.evaluation.contract import SearchBackend
from disent_core.evaluation.metrics.grid import Neighbours, PoolRows, Queries
from disent_core.exact import blocks

FROM_ROWS = 1_000_000
"""Number of rows from which a faiss engine is worth its misses."""
RECALL, NEIGHBOURS, TUNED_ON = 0.95, 10, 100
"""Share of exact neighbours that the least effort must find, their number, and the number of rows tried."""

_LINKS, _BUILD_EFFORT = 32, 80
"""HNSW: neighbours of a node, and candidates considered when it is linked."""
_LIST_ROWS, _TRAINING_ROWS, _PASSES = 39, 64, 10
"""IVF: least rows per list, training rows per list for the centres, and passes of k-means."""
_BLOCK, _SCORED = 16_384, 8_192
_LEAST_EFFORT, _MOST_EFFORT = 8, 4_096
_SEED = 0
_BOUND = 1.5
"""Bound on the sum of absolute products of two rows, one of which may have a bias (`ranking`)."""


def build(
    rows: Int64[np.ndarray, " rows"],
    vectors: Callable[[np.ndarray], Float32[np.ndarray, "some dim"]],
    dim: int,
    engine: SearchBackend,
) -> Any:
    """Make a faiss index whose answers are numbers from `rows`; `vectors` returns vectors, of norm 1, by position."""
    import faiss

    if engine == "hnsw":
        base: Any = faiss.IndexHNSWFlat(dim, _LINKS, faiss.METRIC_INNER_PRODUCT)
        base.hnsw.efConstruction = _BUILD_EFFORT
    else:
        lists = max(1, min(round(4 * len(rows) ** 0.5), len(rows) // _LIST_ROWS))
        base = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT)
        base.cp.niter, base.cp.max_points_per_centroid, base.cp.seed = _PASSES, _TRAINING_ROWS, _SEED
        base.cp.min_points_per_centroid = 1  # no warning about few rows: short lists do no harm
        wanted = min(len(rows), _TRAINING_ROWS * lists)
        base.train(vectors(np.sort(np.random.default_rng(_SEED).choice(len(rows), wanted, replace=False))))
    index = faiss.IndexIDMap(base)
    for block in blocks(len(rows), _BLOCK):
        index.add_with_ids(vectors(np.arange(block.start, block.stop)), rows[block])
    return index


def set_effort(index: Any, effort: int) -> None:
    """Set how many lists (IVF) or candidates (HNSW) a query visits; this is saved with the index."""
    import faiss

    base = faiss.downcast_index(index.index)
    if isinstance(base, faiss.IndexHNSW):
        base.hnsw.efSearch = effort
    else:
        base.nprobe = effort


def efforts(index: Any) -> Iterator[int]:
    """Yield the efforts to try, in increasing order; the last one visits all lists."""
    import faiss

    base = faiss.downcast_index(index.index)
    most = _MOST_EFFORT if isinstance(base, faiss.IndexHNSW) else base.nlist
    effort = min(_LEAST_EFFORT, most)
    while effort < most:
        yield effort
        effort *= 2
    yield most


def tune(index: Any, recall: Callable[[], float]) -> int:
    """Set the least effort with sufficient `recall`, and return it."""
    effort = 0
    for effort in efforts(index):
        set_effort(index, effort)
        if recall() >= RECALL:
            break
    return effort


def nearest_proposed(queries: Queries, pool: PoolRows, k: int, engine: SearchBackend) -> Neighbours:
    """Return scores and indices of the best k candidates of each query that faiss proposes (`hnsw` or `ivf`).

    Otherwise as `exact_search.nearest_rows`; all rows of the pool must be distinct.
    """
    from disent_core.evaluation.metrics.exact_search import nearest_rows

    index = build(np.arange(len(pool)), lambda places: pool[places], pool.shape[1], engine)
    sample = queries[np.random.default_rng(_SEED).permutation(len(queries))[:TUNED_ON]]
    exact, _ = nearest_rows(sample, pool, min(NEIGHBOURS, len(pool)), _BOUND)
    tune(index, lambda: recall_of(_scored(sample, pool, index.search(sample, exact.shape[1])[1]), exact))
    proposed = index.search(queries, k)[1]
    lacking = (proposed < 0).any(axis=1)  # the visited lists have fewer than k candidates
    proposed[lacking] = nearest_rows(queries[lacking], pool, k, _BOUND)[1]
    scores = _scored(queries, pool, proposed)
    order = np.lexsort((proposed, -scores))
    return np.take_along_axis(scores, order, 1), np.take_along_axis(proposed, order, 1)


def _scored(
    queries: Queries, pool: PoolRows, proposed: Int64[np.ndarray, "queries k"]
) -> Float32[np.ndarray, "queries k"]:
    """Return exact scores of the proposed candidates; -inf where there is none."""
    scores = np.empty(proposed.shape, dtype=np.float32)
    for block in blocks(len(queries), max(1, _SCORED // proposed.shape[1])):
        rows = pool[np.maximum(proposed[block], 0)].astype(np.float64)
        scores[block] = np.einsum("qkd,qd->qk", rows, queries[block].astype(np.float64))
    scores[proposed < 0] = -np.inf
    return scores


def recall_of(proposed: Iterable[np.ndarray], exact: Iterable[np.ndarray]) -> float:
    """Return the share of each query's exact scores that were found, averaged; any of several equal scores counts."""
    shares = [np.count_nonzero(scores >= best[-1]) / len(best) for scores, best in zip(proposed, exact, strict=True)]
    return float(np.mean(np.minimum(shares, 1)))
