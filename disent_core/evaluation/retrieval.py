"""Exact retrieval, by cosine or late interaction: nearest candidates, ranks of the gold ones, scores of both.

Equal vectors always tie: rows of the pool that are equal to the bit are scored once, so neither FAISS's order
nor a rounding of BLAS comes between them. Memory is bounded by blocks of queries.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from disent_core.errors import EncoderError
from disent_core.evaluation.contract import Embedded, LateInteraction, Ties

_BLOCK_SCORES = 1 << 23  # scores held at once: 32 MB


def check_finite(matrix: Float[np.ndarray, "rows dim"], name: str) -> None:
    """Raise EncoderError with name, row and count if a row has a value that is not finite."""
    odd = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if odd.size:
        raise EncoderError(
            f"{name}: {odd.size} of {len(matrix)} rows have values that are not finite, first row {odd[0]}. "
            "Look at the training curve for divergence, or encode these texts again"
        )


def unit_rows(matrix: Float[np.ndarray, "rows dim"], name: str) -> Float32[np.ndarray, "rows dim"]:
    """Rows of norm 1 in float32, whatever their scale; a row of zeros stays zero, so its cosines are 0.

    Raises:
        EncoderError: if a row has a value that is not finite; says which.
    """
    check_finite(matrix, name)
    matrix = matrix.astype(np.float32 if matrix.dtype.itemsize < 8 else np.float64)
    # By the largest value first, so that no square overflows or vanishes.
    peak = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
    matrix /= np.where(peak > 0, peak, 1)
    norm = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix /= np.where(norm > 0, norm, 1)
    return np.ascontiguousarray(matrix, dtype=np.float32) + np.float32(0)  # + 0: no negative zeros


def _distinct(pool: Embedded) -> tuple[Int[np.ndarray, " groups"], Int[np.ndarray, " pool"]]:
    """First index of each distinct candidate, ascending, and the place of every one among the distinct ones."""
    if isinstance(pool, np.ndarray):
        raw = pool.view(np.dtype((np.void, pool.dtype.itemsize * pool.shape[1]))).ravel()
    else:
        raw = pool.identities()
    _, first, group = np.unique(raw, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[group]


def _blocks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _BLOCK_SCORES // max(width, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _take(embedded: Embedded, rows: Int[np.ndarray, " rows"]) -> Any:
    return embedded[rows] if isinstance(embedded, np.ndarray) else embedded.take(rows)


def _checked(queries: Embedded, pool: Embedded) -> tuple[Embedded, Embedded]:
    """Matrices with rows of norm 1; a late interaction as it is."""
    if not (isinstance(queries, np.ndarray) and isinstance(pool, np.ndarray)):
        if type(queries) is not type(pool):
            raise ValueError(f"{type(queries).__name__} and {type(pool).__name__} can't be compared")
        if not len(pool):
            raise ValueError("nothing to search: 0 candidates")
        return queries, pool
    if queries.shape[1] != pool.shape[1]:
        raise ValueError(f"queries have {queries.shape[1]} dimensions, candidates {pool.shape[1]}")
    if 0 in pool.shape:
        raise ValueError(f"nothing to search: {len(pool)} candidates of {pool.shape[1]} dimensions")
    return unit_rows(queries, "queries"), unit_rows(pool, "pool")


# --- nearest candidates -----------------------------------------------------------------------------------


def nearest(
    queries: Float[np.ndarray, "queries dim"] | LateInteraction,
    pool: Float[np.ndarray, "pool dim"] | LateInteraction,
    k: int,
    *,
    skip: Int[np.ndarray, " queries"] | None = None,
) -> tuple[Float32[np.ndarray, "queries k"], Int[np.ndarray, "queries k"]]:
    """Scores and indices of the best k candidates of each query: highest first, equal ones by index.

    Args:
        queries: one query per row, of any norm; or a late interaction.
        pool: one candidate per row, of any norm; or one of the same class.
        k: candidates a query; all of them where the pool has fewer.
        skip: for each query the index of a candidate that it may not find (itself, for instance).

    Raises:
        EncoderError: if a row is not finite.
        ValueError: if there is nothing to search.
    """
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    queries, pool = _checked(queries, pool)
    wanted = min(k + (skip is not None), len(pool))
    scores, indices = _search(queries, pool, wanted)
    if skip is None:
        return scores, indices
    kept = np.argsort(indices == skip[:, None], axis=1, kind="stable")[:, : min(k, len(pool) - 1)]
    return np.take_along_axis(scores, kept, 1), np.take_along_axis(indices, kept, 1)


def _search(
    queries: Embedded, pool: Embedded, wanted: int
) -> tuple[Float32[np.ndarray, "queries k"], Int[np.ndarray, "queries k"]]:
    first, group = _distinct(pool)
    if isinstance(queries, np.ndarray) and isinstance(pool, np.ndarray):
        return _search_index(queries, pool[first], group, wanted)
    return _search_all(queries, _take(pool, first), group, wanted)


def _search_index(
    queries: Float32[np.ndarray, "queries dim"],
    distinct: Float32[np.ndarray, "groups dim"],
    group: Int[np.ndarray, " pool"],
    wanted: int,
) -> tuple[Float32[np.ndarray, "queries k"], Int[np.ndarray, "queries k"]]:
    import faiss

    index = faiss.IndexFlatIP(distinct.shape[1])
    index.add(distinct)
    fetched = min(wanted + 1, len(distinct))
    scores = np.empty((len(queries), wanted), dtype=np.float32)
    indices = np.empty((len(queries), wanted), dtype=np.int64)
    for block in _blocks(len(queries), fetched * wanted):
        near, groups = index.search(queries[block], fetched)
        scores[block], indices[block] = _expand(near, groups, group, wanted)
        if fetched > wanted:  # equal scores on both sides of the cut: which come first is not FAISS's choice
            cut = np.flatnonzero(near[:, wanted - 1] == near[:, wanted]) + block.start
            scores[cut], indices[cut] = _search_all(queries[cut], distinct, group, wanted)
    return scores, indices


def _expand(
    scores: Float32[np.ndarray, "queries fetched"],
    groups: Int[np.ndarray, "queries fetched"],
    group: Int[np.ndarray, " pool"],
    wanted: int,
) -> tuple[Float32[np.ndarray, "queries k"], Int[np.ndarray, "queries k"]]:
    """Candidates in place of their groups, at most `wanted` of each, by score and then by index."""
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    members = np.concatenate([np.argsort(group, kind="stable"), np.full(wanted, len(group))])
    indices = members[starts[groups][..., None] + np.arange(wanted)]
    real = np.arange(wanted) < sizes[groups][..., None]
    rows = (len(scores), -1)
    indices = np.where(real, indices, len(group)).reshape(rows)
    every = np.where(real, scores[..., None], np.float32(-np.inf)).reshape(rows)
    best = np.lexsort((indices, -every), axis=1)[:, :wanted]
    return np.take_along_axis(every, best, 1), np.take_along_axis(indices, best, 1)


def _search_all(
    queries: Embedded, distinct: Embedded, group: Int[np.ndarray, " pool"], wanted: int
) -> tuple[Float32[np.ndarray, "queries k"], Int[np.ndarray, "queries k"]]:
    scores = np.empty((len(queries), wanted), dtype=np.float32)
    indices = np.empty((len(queries), wanted), dtype=np.int64)
    for block, every in _scored_blocks(queries, distinct, group):
        indices[block] = np.argsort(-every, axis=1, kind="stable")[:, :wanted]
        scores[block] = np.take_along_axis(every, indices[block], 1)
    return scores, indices


def _scored_blocks(
    queries: Embedded, distinct: Embedded, group: Int[np.ndarray, " pool"]
) -> Iterator[tuple[slice, Float32[np.ndarray, "queries pool"]]]:
    """Blocks of queries with their scores against the whole pool."""
    for block in _blocks(len(queries), len(group)):
        some = _take(queries, np.arange(block.start, block.stop))
        scores = some @ distinct.T if isinstance(distinct, np.ndarray) else some.similarity(distinct)
        yield block, scores[:, group]


def first_is_gold(
    scores: Float[np.ndarray, "queries k"],
    indices: Int[np.ndarray, "queries k"],
    gold: Int[np.ndarray, " queries"],
    *,
    ties: Ties,
) -> Float[np.ndarray, " queries"]:
    """1 where the nearest candidate is the gold one, else 0: the items of accuracy at 1.

    Args:
        scores: of `nearest`, k at least 2 where the pool has as many.
        indices: of `nearest`.
        gold: index of the right candidate.
        ties: `lowest` trusts the order of `nearest`; under `worst` an equal runner-up makes an error.
    """
    right = indices[:, 0] == gold
    if ties == "worst" and scores.shape[1] > 1:
        right &= scores[:, 0] > scores[:, 1]
    return right.astype(np.float64)


# --- ranks of the gold candidates -------------------------------------------------------------------------


def gold_ranks(
    queries: Float[np.ndarray, "queries dim"] | LateInteraction,
    pool: Float[np.ndarray, "pool dim"] | LateInteraction,
    gold: Int[np.ndarray, "queries golds"],
    *,
    ties: Ties,
    skip: Int[np.ndarray, " queries"] | None = None,
) -> Int[np.ndarray, "queries golds"]:
    """Rank (from 1) of each gold candidate among all candidates of its query.

    Args:
        queries: one query per row, of any norm; or a late interaction.
        pool: one candidate per row, of any norm; or one of the same class.
        gold: indices of the right candidates, -1 where a query has fewer; its rank is then 0.
        ties: `lowest`: candidates of equal score rank by index; `worst`: gold ones rank behind their equals.
        skip: for each query the index of a candidate that does not count.

    Raises:
        EncoderError: if a row is not finite.
        ValueError: if there is nothing to search.
    """
    queries, pool = _checked(queries, pool)
    first, group = _distinct(pool)
    ranks = np.zeros(gold.shape, dtype=np.int64)
    for block, scores in _scored_blocks(queries, _take(pool, first), group):
        if skip is not None:
            scores[np.arange(len(scores)), skip[block]] = -np.inf
        ranks[block] = _ranks(scores, gold[block], ties)
    return np.where(gold >= 0, ranks, 0)


def _ranks(
    scores: Float32[np.ndarray, "queries pool"], gold: Int[np.ndarray, "queries golds"], ties: Ties
) -> Int[np.ndarray, "queries golds"]:
    own = np.where(gold >= 0, np.take_along_axis(scores, np.maximum(gold, 0), axis=1), np.nan)
    ranks = np.empty(gold.shape, dtype=np.int64)
    for column in range(gold.shape[1]):
        score, place = own[:, column, None], gold[:, column, None]
        ahead = np.count_nonzero(scores > score, axis=1)
        equal = scores == score
        if ties == "lowest":
            equal &= np.arange(scores.shape[1]) < place
            behind = np.count_nonzero(equal, axis=1)
        else:  # behind every equal candidate that is not gold, and behind equal gold ones of lower index
            later = (own == score) & (gold >= place)
            behind = np.count_nonzero(equal, axis=1) - np.count_nonzero(later, axis=1)
        ranks[:, column] = 1 + ahead + behind
    return ranks


def average_precision(ranks: Int[np.ndarray, "queries golds"]) -> Float[np.ndarray, " queries"]:
    """Mean over a query's gold candidates of the precision at their ranks: the items of MAP.

    Manning, Raghavan and Schuetze 2008, section 8.4, https://nlp.stanford.edu/IR-book/.

    Args:
        ranks: of `gold_ranks`; 0 stands for no candidate.

    Raises:
        ValueError: if a query has no gold candidate.
    """
    counts = np.count_nonzero(ranks, axis=1)
    if (counts == 0).any():
        raise ValueError(f"{np.count_nonzero(counts == 0)} of {len(ranks)} queries have no gold candidate")
    ordered = np.sort(np.where(ranks > 0, ranks, np.inf), axis=1)
    return (np.arange(1, ranks.shape[1] + 1) / ordered).sum(axis=1) / counts
