"""Tests that results of shared matrices are kept exactly as long as the matrices live."""

import gc

import numpy as np
import pytest

from disent_core.evaluation.metrics import exact_search, ranking
from disent_core.evaluation.metrics.shared import _alive, _results, share, shared


@pytest.fixture
def calls():
    return []


@pytest.fixture
def doubled(calls):
    @shared
    def doubled(matrix, factor):
        calls.append(factor)
        return matrix * factor, None

    return doubled


def test_a_function_of_a_shared_matrix_is_computed_once_for_each_of_the_other_arguments(doubled, calls):
    matrix = np.ones((2, 2))
    share(matrix)
    assert [doubled(matrix, factor)[0].sum() for factor in (2, 2, 3)] == [8, 8, 12]
    assert calls == [2, 3]


def test_a_function_of_other_matrices_is_computed_at_each_call(doubled, calls):
    matrix = np.ones((2, 2))
    first = doubled(matrix, 2)[0].sum()
    matrix *= 5
    assert (first, doubled(matrix, 2)[0].sum()) == (8, 40)


def test_results_end_with_their_matrices(doubled):
    gc.collect()
    before = len(_results), len(_alive)
    matrix = np.ones((2, 2))
    share(matrix)
    inner, _ = doubled(matrix, 2)
    doubled(inner, 2)
    assert len(_results) == before[0] + 2
    del matrix, inner
    gc.collect()
    assert (len(_results), len(_alive)) == before


def test_searches_of_shared_matrices_for_any_few_neighbours_are_one(monkeypatch):
    searched = []
    search = exact_search.nearest_rows
    monkeypatch.setattr(exact_search, "nearest_rows", lambda *of, **by: searched.append(of) or search(*of, **by))
    rng = np.random.default_rng(0)
    queries, pool = (rng.normal(size=(count, 8)) for count in (20, 30))
    pool[7] = pool[3]
    alone = [ranking.nearest(queries, pool, k) for k in (1, 5, 10)]
    assert len(searched) == 3
    for matrix in (queries, pool):
        share(matrix)
    for k, expected in zip((1, 5, 10), alone, strict=True):
        for one, other in zip(ranking.nearest(queries, pool, k), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(searched) == 4
