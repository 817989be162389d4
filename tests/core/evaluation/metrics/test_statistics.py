"""Intervals, paired tests, Holm's correction and statistics of weighted items, against SciPy and loops."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics import intervals
from disent_core.evaluation.metrics.intervals import aggregate, bootstrap, seeds_resampled, wilson
from disent_core.evaluation.metrics.statistics import (
    bootstrap_p,
    f1,
    holm,
    mcnemar,
    mcnemar_exact,
    pearson,
    precision,
    recall,
    spearman,
)


@given(st.integers(1, 5_000), st.floats(0, 1), st.sampled_from([0.9, 0.95, 0.99]))
def test_wilson_equals_scipy(n, share, confidence):
    successes = round(share * n)
    expected = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    np.testing.assert_allclose(wilson(successes, n, confidence=confidence), expected, atol=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_rejects_invalid_proportions_and_bootstrap_rejects_empty_input(successes, n):
    with pytest.raises(ValueError, match=f"{successes} successes of {n}"):
        wilson(successes, n)
    with pytest.raises(ValueError, match="nothing to resample"):
        bootstrap(np.zeros((1, 0)), samples=10, seed=0)


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


def test_several_seeds_have_the_mean_over_seeds_and_the_bootstrap_interval():
    items = np.random.default_rng(0).integers(0, 2, (3, 60)).astype(float)
    mean = aggregate([measured("accuracy_at_1", row) for row in items], samples=50, seed=4)
    assert mean.value == pytest.approx(items.mean())
    assert (mean.ci_low, mean.ci_high) == bootstrap(items, samples=50, seed=4)
    of_both = aggregate([measured("accuracy_at_1", row) for row in items], samples=50, seed=4, over="seeds_and_items")
    assert (of_both.ci_low, of_both.ci_high) == bootstrap(items, samples=50, seed=4, over="seeds_and_items")


def test_a_metric_without_items_has_no_interval_and_unequal_items_are_refused():
    mean = aggregate([Measurement(metric="silhouette", value=v, n=9) for v in (0.1, 0.3)], samples=9, seed=0)
    assert (mean.value, mean.ci_low, mean.ci_high) == (pytest.approx(0.2), None, None)
    with pytest.raises(ValueError, match="same items"):
        aggregate([measured("map", np.ones(3)), measured("map", np.ones(4))], samples=10, seed=0)


def hits(methods, n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((methods, n)) < rng.uniform(0.2, 0.8, (methods, 1))).astype(float)


def discordant(a, b):
    return int((a > b).sum()), int((b > a).sum())


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (mcnemar_exact, lambda won, lost: stats.binomtest(won, won + lost).pvalue),
        (mcnemar, lambda won, lost: stats.chi2.sf((won - lost) ** 2 / (won + lost), 1)),
    ],
)
@given(st.integers(0, 999), st.integers(1, 60))
def test_mcnemars_tests_of_single_runs_equal_scipys_of_every_pair(test, expected, seed, n):
    outcomes = hits(4, n, seed)
    p = test(outcomes)
    for a, b in product(range(4), repeat=2):
        won, lost = discordant(outcomes[a], outcomes[b])
        assert p[a, b] == pytest.approx(expected(won, lost) if won + lost else 1.0, rel=1e-9)


def test_the_score_statistic_of_means_over_seeds_equals_a_loop_and_is_blind_to_their_scale():
    means = hits(6, 50).reshape(2, 3, 50).mean(axis=1)
    total = squares = 0.0
    for a, b in zip(*means, strict=True):
        total, squares = total + a - b, squares + (a - b) ** 2
    expected = stats.chi2.sf(total**2 / squares, 1)
    np.testing.assert_allclose([mcnemar(means)[0, 1], mcnemar(3 * means)[1, 0]], expected, rtol=1e-9)


def test_bootstrap_p_counts_resamplings_on_the_rarer_side_with_the_observed_one():
    differences = np.r_[-np.ones(30), np.ones(169)]
    p, is_normal = bootstrap_p(np.stack([differences, -differences]))
    assert p.tolist() == [2 * 31 / 200] * 2
    assert not is_normal.any()
    assert bootstrap_p(np.zeros((1, 99))) == (1, False)


def test_bootstrap_p_below_the_resolution_uses_a_normal_approximation():
    differences = np.random.default_rng(0).normal(8, 1, (1, 999))
    p, is_normal = bootstrap_p(differences)
    assert is_normal.all()
    assert p[0] == pytest.approx(2 * stats.norm.sf(differences.mean() / differences.std()), rel=1e-9)


def test_bootstrap_p_is_never_above_the_counted_one():
    differences = np.random.default_rng(0).normal(3, 1, (200, 99))
    p, is_normal = bootstrap_p(differences)
    counted = 2 * (1 + (differences <= 0).sum(axis=1)) / 100
    assert is_normal.any()
    assert (p <= counted).all()


def holm_by_steps(p):
    """Reject the smallest while it is below alpha / tests left; the adjusted p is the alpha that just rejects."""
    adjusted, left, worst = {}, list(range(len(p))), 0.0
    while left:
        smallest = min(left, key=lambda place: p[place])
        worst = max(worst, len(left) * p[smallest])
        adjusted[smallest] = min(worst, 1.0)
        left.remove(smallest)
    return [adjusted[place] for place in range(len(p))]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_equals_rejecting_step_by_step(p):
    assert holm(np.array(p)).tolist() == pytest.approx(holm_by_steps(p))


CORRELATIONS = {pearson: stats.pearsonr, spearman: stats.spearmanr}
of_correlations = pytest.mark.parametrize("statistic", CORRELATIONS, ids=["pearson", "spearman"])


def scores(n, *, levels=None):
    items = np.random.default_rng(3).multivariate_normal([0, 2], [[1, 0.6], [0.6, 1]], size=n)
    if levels:
        items[:, 1] = np.round(items[:, 1] * levels / 5)
    return items


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
