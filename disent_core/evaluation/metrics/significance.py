"""Paired tests of many methods on the same items, all pairs at once, and Holm's correction."""

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import bdtr, chdtrc, ndtr

_RESOLVED = 10  # resamplings beyond 0 from which on their number tells the tail


def mcnemar_exact(hits: Float[np.ndarray, "methods n"]) -> Float[np.ndarray, "methods methods"]:
    """Two-sided p of every two methods: of the items that one alone has right, is either's share half?

    McNemar 1947, https://doi.org/10.1007/BF02295996, with the binomial distribution itself; 1 where both
    have the same items right.

    Args:
        hits: of each item, 1 where the method is right, 0 where it is not.
    """
    both = hits @ hits.T
    alone = np.diag(both)[:, None] - both  # right where the other is wrong
    discordant = alone + alone.T
    return np.minimum(2 * bdtr(np.minimum(alone, alone.T), discordant.astype(int), 0.5), 1.0)


def mcnemar(items: Float[np.ndarray, "methods n"]) -> Float[np.ndarray, "methods methods"]:
    """Two-sided p of every two methods from the score statistic (sum of d)^2 / sum of d^2, d their differences.

    With differences of -1, 0 and 1 it is McNemar's (b - c)^2 / (b + c); with mean scores over seeds the same
    test of whether an item's difference is 0 on average. Chi-squared with one degree of freedom; 1 where all
    items are the same. The p does not depend on the scale of the items: whole numbers keep the sums exact.

    Args:
        items: score of each item, in one scale for all methods.
    """
    sums, squares = _differences(items)
    is_odd = squares > 0
    return np.where(is_odd, chdtrc(1, sums**2 / np.where(is_odd, squares, 1)), 1.0)


def mean_intervals(
    items: Float[np.ndarray, "methods n"], *, z: float
) -> tuple[Float[np.ndarray, "methods methods"], Float[np.ndarray, "methods methods"]]:
    """Wald interval of every difference of means, from the variance of the items' differences.

    For one run it is that of paired proportions: Agresti 2013, Categorical Data Analysis, equation 11.2.

    Args:
        items: score of each item.
        z: half the width of the interval in standard errors, 1.96 for 95 %.
    """
    n = items.shape[1]
    sums, squares = _differences(items)
    mean = sums / n
    half = z * np.sqrt(np.maximum(squares / n - mean**2, 0) / n)
    return mean - half, mean + half


def _differences(
    items: Float[np.ndarray, "methods n"],
) -> tuple[Float[np.ndarray, "methods methods"], Float[np.ndarray, "methods methods"]]:
    """Sum of the differences of every two methods, row less column, and of their squares."""
    products, sums = items @ items.T, items.sum(axis=1)
    own = np.diag(products)
    return sums[:, None] - sums, own[:, None] + own - 2 * products


def bootstrap_p(
    differences: Float[np.ndarray, "pairs samples"],
) -> tuple[Float[np.ndarray, " pairs"], Bool[np.ndarray, " pairs"]]:
    """Two-sided p of each difference being 0, from its paired bootstrap; and whether it is extrapolated.

    Twice the share of resamplings on the rarer side of 0, the observed one among them (the +1 of Davison and
    Hinkley 1997, section 4.2.5), as the percentile interval has it. B resamplings know no p below 2 / (B + 1),
    which no family of more than (B + 1) / 40 tests can pass Holm's correction with. So where fewer than 10 lie
    beyond 0, p is that of a normal distribution of the resamplings' mean and deviation, if it is smaller.

    Args:
        differences: of the statistic of two methods, on the same resamplings.
    """
    samples = differences.shape[1]
    beyond = np.minimum((differences <= 0).sum(axis=1), (differences >= 0).sum(axis=1))
    counted = np.minimum(2 * (1 + beyond) / (samples + 1), 1.0)
    spread = differences.std(axis=1)
    far = np.abs(differences.mean(axis=1)) / np.where(spread > 0, spread, 1)
    normal = np.where(spread > 0, 2 * ndtr(-far), 1.0)
    is_normal = (beyond < _RESOLVED) & (normal < counted)
    return np.where(is_normal, normal, counted), is_normal


def holm(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """p values of a family of tests, adjusted so that the chance of any false discovery is bounded by alpha.

    Holm 1979, https://www.jstor.org/stable/4615733: the k-th smallest of m is multiplied by m - k + 1, and none
    is smaller than one before it.
    """
    order: Int[np.ndarray, " tests"] = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty_like(p)
    out[order] = np.minimum(adjusted, 1.0)
    return out
