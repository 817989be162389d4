"""What a task gives: one number, with the items that it is made of, from which its interval and its tests follow."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

Statistic = Callable[[np.ndarray], np.ndarray]
"""Samples of items, `samples n ...`, to the value of the metric in each sample, `samples`."""


def mean_of_items(samples: Float[np.ndarray, "samples n"]) -> Float[np.ndarray, " samples"]:
    """The statistic of accuracy, MAP and whatever else is a mean over items."""
    return samples.mean(axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """Best candidates of each query, best first: places in `candidate_ids`, scores, which are gold."""

    query_ids: pa.Array
    candidate_ids: pa.Array
    indices: Int[np.ndarray, "queries k"]
    scores: Float[np.ndarray, "queries k"]
    is_gold: Bool[np.ndarray, "queries k"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """One number, and what its interval is made from.

    Attributes:
        metric: `accuracy_at_1`, `map`, ...
        value: the number.
        n: items it is made of.
        items: per item what `statistic` needs (one score, or columns such as prediction and gold); None where
            the metric is no function of independent items, which then has no interval.
        statistic: from samples of items to the metric.
        ci_low: lower end of the 95 % interval; `intervals.aggregate` fills it in.
        ci_high: its upper end.
        ranking: of a retrieval, for case studies.
    """

    metric: str
    value: float
    n: int
    items: Float[np.ndarray, "n ..."] | None = None
    statistic: Statistic = mean_of_items
    ci_low: float | None = None
    ci_high: float | None = None
    ranking: Ranking | None = None


def measured(
    metric: str,
    items: Float[np.ndarray, "n ..."],
    *,
    statistic: Statistic = mean_of_items,
    ranking: Ranking | None = None,
) -> Measurement:
    """The measurement whose value is the statistic of its items."""
    value = float(statistic(items[None])[0])
    return Measurement(metric=metric, value=value, n=len(items), items=items, statistic=statistic, ranking=ranking)
