"""Rank the gold candidates of each query among all its candidates, and average the precision at their ranks.

A float32 product tells which candidates are ahead of a gold one, but for those whose score is nearer to that of the
gold candidate than rounding reaches. Queries that have such candidates are scored exactly (`exact_search`).
"""

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from disent_core.evaluation.contract import LateInteraction, Ties
from disent_core.evaluation.metrics.grid import blocks
from disent_core.evaluation.metrics.ranking import checked, distinct_rows, scored_distinct

_BLOCK_SCORES = 1 << 20  # float32 scores held at once: 4 MB


def gold_ranks(
    queries: Float[np.ndarray, "queries dim"] | LateInteraction,
    pool: Float[np.ndarray, "pool dim"] | LateInteraction,
    gold: Int[np.ndarray, "queries golds"],
    *,
    ties: Ties,
    skip: Int[np.ndarray, " queries"] | None = None,
) -> Int[np.ndarray, "queries golds"]:
    """Return the rank (from 1) of each gold candidate among all candidates of its query.

    Args:
        queries: one query per row, of any norm; or a late interaction.
        pool: one candidate per row, of any norm; or a late interaction of the same class.
        gold: indices of the right candidates, padded with -1, whose rank is 0.
        ties: `lowest`: candidates of equal score rank by index; `worst`: gold candidates rank behind their equals.
        skip: for each query the index of a candidate that is left out.
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
    queries: Float32[np.ndarray, "queries dim"],
    distinct: Float32[np.ndarray, "distinct dim"],
    group: Int[np.ndarray, " pool"],
    gold: Int[np.ndarray, "queries golds"],
    skip: Int[np.ndarray, " queries"] | None,
) -> tuple[Int[np.ndarray, "queries golds"], Bool[np.ndarray, " queries"]]:
    """Return ranks by float32 scores, and for which queries these are the exact ranks."""
    import torch

    from disent_core.evaluation.metrics.exact_search import margin
    from disent_core.matmul import product

    candidates, reach = torch.from_numpy(distinct), margin(distinct.shape[1])
    ahead, near = np.empty(gold.shape, dtype=np.int64), np.empty(gold.shape, dtype=np.int64)
    for block in blocks(len(queries), max(1, _BLOCK_SCORES // len(group))):
        scores = product(torch.from_numpy(queries[block]), candidates, "float32").numpy()
        scores = scores if len(distinct) == len(group) else scores[:, group]
        if skip is not None:
            scores[np.arange(len(scores)), skip[block]] = -np.inf
        gold_scores = _gold_scores(scores, gold[block])
        for column, score in enumerate(gold_scores.T):
            ahead[block, column] = _count(scores > score[:, None] + reach)
            near[block, column] = _count(scores >= score[:, None] - reach)
    # Nothing but the gold candidate itself is within reach of its score; none is of padding.
    return 1 + ahead, ((near - ahead == 1) | (gold < 0)).all(axis=1)


def _count(is_counted: Bool[np.ndarray, "queries pool"]) -> Int[np.ndarray, " queries"]:
    # In a quarter of the time of one call for all rows.
    return np.fromiter(map(np.count_nonzero, is_counted), dtype=np.int64, count=len(is_counted))


def _gold_scores(
    scores: Float32[np.ndarray, "queries pool"], gold: Int[np.ndarray, "queries golds"]
) -> Float32[np.ndarray, "queries golds"]:
    """Return scores of the gold candidates; NaN, which compares unequal to everything, for padding."""
    found = np.take_along_axis(scores, np.maximum(gold, 0), axis=1)
    return np.where(gold >= 0, found, np.float32(np.nan))


def _ranks(
    scores: Float32[np.ndarray, "queries pool"], gold: Int[np.ndarray, "queries golds"], ties: Ties
) -> Int[np.ndarray, "queries golds"]:
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


def average_precision(ranks: Int[np.ndarray, "queries golds"]) -> Float[np.ndarray, " queries"]:
    """Average precision of each query, the mean precision at the ranks of its gold candidates: the items of MAP.

    Manning, Raghavan and Schuetze 2008, section 8.4, https://nlp.stanford.edu/IR-book/.

    Args:
        ranks: from `gold_ranks`; 0 stands for no candidate.
    """
    counts = np.count_nonzero(ranks, axis=1)
    if (counts == 0).any():
        raise ValueError(f"{np.count_nonzero(counts == 0)} of {len(ranks)} queries have no gold candidate")
    ordered = np.sort(np.where(ranks > 0, ranks, np.inf), axis=1)
    return (np.arange(1, ranks.shape[1] + 1) / ordered).sum(axis=1) / counts
