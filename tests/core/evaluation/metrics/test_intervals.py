"""Tests intervals against those of SciPy on the same inputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics import intervals
from disent_core.evaluation.metrics.intervals import aggregate, bootstrap, seeds_resampled, wilson
from disent_core.evaluation.metrics.statistics import pearson


@given(st.integers(1, 5_000), st.floats(0, 1), st.sampled_from([0.9, 0.95, 0.99]))
def test_wilson_equals_scipy(n, share, confidence):
    successes = round(share * n)
    expected = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    np.testing.assert_allclose(wilson(successes, n, confidence=confidence), expected, atol=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_rejects_what_is_no_proportion_and_bootstrap_no_items(successes, n):
    with pytest.raises(ValueError, match=f"{successes} successes of {n}"):
        wilson(successes, n)
    with pytest.raises(ValueError, match="nothing to resample"):
        bootstrap(np.zeros((1, 0)), samples=10, seed=0)


def test_bootstrap_equals_scipy_on_the_same_draws():
    items = np.random.default_rng(3).gamma(2, size=300)
    expected = stats.bootstrap(
        (items,), np.mean, n_resamples=500, method="percentile", rng=np.random.default_rng(7)
    ).confidence_interval
    np.testing.assert_allclose(bootstrap(items[None], samples=500, seed=7), expected, rtol=1e-12)


def test_bootstrap_over_seeds_equals_a_loop_that_resamples_queries_for_all_seeds():
    items = np.random.default_rng(0).random((3, 40))
    rng = np.random.default_rng(5)
    means = []
    for _ in range(100):
        drawn = rng.integers(0, 40, 40)
        means.append(np.mean([seed[drawn].mean() for seed in items]))
    expected = np.percentile(means, [2.5, 97.5])
    np.testing.assert_allclose(bootstrap(items, samples=100, seed=5), expected)


def test_bootstrap_depends_neither_on_the_size_of_blocks_nor_on_how_a_mean_is_computed(monkeypatch):
    items = np.random.default_rng(0).random((3, 50))
    in_one_block = bootstrap(items, samples=200, seed=1)
    general = bootstrap(items, samples=200, seed=1, statistic=lambda samples: samples.mean(axis=1))
    np.testing.assert_allclose(general, in_one_block)
    monkeypatch.setattr(intervals, "_BLOCK_ITEMS", 170)
    assert bootstrap(items, samples=200, seed=1) == in_one_block


@pytest.mark.parametrize("statistic", [None, pearson])
def test_an_interval_over_seeds_and_items_equals_a_loop_that_draws_both(statistic):
    items = np.random.default_rng(0).random((4, 40) if statistic is None else (4, 40, 2))
    of_items, of_seeds = np.random.default_rng(5), np.random.default_rng([5, 0])
    places = of_seeds.integers(0, 4, (3, 100))  # k - 1 of k seeds
    means = []
    for sample in range(100):
        drawn = of_items.integers(0, 40, 40)
        values = [run[drawn].mean() if statistic is None else np.corrcoef(run[drawn].T)[0, 1] for run in items]
        means.append(sum(values[place] for place in places[:, sample]) / 3)
    expected = np.percentile(means, [2.5, 97.5])
    general = {} if statistic is None else {"statistic": statistic}
    actual = bootstrap(items, samples=100, seed=5, over="seeds_and_items", **general)
    np.testing.assert_allclose(actual, expected)


@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_means_of_resampled_seeds_spread_as_the_mean_of_as_many_trainings_does(seeds):
    values = np.random.default_rng(1).normal(size=(seeds, 1))
    means = seeds_resampled(np.repeat(values, 40_000, axis=1), seed=0)
    assert means.mean() == pytest.approx(values.mean(), abs=0.02)
    assert means.var() == pytest.approx(values.var(ddof=1) / seeds, rel=0.04)
    assert values.min() <= means.min() <= means.max() <= values.max()


def test_seeds_of_two_systems_are_drawn_apart_and_a_single_seed_is_not_drawn():
    values = np.repeat(np.random.default_rng(1).normal(size=(3, 1)), 20_000, axis=1)
    first, again, other = (seeds_resampled(values, seed=0, name=name) for name in ("a", "a", "b"))
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.03
    np.testing.assert_array_equal(seeds_resampled(values[:1], seed=0), values[0])


def test_one_seed_of_hits_and_misses_has_the_wilson_interval():
    mean = aggregate([measured("accuracy_at_1", np.array([1.0, 0.0, 1.0, 1.0]))], samples=10, seed=0)
    assert (mean.value, mean.n, mean.ci_low, mean.ci_high) == (0.75, 4, *wilson(3, 4))


def test_several_seeds_have_the_mean_over_seeds_and_the_bootstrap_interval():
    items = np.random.default_rng(0).integers(0, 2, (3, 60)).astype(float)
    mean = aggregate([measured("accuracy_at_1", row) for row in items], samples=50, seed=4)
    assert mean.value == pytest.approx(items.mean())
    assert (mean.ci_low, mean.ci_high) == bootstrap(items, samples=50, seed=4)
    of_both = aggregate([measured("accuracy_at_1", row) for row in items], samples=50, seed=4, over="seeds_and_items")
    assert (of_both.ci_low, of_both.ci_high) == bootstrap(items, samples=50, seed=4, over="seeds_and_items")


def test_a_metric_without_items_has_no_interval_and_different_items_are_not_aggregated():
    mean = aggregate([Measurement(metric="silhouette", value=v, n=9) for v in (0.1, 0.3)], samples=9, seed=0)
    assert (mean.value, mean.ci_low, mean.ci_high) == (pytest.approx(0.2), None, None)
    with pytest.raises(ValueError, match="same items"):
        aggregate([measured("map", np.ones(3)), measured("map", np.ones(4))], samples=10, seed=0)
