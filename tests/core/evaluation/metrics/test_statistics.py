"""Tests statistics of weighted items against SciPy and counts by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from disent_core.evaluation.measurement import mean_of_items
from disent_core.evaluation.metrics.intervals import bootstrap, resampled
from disent_core.evaluation.metrics.statistics import STATISTICS, f1, pearson, precision, recall, spearman, statistic_of

CORRELATIONS = {pearson: stats.pearsonr, spearman: stats.spearmanr}
of_correlations = pytest.mark.parametrize("statistic", CORRELATIONS, ids=["pearson", "spearman"])


def scores(n, *, levels=None, seed=3):
    """Predictions, and gold values that take `levels` values."""
    items = np.random.default_rng(seed).multivariate_normal([0, 2], [[1, 0.6], [0.6, 1]], size=n)
    if levels:
        items[:, 1] = np.round(items[:, 1] * levels / 5)
    return items


@of_correlations
@pytest.mark.parametrize("levels", [None, 4])
def test_a_correlation_equals_scipys(statistic, levels):
    items = scores(80, levels=levels)
    assert statistic(items[None])[0] == pytest.approx(CORRELATIONS[statistic](*items.T).statistic, abs=1e-12)


@of_correlations
def test_the_interval_of_a_correlation_equals_scipys_on_the_same_draws(statistic):
    items = scores(60, levels=6)
    expected = stats.bootstrap(
        tuple(items.T),
        lambda x, y: CORRELATIONS[statistic](x, y).statistic,
        paired=True,
        vectorized=False,
        n_resamples=200,
        method="percentile",
        rng=np.random.default_rng(7),
    ).confidence_interval
    np.testing.assert_allclose(bootstrap(items[None], samples=200, seed=7, statistic=statistic), expected, atol=1e-12)


@given(st.integers(0, 999), st.sampled_from([*CORRELATIONS, f1, precision, recall]))
def test_weights_stand_for_copies_of_items(seed, statistic):
    rng = np.random.default_rng(seed)
    items = rng.integers(0, 4, (7, 2 if statistic in CORRELATIONS else 3)).astype(float)
    drawn = rng.integers(0, 7, (5, 7))
    weights = np.stack([np.bincount(sample, minlength=7) for sample in drawn]).astype(float)
    np.testing.assert_allclose(statistic.of(items, weights), statistic(items[drawn]), atol=1e-12)


@of_correlations
def test_a_constant_and_samples_of_one_item_again_and_again_have_no_correlation(statistic):
    items = scores(30)
    items[:, 0] = 0.1
    assert statistic(items[None])[0] == 0
    weights = np.array([[3.0, 0, 0], [0, 3, 0]])
    assert statistic.of(scores(3), weights).tolist() == [0, 0]


def test_f1_precision_and_recall_are_those_of_the_summed_counts():
    counts = np.array([[2.0, 3, 4], [1, 1, 2]])[None]
    assert (precision(counts)[0], recall(counts)[0], f1(counts)[0]) == pytest.approx((3 / 4, 3 / 6, 2 * 3 / 10))
    assert [statistic(np.zeros((1, 2, 3)))[0] for statistic in (f1, precision, recall)] == [0, 0, 0]


def test_a_weighted_statistic_is_resampled_as_a_plain_one_is():
    items = np.random.default_rng(0).integers(0, 5, (2, 40, 3)).astype(float)
    plain = resampled(items, samples=50, seed=1, statistic=f1.__call__)
    np.testing.assert_allclose(resampled(items, samples=50, seed=1, statistic=f1), plain, rtol=1e-12)


def test_a_metric_of_one_column_is_the_mean_and_one_of_several_is_known_by_its_name():
    assert statistic_of("anything", 1) is mean_of_items
    assert all(statistic_of(name, 2) is statistic for name, statistic in STATISTICS.items())
    assert statistic_of("anything", 2) is None
