"""Tests paired tests and Holm's correction against SciPy, and against loops over pairs."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from disent_core.evaluation.metrics.statistics import bootstrap_p, holm, mcnemar, mcnemar_exact, mean_intervals


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


def test_the_score_statistic_agrees_with_a_permutation_test():
    a, b = (np.random.default_rng(1).random((2, 3, 1_500)) < [[[0.50]], [[0.52]]]).mean(axis=1)
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", n_resamples=2_000, rng=0
    )
    assert mcnemar(np.stack([a, b]))[0, 1] == pytest.approx(expected.pvalue, abs=0.02)


def test_intervals_of_differences_of_means_are_those_of_paired_proportions():
    outcomes = hits(2, 80, seed=1)
    won, lost = discordant(*outcomes)
    half = 1.96 * np.sqrt(won + lost - (won - lost) ** 2 / 80) / 80
    low, high = mean_intervals(outcomes, z=1.96)
    assert (low[0, 1], high[0, 1]) == pytest.approx(((won - lost) / 80 - half, (won - lost) / 80 + half))
    assert (low[1, 0], high[1, 0]) == pytest.approx((-high[0, 1], -low[0, 1]))


def test_bootstrap_p_counts_resamplings_on_the_rarer_side_with_the_observed_one():
    differences = np.r_[-np.ones(30), np.ones(169)]
    p, is_normal = bootstrap_p(np.stack([differences, -differences]))
    assert p.tolist() == [2 * 31 / 200] * 2
    assert not is_normal.any()
    assert bootstrap_p(np.zeros((1, 99))) == (1, False)


def test_bootstrap_p_beyond_what_can_be_counted_is_that_of_a_normal_distribution():
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
