"""Correct for hubs (candidates that are near to every query) with one bias per candidate.

The score of a candidate c for a query q is cos(q, c) - bias(c) / 2, and the bias measures how near c is to the queries
of a bank. Terms of the published formulas that depend only on the query do not affect the order of its candidates and
are left out, as is a factor 2. The corrections differ in their bank and in how they measure nearness:

* `csls`: 2 cos(q, c) - r(q) - r(c), where r(c) is the mean cosine of c with its 10 nearest queries (Conneau et al.
  2018, Word Translation without Parallel Data, section 2.3).
* `dual_softmax`: P(c | q) P(q | c), both softmaxes of cos / t (Sun et al. 2021, LoFTR, section 3.3; P(q | c) alone is
  the inverted softmax of Smith et al. 2017). t times the logarithm is 2 cos(q, c) - r(q) - r(c) + constant, where r(c)
  = t log mean exp(cos(q', c) / t) over the queries q'.
* `train_bias`: r(c) of CSLS over training queries (the query bank of Bogolin et al. 2022, Cross Modal Retrieval with
  Querybank Normalisation).

The first two are transductive: their bank is the test queries, so the answer to one query depends on the others.
"""

import numpy as np
from jaxtyping import Float64

from disent_core.evaluation.contract import Embedded
from disent_core.evaluation.metrics.ranking import nearest, scored_blocks

NEIGHBOURS = 10
"""Number of queries whose cosines with a candidate are averaged: k in the CSLS paper."""
TEMPERATURE = 0.05
"""t of the dual softmax."""


def mean_of_nearest(candidates: Embedded, bank: Embedded, k: int = NEIGHBOURS) -> Float64[np.ndarray, " pool"]:
    """Return the mean similarity of each candidate with its k nearest queries of the bank, or all if it has fewer."""
    scores, _ = nearest(candidates, bank, k)
    return scores.mean(axis=1, dtype=float)


def soft_maximum(
    candidates: Embedded, bank: Embedded, temperature: float = TEMPERATURE
) -> Float64[np.ndarray, " pool"]:
    """Return t log mean exp(s / t) of the similarities s of each candidate with the bank; at most max s."""
    from scipy.special import logsumexp

    soft = np.empty(len(candidates))
    for block, scores in scored_blocks(candidates, bank):
        soft[block] = logsumexp(scores.astype(float) / temperature, axis=1)
    return temperature * (soft - np.log(len(bank)))


def bias(hubness: str, pool: Embedded, bank: Embedded) -> Float64[np.ndarray, " pool"] | None:
    """Return the bias of each candidate under a correction, from the queries of its bank; None for `none`."""
    if hubness == "none":
        return None
    return soft_maximum(pool, bank) if hubness == "dual_softmax" else mean_of_nearest(pool, bank)
