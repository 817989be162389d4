"""Compute 95 % confidence intervals of metrics, and aggregate one metric over seeds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal
from zlib import crc32

import numpy as np
from jaxtyping import Float, Int

from disent_core.evaluation.measurement import Measurement, Statistic, mean_of_items
from disent_core.evaluation.metrics.statistics import WeightedStatistic

Intervals = Literal["items", "seeds_and_items"]
"""What an interval over several seeds resamples."""
CONFIDENCE = 0.95
_BLOCK_ITEMS = 1 << 19  # resampled items held at once: 4 MB per column, which fits in the cache
_KEPT_ITEMS = 1 << 22  # resampled items whose weights are kept: 32 MB


def wilson(successes: int, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion, without continuity correction.

    Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953.
    """
    from scipy.special import ndtri

    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes of {n} are not a proportion")
    z = float(ndtri(0.5 + confidence / 2))
    centre = (successes + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * np.sqrt(successes * (n - successes) / n + z**2 / 4)
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == n else float(centre + half)
    return low, high


def bootstrap(
    items: Float[np.ndarray, "seeds n ..."],
    *,
    samples: int,
    seed: int,
    statistic: Statistic = mean_of_items,
    over: Intervals = "items",
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean over seeds of a statistic (`resampled`).

    Efron 1979, https://doi.org/10.1214/aos/1176344552. Over `items` the interval shows how much the number depends on
    which items were drawn for the evaluation set, given these heads; over `seeds_and_items` also on the seeds of the
    training (`seeds_resampled`). If all items are equal, both ends are equal.
    """
    values = resampled(items, samples=samples, seed=seed, statistic=statistic)
    means = values.mean(axis=0) if over == "items" else seeds_resampled(values, seed=seed)
    low, high = np.percentile(means, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def seeds_resampled(
    values: Float[np.ndarray, "seeds samples"], *, seed: int, name: str = ""
) -> Float[np.ndarray, " samples"]:
    """Return for each sample of the items the mean over a sample of the seeds; a single seed is returned unchanged.

    Of k seeds, k - 1 are drawn with replacement (Rao and Wu 1988, Resampling inference with complex survey data): the
    mean of k draws would have only (k - 1) / k of the variance of the mean over k trainings, two thirds for three
    seeds. Unlike deviations scaled by sqrt(k / (k - 1)), a mean of drawn seeds stays in the metric's range. Seeds and
    items are drawn independently (Owen 2007, https://doi.org/10.1214/07-AOAS122), which counts their interaction more
    than once: for that part the interval is too wide rather than too narrow. It ignores that the spread of three
    trainings is itself uncertain.

    Args:
        values: of each seed on the same samples of the items.
        seed: of the draws.
        name: of the system, so that the draws of two systems are independent.
    """
    k, samples = values.shape
    if k == 1:
        return values[0]
    drawn = np.random.default_rng([seed, crc32(name.encode())]).integers(0, k, (k - 1, samples))
    return np.take_along_axis(values, drawn, axis=0).mean(axis=0)


def resampled(
    items: Float[np.ndarray, "runs n ..."], *, samples: int, seed: int, statistic: Statistic = mean_of_items
) -> Float[np.ndarray, "runs samples"]:
    """Return the statistic of each run on resamplings of the items with replacement; all runs share the resamplings.

    A run is a seed, or a seed of one of several methods. A `WeightedStatistic` and the mean are fast.
    """
    runs, n = items.shape[:2]
    if not runs or not n or samples < 1:
        raise ValueError(f"nothing to resample: {(runs, n)} runs and items, {samples} samples")
    if statistic is mean_of_items:  # runs x n times n x block
        blocks = [items @ weights.T / n for weights in _weights(n, samples, seed)]
    elif isinstance(statistic, WeightedStatistic):
        blocks = [np.stack([statistic.of(run, weights) for run in items]) for weights in _weights(n, samples, seed)]
    else:
        blocks = [np.stack([statistic(run[drawn]) for run in items]) for drawn in _draws(n, samples, seed)]
    return np.concatenate(blocks, axis=1)


def _draws(n: int, samples: int, seed: int) -> Iterator[Int[np.ndarray, "block n"]]:
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK_ITEMS // n)
    for start in range(0, samples, step):
        yield rng.integers(0, n, (min(step, samples - start), n))


def _weights(n: int, samples: int, seed: int) -> Iterable[Float[np.ndarray, "block n"]]:
    """Return how often each item occurs in each sample, in blocks; cache the results for the last few numbers of items.

    An evaluation calls this hundreds of times, for a dozen numbers of items.
    """
    return _kept_weights(n, samples, seed) if n * samples <= _KEPT_ITEMS else _counted(n, samples, seed)


@lru_cache(maxsize=4)
def _kept_weights(n: int, samples: int, seed: int) -> list[Float[np.ndarray, "block n"]]:
    return list(_counted(n, samples, seed))


def _counted(n: int, samples: int, seed: int) -> Iterator[Float[np.ndarray, "block n"]]:
    for drawn in _draws(n, samples, seed):
        # One bincount for all samples: sample b is counted at positions b * n to (b + 1) * n.
        places = drawn + n * np.arange(len(drawn))[:, None]
        yield np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(float)


def aggregate(
    measurements: Sequence[Measurement], *, samples: int, seed: int, over: Intervals = "items"
) -> Measurement:
    """Return the mean over seeds of one metric of the same items, with its 95 % interval.

    A single seed whose items are all 0 or 1 gets the Wilson interval. Everything else gets a bootstrap interval over
    the items, which all seeds share, or over seeds and items (`over`). Without items there is none.
    """
    kinds = {(measurement.metric, measurement.n) for measurement in measurements}
    if len(kinds) != 1:
        raise ValueError(f"measurements must be of one metric over the same items, not of (metric, n) {sorted(kinds)}")
    first, low, high = measurements[0], None, None
    items = [measurement.items for measurement in measurements if measurement.items is not None]
    if len(items) == len(measurements):
        if len(items) == 1 and first.statistic is mean_of_items and np.isin(items[0], (0.0, 1.0)).all():
            low, high = wilson(int(items[0].sum()), first.n)
        else:
            low, high = bootstrap(np.stack(items), samples=samples, seed=seed, statistic=first.statistic, over=over)
    value = float(np.mean([measurement.value for measurement in measurements]))
    return replace(first, value=value, items=None, ci_low=low, ci_high=high, ranking=None)
