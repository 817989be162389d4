"""Exact search by numpy alone, against the one by torch, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disent_core import exact
from disent_core.evaluation.metrics import exact_search
from disent_core.evaluation.metrics.ranking import expanded, grouped


def rows(seed: int, count: int, dim: int, *, values: int = 3) -> np.ndarray:
    """Rows of few different values, so that many scores are equal; some are of zeros."""
    drawn = np.random.default_rng(seed).integers(-values, values + 1, size=(count, dim))
    return exact.unit(drawn.astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 60), st.integers(1, 7), st.data())
def test_numpy_gives_the_scores_and_ranks_of_torch_to_the_bit(seed, queries, pool, dim, data):
    k = data.draw(st.integers(1, pool))
    left, right = rows(seed, queries, dim), rows(seed + 1, pool, dim)
    for ours, theirs in zip(exact.nearest_rows(left, right, k), exact_search.nearest_rows(left, right, k), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_blocks_of_queries_and_candidates_change_nothing(monkeypatch):
    left, right = rows(0, 7, 5), rows(1, 50, 5)
    expected = exact.nearest_rows(left, right, 9)
    monkeypatch.setattr(exact, "_BLOCK", 8)
    monkeypatch.setattr(exact, "_SCORES", 100)
    for ours, theirs in zip(exact.nearest_rows(left, right, 9), expected, strict=True):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("k", [1, 4, 30])
def test_texts_with_equal_rows_share_their_score_and_are_by_index(k):
    left, distinct = rows(0, 4, 5), rows(1, 8, 5, values=9)
    group = np.random.default_rng(2).permutation(np.arange(30) % 8)
    found = exact_search.nearest_rows(left, distinct, min(k, 8))
    by_torch = expanded(*found, grouped(group), k)
    for ours, theirs in zip(exact.nearest_rows(left, distinct, k, group), by_torch, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_a_row_of_zeros_stays_zero_and_others_have_norm_one_whatever_their_scale():
    units = exact.unit(np.array([[0, 0], [3e30, 4e30], [3e-30, 4e-30]], dtype=np.float32))
    assert units.tolist() == [[0, 0], pytest.approx([0.6, 0.8], abs=1e-7), pytest.approx([0.6, 0.8], abs=1e-7)]
