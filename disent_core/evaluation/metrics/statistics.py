"""Compute statistics of weighted items: correlations, and F1, precision and recall from counts.

The weight of an item is the number of times that it occurs. So a resampling of the items is a row of weights, and all
resamplings cost a few matrix products, or for ranks a cumulative sum instead of a sort each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from disent_core.evaluation.measurement import Statistic, mean_of_items

Weights = Float[np.ndarray, "samples n"]
Values = Float[np.ndarray, " samples"]
_OfWeights = Callable[[np.ndarray, np.ndarray], np.ndarray]
_SPREAD = 1e-12  # a variance below this share of the second moment is rounding error


@dataclass(frozen=True)
class WeightedStatistic:
    """A `measurement.Statistic` whose items may occur any number of times."""

    of: _OfWeights
    """From items `n columns` and weights `samples n`, with rows of equal sum, to values `samples`."""

    def __call__(self, samples: Float[np.ndarray, "samples n ..."]) -> Values:
        """Return the value of each sample, in which every item has weight 1."""
        once = np.ones((1, samples.shape[1]))
        return np.concatenate([self.of(sample, once) for sample in samples])


@WeightedStatistic
def pearson(items: Float[np.ndarray, "n 2"], weights: Weights) -> Values:
    """Return Pearson's correlation of prediction and gold; 0 where one of them is constant."""
    x, y = (items - items.mean(axis=0)).T
    # Five moments of all samples in one product: samples x n times n x 5.
    moments = weights @ np.stack([x, y, x * x, y * y, x * y], axis=1) / weights.sum(axis=1, keepdims=True)
    mean_x, mean_y, square_x, square_y, product = moments.T
    spread_x, spread_y = square_x - mean_x**2, square_y - mean_y**2
    is_varied = (spread_x > _SPREAD * square_x) & (spread_y > _SPREAD * square_y)
    return _ratio(product - mean_x * mean_y, spread_x * spread_y, is_varied)


@WeightedStatistic
def spearman(items: Float[np.ndarray, "n 2"], weights: Weights) -> Values:
    """Return Spearman's correlation: Pearson's of the ranks of prediction and gold, where equal values share the mean.

    It is 0 where one of them is constant.
    """
    weights = np.ascontiguousarray(weights.T)  # n x samples: `_mid_ranks` gathers and adds whole rows
    x, y = (_mid_ranks(column, weights) for column in items.T)
    covariance, spread_x, spread_y = (np.einsum("ns,ns,ns->s", weights, *ranks) for ranks in ((x, y), (x, x), (y, y)))
    return _ratio(covariance, spread_x * spread_y, (spread_x > 0) & (spread_y > 0))


def _mid_ranks(
    column: Float[np.ndarray, " n"], weights: Float[np.ndarray, "n samples"]
) -> Float[np.ndarray, "n samples"]:
    """Return the centred rank of each value in each sample: the weight of lower values plus half that of equals."""
    _, codes, copies = np.unique(column, return_inverse=True, return_counts=True)
    ranks = weights[np.argsort(codes, kind="stable")]
    if len(copies) < len(codes):  # add up the weights of equal values: one row per distinct value
        ranks = np.add.reduceat(ranks, np.cumsum(copies) - copies, axis=0)
    half = ranks / 2  # of the weight of the value itself
    np.cumsum(ranks, axis=0, out=ranks)
    ranks -= half + ranks[-1] / 2
    return ranks[codes]


def _ratio(covariance: Values, spread: Values, is_varied: Bool[np.ndarray, " samples"]) -> Values:
    return np.where(is_varied, np.clip(covariance / np.sqrt(np.where(is_varied, spread, 1.0)), -1, 1), 0.0)


@WeightedStatistic
def f1(items: Float[np.ndarray, "n 3"], weights: Weights) -> Values:
    """Return F1 from the counts correct, predicted and gold of each item; 0 where all are 0."""
    correct, predicted, gold = (weights @ items).T
    return 2 * correct / np.maximum(predicted + gold, 1)


@WeightedStatistic
def precision(items: Float[np.ndarray, "n 3"], weights: Weights) -> Values:
    """Return the share of the predicted that is correct; 0 where nothing is predicted."""
    correct, predicted, _ = (weights @ items).T
    return correct / np.maximum(predicted, 1)


@WeightedStatistic
def recall(items: Float[np.ndarray, "n 3"], weights: Weights) -> Values:
    """Return the share of the gold that is predicted correctly; 0 where nothing is gold."""
    correct, _, gold = (weights @ items).T
    return correct / np.maximum(gold, 1)


STATISTICS: Mapping[str, WeightedStatistic] = {
    "pearson": pearson,
    "spearman": spearman,
    "f1": f1,
    "micro_f1": f1,
    "span_f1": f1,
    "seqeval_f1": f1,
    "precision": precision,
    "recall": recall,
}
"""Statistic that recomputes a metric from its stored items (`outcomes`), by metric, if items have several columns."""


def statistic_of(metric: str, columns: int) -> Statistic | None:
    """Return the statistic that recomputes a metric from its stored items; None if it is unknown.

    With one value per item (`columns`) every metric is the mean.
    """
    return mean_of_items if columns == 1 else STATISTICS.get(metric)
