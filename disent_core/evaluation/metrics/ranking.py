"""Retrieve the nearest candidates exactly, by cosine or late interaction.

Rows are scaled to norm 1 in float32 and rounded to multiples of 2^-26. Their cosine is computed without error and
rounded once to float32 (`exact_search`). So equal vectors tie, and rankings depend neither on blocks nor on threads.
Blocks of queries bound the memory.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from disent_core.errors import EncoderError
from disent_core.evaluation.contract import Embedded, LateInteraction, SearchBackend, Ties
from disent_core.evaluation.metrics.grid import Neighbours, PoolRows, Queries
from disent_core.evaluation.metrics.shared import is_shared, recent, shared
from disent_core.exact import blocks, on_grid
from disent_core.exact import unit as exact_unit

Golds = Int[np.ndarray, "queries golds"]
"""Index (padded with -1) or rank of each gold candidate of each query."""
Skip = Int[np.ndarray, " queries"]
"""Index of the candidate to leave out for each query."""
Bias = Float[np.ndarray, " pool"]
Group = Int[np.ndarray, " pool"]
"""For each candidate, the index of its distinct candidate."""
Kept = Int[np.ndarray, " distinct"]
"""Index of each distinct candidate; None instead if all candidates are distinct."""

_BLOCK_SCORES = 1 << 23  # scores held at once: 32 MB
_BLOCK_RANKED = 1 << 20  # scores held at once that find ranks: 4 MB
_KEPT_SCORES = 1 << 25  # most scores of a late interaction that are kept whole: 128 MB
_CACHED = 1 << 16  # values processed at once, which fit in the cache of a core: 256 KB
_SHARED = 11  # neighbours that a shared search finds: the tasks' default


def check_finite(matrix: Float[np.ndarray, "rows dim"], name: str) -> None:
    """Raise EncoderError, with name, count and first row, if a row has a value that is not finite."""
    bad_rows = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad_rows.size:
        raise EncoderError(
            f"{name}: {bad_rows.size} of {len(matrix)} rows have values that are not finite, first row {bad_rows[0]}. "
            "Look at the training curve for divergence, or encode these texts again"
        )


def unit_rows(matrix: Float[np.ndarray, "rows dim"], name: str) -> Float32[np.ndarray, "rows dim"]:
    """Scale rows of any scale to norm 1 in float32, on the grid of `exact_search`; a row of zeros stays zero."""
    check_finite(matrix, name)
    return _unit_rows(matrix)


@shared
def _unit_rows(matrix: Float[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    unit = np.empty(matrix.shape, dtype=np.float32)
    for block in blocks(len(matrix), max(1, _CACHED // max(matrix.shape[1], 1))):
        unit[block] = exact_unit(matrix[block])
    return unit


def distinct_rows(pool: Embedded) -> tuple[Embedded, Group]:
    """Return the distinct candidates in order of first occurrence, and for each candidate its row among them."""
    kept, group = _copies(pool)
    if kept is None:
        return pool, group
    return pool[kept] if isinstance(pool, np.ndarray) else _without_copies(pool), group


@shared
def _without_copies(pool: LateInteraction) -> LateInteraction:
    kept, _ = _copies(pool)
    assert kept is not None
    return pool.take(kept)


@shared
def _copies(pool: Embedded) -> tuple[Kept | None, Group]:
    """Return each distinct candidate's first index (None if all are distinct), and each candidate's row among them."""
    kept, group = equal_rows(pool) if isinstance(pool, np.ndarray) else _first_of_equal(pool.identities())
    return (None if len(kept) == len(group) else kept), group


def equal_rows(rows: PoolRows) -> tuple[Kept, Group]:
    """Return the first index of each distinct row, ascending, and each row's place among the distinct ones."""
    if _surely_distinct(rows):
        return np.arange(len(rows)), np.arange(len(rows))
    # Digests of 16 bytes are faster to sort than rows.
    digests = b"".join(blake2b(row, digest_size=16).digest() for row in rows)
    return _first_of_equal(np.frombuffer(digests, dtype="V16"))


