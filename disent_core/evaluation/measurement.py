"""Define the result of a task: a number with its items, from which intervals and paired tests are computed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

Statistic = Callable[[np.ndarray], np.ndarray]
"""Function from samples of items, `samples n ...`, to the value of the metric in each sample, `samples`."""


def mean_of_items(samples: Float[np.ndarray, "samples n"]) -> Float[np.ndarray, " samples"]:
    """Return the mean over items, the statistic of metrics such as accuracy and MAP."""
    return samples.mean(axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """Best candidates of each query, best first: `indices` into `candidate_ids`, scores, and which are gold."""

    query_ids: pa.Array
    candidate_ids: pa.Array
    indices: Int[np.ndarray, "queries k"]
    scores: Float[np.ndarray, "queries k"]
    is_gold: Bool[np.ndarray, "queries k"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """One number, and the items from which its interval is computed.

    Attributes:
        metric: `accuracy_at_1`, `map`, ...
        value: the number.
        n: number of items.
        items: what `statistic` needs of each item (one score, or columns such as prediction and gold); None if the
            metric is not a function of independent items, and so has no interval.
        statistic: function from samples of items to the metric.
        ci_low: lower end of the 95 % interval; `intervals.aggregate` sets it.
        ci_high: upper end of the interval.
        ranking: of a retrieval task, for case studies.
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
    value = float(statistic(items[None])[0])
    return Measurement(metric=metric, value=value, n=len(items), items=items, statistic=statistic, ranking=ranking)
