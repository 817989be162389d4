"""Build a problem from queries, a pool of candidates and the gold candidates: the base of every retrieval task.

It may correct for hubs (candidates that are near to every query) with one bias per candidate: the score of a candidate
c for a query q is cos(q, c) - bias(c) / 2, and the bias measures how near c is to the queries of a bank. Terms of the
published formulas that depend only on the query do not affect the order of its candidates and are left out, as is a
factor 2. The corrections differ in their bank and in how they measure nearness:

* `csls`: 2 cos(q, c) - r(q) - r(c), where r(c) is the mean cosine of c with its 10 nearest queries (Conneau et al.
  2018, Word Translation without Parallel Data, section 2.3).
* `dual_softmax`: P(c | q) P(q | c), both softmaxes of cos / t (Sun et al. 2021, LoFTR, section 3.3; P(q | c) alone is
  the inverted softmax of Smith et al. 2017). t times the logarithm is 2 cos(q, c) - r(q) - r(c) + constant, where r(c)
  = t log mean exp(cos(q', c) / t) over the queries q'.
* `train_bias`: r(c) of CSLS over training queries (the query bank of Bogolin et al. 2022, Cross Modal Retrieval with
  Querybank Normalisation).

The first two are transductive: their bank is the test queries, so the answer to one query depends on the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Float64, Int

from disent_core.evaluation.contract import (
    Embedded,
    EvaluationConfig,
    Hubness,
    Problem,
    SearchBackend,
    Setting,
    Texts,
    Ties,
)
from disent_core.evaluation.measurement import Measurement, Ranking, measured
from disent_core.evaluation.metrics.approximate_search import RECALL
from disent_core.evaluation.metrics.ranking import average_precision, first_is_gold, gold_ranks, nearest, scored_blocks

NEIGHBOURS = 10
"""Number of queries whose cosines with a candidate are averaged: k in the CSLS paper."""
TEMPERATURE = 0.05
"""t of the dual softmax."""
HUBNESS: Mapping[Hubness, Mapping[str, Setting]] = {
    "none": {},
    "train_bias": {"hubness": "train_bias", "neighbours": NEIGHBOURS},
    "csls": {"hubness": "csls", "neighbours": NEIGHBOURS},
    "dual_softmax": {"hubness": "dual_softmax", "temperature": TEMPERATURE},
}
"""Description of each correction in a metric row's settings; empty without correction."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RetrievalProblem(Problem):
    """Texts by role `query` and `pool`, and `bank` if training queries correct for hubs; a mean over queries.

    Attributes:
        metric: `accuracy_at_1` (whether the nearest candidate is gold) or `map` (over all gold candidates).
        gold: indices of the right candidates, padded with -1.
        skip: for each query, the index of a candidate to leave out; None: all candidates count.
        ties: see `EvaluationConfig`.
        top_k: candidates per query in the ranking.
        hubness: see `EvaluationConfig`; only for the metric `accuracy_at_1`. A corrected problem keeps no ranking.
        search: what finds the nearest candidates.
    """

    takes_late_interaction: ClassVar[bool] = True

    metric: Literal["accuracy_at_1", "map"] = "accuracy_at_1"
    query_ids: pa.Array
    candidate_ids: pa.Array
    gold: Int[np.ndarray, "queries golds"]
    skip: Int[np.ndarray, " queries"] | None = None
    ties: Ties
    top_k: int
    hubness: Hubness = "none"
    search: SearchBackend = "exact"

    def score(self, matrices: Mapping[str, Embedded]) -> list[Measurement]:
        """Return the metric over all queries, with the top of their rankings."""
        queries, pool = matrices["query"], matrices["pool"]
        of_hubs = bias(self.hubness, pool, matrices.get("bank", queries))
        scores, indices = nearest(queries, pool, max(self.top_k, 2), skip=self.skip, bias=of_hubs, engine=self.search)
        if self.metric == "map" or (self.gold.shape[1] > 1 and self.ties == "worst"):
            ranks = gold_ranks(queries, pool, self.gold, ties=self.ties, skip=self.skip)
            items = average_precision(ranks) if self.metric == "map" else (ranks == 1).any(axis=1).astype(float)
        elif self.gold.shape[1] > 1:
            items = (indices[:, :1] == self.gold).any(axis=1).astype(float)
        else:
            items = first_is_gold(scores, indices, self.gold[:, 0], ties=self.ties)
        return [measured(self.metric, items, ranking=self._ranking(scores, indices) if of_hubs is None else None)]

    def _ranking(self, scores: Float[np.ndarray, "queries k"], indices: Int[np.ndarray, "queries k"]) -> Ranking:
        top = indices[:, : self.top_k]
        return Ranking(
            query_ids=self.query_ids,
            candidate_ids=self.candidate_ids,
            indices=top,
            scores=scores[:, : self.top_k],
            is_gold=(top[:, :, None] == self.gold[:, None, :]).any(axis=2),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """Candidates, with `gold` and `skip` as in `RetrievalProblem`."""

    texts: Texts
    ids: pa.Array
    gold: Int[np.ndarray, "queries golds"]
    skip: Int[np.ndarray, " queries"] | None = None


def one_per_text(pool: Pool) -> Pool:
    """Keep the first candidate of each distinct text; it is gold if one of its copies was."""
    keys = np.asarray(pool.texts.keys)
    _, first, copy = np.unique(keys, return_index=True, return_inverse=True)
    kept = np.sort(first)
    place = np.searchsorted(kept, first)[copy]  # for every candidate, the position of its text among those kept
    gold = np.where(pool.gold >= 0, place[pool.gold], -1)
    gold = -np.sort(-gold, axis=1)
    gold[:, 1:][gold[:, 1:] == gold[:, :-1]] = -1  # two gold candidates with one text become one
    texts = pool.texts.take(kept.tolist())
    skip = None if pool.skip is None else place[pool.skip]
    return Pool(texts=texts, ids=pool.ids.take(pa.array(kept)), gold=gold, skip=skip)


def retrieval_problem(
    queries: Texts,
    query_ids: pa.Array,
    pool: Pool,
    config: EvaluationConfig,
    *,
    settings: Mapping[str, Setting] | None = None,
    hubness: Hubness = "none",
    bank: Texts | None = None,
    search: SearchBackend = "exact",
    **details: Any,
) -> RetrievalProblem:
    """Return the problem with the configuration's rules for ties and equal texts.

    `hubness` corrects for hubs, from the texts of the `bank` or, without one, from the queries; `search` finds the
    nearest candidates; `details` are the other fields of `RetrievalProblem`.
    """
    sizes = {"queries": len(queries), "query ids": len(query_ids), "gold": len(pool.gold)}
    if len(set(sizes.values())) > 1 or len(pool.texts) != len(pool.ids):
        raise ValueError(f"{sizes}, {len(pool.texts)} candidates, {len(pool.ids)} candidate ids do not match")
    duplicates = len(pool.texts) - len(set(pool.texts.keys))
    if config.equal_text_counts and duplicates:
        pool = one_per_text(pool)
    return RetrievalProblem(
        texts={"query": queries, "pool": pool.texts, **({} if bank is None else {"bank": bank})},
        settings={
            "split": config.split,
            "ties": config.ties,
            "equal_text_counts": config.equal_text_counts,
            "pool_size": len(pool.texts),
            "pool_duplicates": duplicates,
            **HUBNESS[hubness],
            **({} if search == "exact" else {"search": search, "search_recall_at_10": f"at least {RECALL}"}),
            **(settings or {}),
        },
        query_ids=query_ids,
        candidate_ids=pool.ids,
        gold=pool.gold,
        skip=pool.skip,
        ties=config.ties,
        top_k=config.top_k,
        hubness=hubness,
        search=search,
        **details,
    )


# --- hubs -------------------------------------------------------------------------------------------------


def bias(hubness: str, pool: Embedded, bank: Embedded) -> Float64[np.ndarray, " pool"] | None:
    """Return the bias of each candidate under a correction, from the queries of its bank; None for `none`."""
    if hubness == "none":
        return None
    if hubness == "dual_softmax":
        return _soft_maximum(pool, bank)
    scores, _ = nearest(pool, bank, NEIGHBOURS)
    return scores.mean(axis=1, dtype=float)


def _soft_maximum(candidates: Embedded, bank: Embedded) -> Float64[np.ndarray, " pool"]:
    """Return t log mean exp(s / t) of the similarities s of each candidate with the bank; at most max s."""
    from scipy.special import logsumexp

    soft = np.empty(len(candidates))
    for block, scores in scored_blocks(candidates, bank):
        soft[block] = logsumexp(scores.astype(float) / TEMPERATURE, axis=1)
    return TEMPERATURE * (soft - np.log(len(bank)))