def _surely_distinct(pool: PoolRows) -> bool:
    """Return whether no two rows have the same checksum; equal rows do, unequal rows hardly ever."""
    if pool.shape[1] % 2:  # a checksum adds up 64-bit values, each two values of a row
        return False
    pairs = pool.view(np.uint64)
    factors = np.random.default_rng(0).integers(1 << 63, size=pairs.shape[1], dtype=np.uint64) | np.uint64(1)
    return len(np.unique(pairs @ factors)) == len(pool)


def _first_of_equal(identities: np.ndarray) -> tuple[Kept, Group]:
    _, first, group = np.unique(identities, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank_of_group = np.empty_like(order)
    rank_of_group[order] = np.arange(len(order))
    return first[order], rank_of_group[group]


def _blocks(rows: int, width: int) -> Iterator[slice]:
    return blocks(rows, max(1, _BLOCK_SCORES // width))


def checked(queries: Embedded, pool: Embedded) -> tuple[Embedded, Embedded]:
    """Return matrices with rows of norm 1; a late interaction is returned as it is."""
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
    queries: Embedded,
    pool: Embedded,
    k: int,
    *,
    skip: Skip | None = None,
    bias: Bias | None = None,
    engine: SearchBackend = "exact",
) -> Neighbours:
    """Return scores and indices of the best k candidates of each query: highest first, equal ones by index.

    Args:
        queries: `queries dim`, rows of any norm; or a late interaction.
        pool: `pool dim`, rows of any norm; or a late interaction of the same class.
        k: candidates per query; the whole pool if it has fewer.
        skip: for each query the index of a candidate not to retrieve, for instance itself.
        bias: of each candidate, from -1 to 1; half of it is subtracted from the similarity (`hubness`).
        engine: a faiss engine if misses are acceptable (`approximate_search`); a late interaction is searched exactly.
    """
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    queries, pool = checked(queries, pool)
    wanted = min(k + (skip is not None), len(pool))
    scores, indices = _search(queries, pool, wanted, bias, engine)
    if skip is None:
        return scores, indices
    # One more candidate was retrieved: a stable sort moves the skipped one to the end.
    kept = np.argsort(indices == skip[:, None], axis=1, kind="stable")[:, : min(k, len(pool) - 1)]
    return np.take_along_axis(scores, kept, 1), np.take_along_axis(indices, kept, 1)


def _search(queries: Embedded, pool: Embedded, wanted: int, bias: Bias | None, engine: SearchBackend) -> Neighbours:
    if not (isinstance(queries, np.ndarray) and isinstance(pool, np.ndarray)):
        nearest_candidates = _empty(len(queries), wanted)
        for block, similarity in scored_distinct(queries, *distinct_rows(pool)):
            scores = similarity if bias is None else similarity - (bias / 2).astype(np.float32)
            _keep_best(nearest_candidates, block, scores, np.arange(len(pool))[None])
        return nearest_candidates
    if bias is not None:
        # An extra dimension, 1 for a query and minus half the bias for a candidate, keeps the search exact with a bias.
        halves = on_grid((-bias[:, None] / 2).astype(np.float32))
        # Candidates are copies if they are in the same group and have the same bias.
        identities = np.column_stack([_copies(pool)[1], halves]).astype(np.float64).view("V16").ravel()
        copies = _first_of_equal(identities)
        queries, pool = np.column_stack([queries, np.ones(len(queries), np.float32)]), np.column_stack([pool, halves])
        return _search_distinct(queries, pool, *copies, wanted, engine, bound=1.5)
    if engine == "exact":
        fetched = max(wanted, _SHARED) if is_shared(queries, pool) else wanted
        scores, indices = _first_nearest(queries, pool, min(fetched, len(pool)))
        return np.ascontiguousarray(scores[:, :wanted]), np.ascontiguousarray(indices[:, :wanted])
    return _search_distinct(queries, pool, *_copies(pool), wanted, engine)


@shared
def _first_nearest(queries: Queries, pool: PoolRows, wanted: int) -> Neighbours:
    return _search_distinct(queries, pool, *_copies(pool), wanted, "exact")


def _search_distinct(
    queries: Queries,
    pool: PoolRows,
    kept: Kept | None,
    group: Group,
    wanted: int,
    engine: SearchBackend,
    bound: float = 1.0,  # of a sum of absolute products, by Cauchy and Schwarz
) -> Neighbours:
    """Search only distinct candidates (`_copies`), because copies have equal scores, and then reinsert the copies."""
    from disent_core.evaluation.metrics.approximate_search import nearest_proposed
    from disent_core.evaluation.metrics.exact_search import nearest_rows

    distinct = pool if kept is None else pool[kept]
    fetched = min(wanted, len(distinct))
    if engine == "exact":
        best_groups = nearest_rows(queries, distinct, fetched, bound)
    else:
        best_groups = nearest_proposed(queries, distinct, fetched, engine)
    return best_groups if len(distinct) == len(group) else expanded(*best_groups, grouped(group), wanted)


class Groups(NamedTuple):
    """Groups of equal candidates: `members` sorted by group, then by index; `starts` has the start of each group."""

    sizes: Int[np.ndarray, " groups"]
    members: Group
    starts: Int[np.ndarray, " groups"]


def grouped(group: Group) -> Groups:
    """Sort candidates by group number; numbers begin at 0."""
    sizes = np.bincount(group)
    return Groups(sizes, np.argsort(group, kind="stable"), np.cumsum(sizes) - sizes)


def expanded(
    scores: Float32[np.ndarray, "queries fetched"], groups: Int[np.ndarray, "queries fetched"], of: Groups, wanted: int
) -> Neighbours:
    """Replace the best groups of each query by their members, sorted by score and then by index; keep `wanted`.

    The groups must have at least `wanted` members.
    """
    width = min(wanted, int(of.sizes.max()))  # members of a group that can be among the best
    nearest_members = _empty(len(scores), wanted)
    for block in _blocks(len(scores), groups.shape[1] * width):
        fetched = groups[block][..., None]  # queries x fetched x 1
        real = np.arange(width) < of.sizes[fetched]  # queries x fetched x width
        member_scores = np.where(real, scores[block][..., None], np.float32(-np.inf))
        # Positions that are not real hold an arbitrary candidate, whose score keeps it from being selected.
        places = np.minimum(of.starts[fetched] + np.arange(width), len(of.members) - 1)
        _keep_best(nearest_members, block, member_scores, of.members[places])
    return nearest_members


def _empty(queries: int, k: int) -> Neighbours:
    return np.empty((queries, k), dtype=np.float32), np.empty((queries, k), dtype=np.int64)


def _keep_best(nearest_so_far: Neighbours, block: slice, scores: np.ndarray, columns: np.ndarray) -> None:
    import torch

    from disent_core.evaluation.metrics.exact_search import best

    rows = (block.stop - block.start, -1)
    k = nearest_so_far[0].shape[1]
    top = best(torch.from_numpy(scores.reshape(rows)), torch.from_numpy(columns).flatten(1), k)
    nearest_so_far[0][block], nearest_so_far[1][block] = (part.numpy() for part in top)


def scored_blocks(queries: Embedded, pool: Embedded) -> Iterator[tuple[slice, Float32[np.ndarray, "queries pool"]]]:
    """Yield blocks of queries with their exact similarities to the whole pool; blocks bound the memory."""
    queries, pool = checked(queries, pool)
    yield from scored_distinct(queries, *distinct_rows(pool))


def scored_distinct(
    queries: Embedded, distinct: Embedded, group: Group
) -> Iterator[tuple[slice, Float32[np.ndarray, "queries pool"]]]:
    """Yield what `scored_blocks` does, from the distinct candidates of a pool (`distinct_rows`)."""
    import torch

    from disent_core.evaluation.metrics.exact_search import exact_scores

    width = len(group)
    if isinstance(queries, np.ndarray) and isinstance(distinct, np.ndarray):
        candidates = torch.from_numpy(distinct)
        scored = (
            (block, exact_scores(torch.from_numpy(queries[block]), candidates).numpy())
            for block in _blocks(len(queries), width)
        )
    else:
        scored = _scored_late(queries, distinct, width)  # pyright: ignore[reportArgumentType] - both are, see `checked`
    for block, scores in scored:  # a column for each candidate again
        yield block, scores if len(distinct) == width else scores[:, group]


def _scored_late(
    queries: LateInteraction, distinct: LateInteraction, width: int
) -> Iterator[tuple[slice, Float32[np.ndarray, "queries distinct"]]]:
    """Yield blocks of queries with scores that the caller may write to."""
    is_kept = len(queries) * len(distinct) <= _KEPT_SCORES
    kept = _similarities(queries, distinct, width) if is_kept else None
    for block in _blocks(len(queries), width):
        yield block, _similarities_of(queries, block, distinct) if kept is None else kept[block].copy()


@recent
def _similarities(
    queries: LateInteraction, distinct: LateInteraction, width: int
) -> Float32[np.ndarray, "queries distinct"]:
    return np.concatenate([_similarities_of(queries, block, distinct) for block in _blocks(len(queries), width)])


def _similarities_of(queries: LateInteraction, block: slice, distinct: LateInteraction) -> np.ndarray:
    return queries.take(np.arange(block.start, block.stop)).similarity(distinct)


def first_is_gold(
    scores: Float[np.ndarray, "queries k"],
    indices: Int[np.ndarray, "queries k"],
    gold: Int[np.ndarray, " queries"],
    *,
    ties: Ties,
) -> Float[np.ndarray, " queries"]:
    """Return 1 where the nearest candidate is the gold one, else 0: the items of accuracy at 1.

    Scores and indices are from `nearest`, with k of at least 2 if the pool has as many. `lowest` keeps its order; with
    `worst` a runner-up of equal score makes an error.
    """
    right = indices[:, 0] == gold
    if ties == "worst" and scores.shape[1] > 1:
        right &= scores[:, 0] > scores[:, 1]
    return right.astype(np.float64)


# --- ranks of gold candidates ------------------------------------------------------------------------------


def gold_ranks(queries: Embedded, pool: Embedded, gold: Golds, *, ties: Ties, skip: Skip | None = None) -> Golds:
    """Return the rank (from 1) of each gold candidate among all candidates of its query; 0 for padding (-1).

    With `lowest` candidates of equal score rank by index, with `worst` gold candidates rank behind their equals. `skip`
    has the index of a candidate to leave out for each query. Rows may have any norm.
    """
    queries, pool = checked(queries, pool)
    distinct, group = distinct_rows(pool)
    ranks, left = np.zeros(gold.shape, dtype=np.int64), np.arange(len(queries))
    if isinstance(queries, np.ndarray) and isinstance(distinct, np.ndarray):
        ranks, is_certain = _ranks_of_float32(queries, distinct, group, gold, skip)
        left = np.flatnonzero(~is_certain)
        queries = queries[left]
    for block, scores in scored_distinct(queries, distinct, group) if len(left) else ():
        rows = left[block]
        if skip is not None:
            scores[np.arange(len(scores)), skip[rows]] = -np.inf
        ranks[rows] = _ranks(scores, gold[rows], ties)
    return np.where(gold >= 0, ranks, 0)


def _ranks_of_float32(
    queries: Queries, distinct: Float32[np.ndarray, "distinct dim"], group: Group, gold: Golds, skip: Skip | None
) -> tuple[Golds, Bool[np.ndarray, " queries"]]:
    """Return ranks by float32 scores, and for which queries these are the exact ranks.

    A float32 product shows which candidates are ahead of a gold one, except where scores differ from the gold score by
    less than the rounding error. Queries with such candidates must be scored exactly.
    """
    import torch

    from disent_core.evaluation.metrics.exact_search import margin
    from disent_core.matmul import product

    candidates, reach = torch.from_numpy(distinct), margin(distinct.shape[1])
    ahead, near = np.empty(gold.shape, dtype=np.int64), np.empty(gold.shape, dtype=np.int64)
    for block in blocks(len(queries), max(1, _BLOCK_RANKED // len(group))):
        scores = product(torch.from_numpy(queries[block]), candidates, "float32").numpy()
        scores = scores if len(distinct) == len(group) else scores[:, group]
        if skip is not None:
            scores[np.arange(len(scores)), skip[block]] = -np.inf
        gold_scores = _gold_scores(scores, gold[block])
        for column, score in enumerate(gold_scores.T):
            ahead[block, column] = _count(scores > score[:, None] + reach)
            near[block, column] = _count(scores >= score[:, None] - reach)
    # Only the gold candidate itself is within rounding error of its score, and nothing is for padding.
    return 1 + ahead, ((near - ahead == 1) | (gold < 0)).all(axis=1)


def _count(is_counted: Bool[np.ndarray, "queries pool"]) -> Int[np.ndarray, " queries"]:
    # Takes a quarter of the time of one call for all rows.
    return np.fromiter(map(np.count_nonzero, is_counted), dtype=np.int64, count=len(is_counted))


def _gold_scores(scores: Float32[np.ndarray, "queries pool"], gold: Golds) -> Float32[np.ndarray, "queries golds"]:
    """Return scores of the gold candidates; NaN, which compares unequal to everything, for padding."""
    gold_scores = np.take_along_axis(scores, np.maximum(gold, 0), axis=1)
    return np.where(gold >= 0, gold_scores, np.float32(np.nan))


def _ranks(scores: Float32[np.ndarray, "queries pool"], gold: Golds, ties: Ties) -> Golds:
    """Return ranks of one block: 1 + candidates of higher score + equal candidates that the tie rule puts first."""
    gold_scores = _gold_scores(scores, gold)
    ranks = np.empty(gold.shape, dtype=np.int64)
    for column in range(gold.shape[1]):  # one gold candidate of every query at a time
        score, place = gold_scores[:, column, None], gold[:, column, None]
        ahead = np.count_nonzero(scores > score, axis=1)
        equal = scores == score
        if ties == "lowest":
            equal &= np.arange(scores.shape[1]) < place
            behind = np.count_nonzero(equal, axis=1)
        else:  # behind equal candidates that are not gold, and behind equal gold candidates of lower index
            later = (gold_scores == score) & (gold >= place)
            behind = np.count_nonzero(equal, axis=1) - np.count_nonzero(later, axis=1)
        ranks[:, column] = 1 + ahead + behind
    return ranks


def average_precision(ranks: Golds) -> Float[np.ndarray, " queries"]:
    """Return the average precision of each query, the mean precision at its `gold_ranks`: the items of MAP.

    Manning, Raghavan and Schuetze 2008, section 8.4, https://nlp.stanford.edu/IR-book/.
    """
    counts = np.count_nonzero(ranks, axis=1)
    if (counts == 0).any():
        raise ValueError(f"{np.count_nonzero(counts == 0)} of {len(ranks)} queries have no gold candidate")
    ordered = np.sort(np.where(ranks > 0, ranks, np.inf), axis=1)
    return (np.arange(1, ranks.shape[1] + 1) / ordered).sum(axis=1) / counts
