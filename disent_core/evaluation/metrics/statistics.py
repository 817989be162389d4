"""Compute statistics of weighted items: correlations, and F1, precision and recall from counts.

An item's weight is the number of times it occurs. So a resampling of the items is a row of weights, and all resamplings
cost a few matrix products or, for ranks, a cumulative sum each instead of a sort.

All pairs of methods are tested on the same items, and p values are corrected by Holm's method.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from disent_core.evaluation.measurement import Statistic, mean_of_items

Weights = Float[np.ndarray, "samples n"]
Values = Float[np.ndarray, " samples"]
_OfWeights = Callable[[np.ndarray, np.ndarray], np.ndarray]
_SPREAD = 1e-12  # variances below this share of the second moment are rounding errors


@dataclass(frozen=True)
class WeightedStatistic:
    """A `measurement.Statistic` whose items may occur any number of times."""

    of: _OfWeights
    """Function from items `n columns` and weights `samples n`, whose rows have equal sums, to values `samples`."""

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
    """Return Spearman's correlation: Pearson's of the ranks of prediction and gold; equal values share their mean rank.

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
    """Return the share of predictions that are correct; 0 where nothing is predicted."""
    correct, predicted, _ = (weights @ items).T
    return correct / np.maximum(predicted, 1)


@WeightedStatistic
def recall(items: Float[np.ndarray, "n 3"], weights: Weights) -> Values:
    """Return the share of gold items that are predicted correctly; 0 where nothing is gold."""
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
"""By metric, the statistic that recomputes it from stored items (`outcomes`) with several columns."""


def statistic_of(metric: str, columns: int) -> Statistic | None:
    """Return the statistic that recomputes a metric from its stored items; None if it is unknown.

    With one value per item (`columns`) every metric is the mean.
    """
    return mean_of_items if columns == 1 else STATISTICS.get(metric)


Items = Float[np.ndarray, "methods n"]
PerPair = Float[np.ndarray, "methods methods"]
_RESOLVED = 10  # with this many resamplings beyond 0 or more, their count estimates the tail


def mcnemar_exact(hits: Items) -> PerPair:
    """Return the two-sided p of every pair of methods by McNemar's exact test; 1 if both get the same items right.

    McNemar 1947, https://doi.org/10.1007/BF02295996: of the items that only one method gets right, each method should
    get half (binomial distribution).
    """
    from scipy.special import bdtr

    both = hits @ hits.T  # items that both methods have right
    alone = np.diag(both)[:, None] - both  # items that the row's method has right and the column's has wrong
    discordant = alone + alone.T
    return np.minimum(2 * bdtr(np.minimum(alone, alone.T), discordant.astype(int), 0.5), 1.0)


def mcnemar(items: Items) -> PerPair:
    """Return the two-sided p of every pair of methods by the score statistic (sum of d)^2 / sum of d^2.

    With differences d of -1, 0 and 1 it is McNemar's (b - c)^2 / (b + c). With mean scores over seeds it is the same
    test of whether the mean difference is 0. It is chi-squared with one degree of freedom; p is 1 if all items are
    equal. p does not depend on the scale of the items: whole numbers keep the sums exact.
    """
    from scipy.special import chdtrc

    sums, squares = _differences(items)
    differs = squares > 0
    return np.where(differs, chdtrc(1, sums**2 / np.where(differs, squares, 1)), 1.0)


def mean_intervals(items: Items, *, z: float) -> tuple[PerPair, PerPair]:
    """Return the Wald interval of every difference of means, from the variance of the differences of items.

    For single runs of hits and misses this is the interval for paired proportions (Agresti 2013, Categorical Data
    Analysis, equation 11.2). `z` is half its width in standard errors, 1.96 for 95 %.
    """
    n = items.shape[1]
    sums, squares = _differences(items)
    mean = sums / n
    half = z * np.sqrt(np.maximum(squares / n - mean**2, 0) / n)
    return mean - half, mean + half


def _differences(items: Items) -> tuple[PerPair, PerPair]:
    """Return sums of the differences of every pair of methods, row minus column, and sums of their squares."""
    products, sums = items @ items.T, items.sum(axis=1)
    squares = np.diag(products)
    # sum of (a - b)^2 = sum of a^2 + sum of b^2 - 2 sum of ab
    return sums[:, None] - sums, squares[:, None] + squares - 2 * products


def bootstrap_p(
    differences: Float[np.ndarray, "pairs samples"],
) -> tuple[Float[np.ndarray, " pairs"], Bool[np.ndarray, " pairs"]]:
    """Return the two-sided p of the hypothesis that a difference is 0, and whether it is extrapolated.

    Differences are of the statistics of two methods on the same resamplings (paired bootstrap). p is twice the share of
    resamplings on the rarer side of 0, with the observed sample counted in (the +1 of Davison and Hinkley 1997, section
    4.2.5), consistent with the percentile interval. B resamplings give no p below 2 / (B + 1), with which no family of
    more than (B + 1) / 40 tests can pass Holm's correction. So if fewer than 10 resamplings lie beyond 0, a normal
    distribution with their mean and deviation gives p, if that is smaller.
    """
    from scipy.special import ndtr

    samples = differences.shape[1]
    beyond = np.minimum((differences <= 0).sum(axis=1), (differences >= 0).sum(axis=1))
    counted = np.minimum(2 * (1 + beyond) / (samples + 1), 1.0)
    spread = differences.std(axis=1)
    distance = np.abs(differences.mean(axis=1)) / np.where(spread > 0, spread, 1)
    normal = np.where(spread > 0, 2 * ndtr(-distance), 1.0)
    is_normal = (beyond < _RESOLVED) & (normal < counted)
    return np.where(is_normal, normal, counted), is_normal


def holm(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """Adjust the p values of a family of tests so that alpha bounds the chance of any false discovery.

    Holm 1979, https://www.jstor.org/stable/4615733: the k-th smallest of m values is multiplied by m - k + 1, and no
    value is smaller than the one before it.
    """
    order: Int[np.ndarray, " tests"] = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    p_holm = np.empty_like(p)
    p_holm[order] = np.minimum(adjusted, 1.0)
    return p_holm
