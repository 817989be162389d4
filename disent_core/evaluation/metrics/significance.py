"""Test all pairs of methods on the same items, and correct p values by Holm's method."""

import numpy as np
from jaxtyping import Bool, Float, Int

Items = Float[np.ndarray, "methods n"]
PerPair = Float[np.ndarray, "methods methods"]
_RESOLVED = 10  # from this number of resamplings beyond 0 on, their count estimates the tail


def mcnemar_exact(hits: Items) -> PerPair:
    """Return the two-sided p of every pair of methods by McNemar's exact test; 1 where both have the same items right.

    McNemar 1947, https://doi.org/10.1007/BF02295996: of the items that only one method has right, each method should
    have half (binomial distribution).
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
    equal. The p does not depend on the scale of the items: whole numbers keep the sums exact.
    """
    from scipy.special import chdtrc

    sums, squares = _differences(items)
    differs = squares > 0
    return np.where(differs, chdtrc(1, sums**2 / np.where(differs, squares, 1)), 1.0)


def mean_intervals(items: Items, *, z: float) -> tuple[PerPair, PerPair]:
    """Return the Wald interval of every difference of means, from the variance of the differences of items.

    For single runs of hits and misses it is the interval of paired proportions (Agresti 2013, Categorical Data
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
