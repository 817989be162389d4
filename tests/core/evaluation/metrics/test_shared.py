"""Tests that results of shared matrices are kept exactly as long as the matrices live."""

import gc

import numpy as np
import pytest

from disent_core.evaluation.metrics import exact_search, ranking
from disent_core.evaluation.metrics.gold_ranks import gold_ranks
from disent_core.evaluation.metrics.hubness import bias
from disent_core.evaluation.metrics.shared import _RECENT, _alive, _results, recent, share, shared


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


class Late:
    """A late interaction that counts how often it compares; equal places have equal embeddings."""

    compared = 0

    def __init__(self, places):
        self.places = np.asarray(places)

    def __len__(self):
        return len(self.places)

    def take(self, rows):
        return Late(self.places[rows])

    def identities(self):
        return self.places

    def similarity(self, pool):
        Late.compared += 1
        return np.cos(self.places[:, None] * pool.places).astype(np.float32)

    def paired(self, other):
        return np.diag(self.similarity(other))


def late_sides(*, is_shared, pool=(1, 4, 4, 7)):
    sides = Late([3, 5, 9]), Late(pool)
    for side in sides if is_shared else ():
        share(side)
    Late.compared = 0
    return sides


def answers(queries, pool):
    gold = np.array([[0, 2], [1, 3], [2, -1]])
    skip = np.array([0, 1, 2])
    corrected = [ranking.nearest(queries, pool, 2, bias=bias(name, pool, queries)) for name in ("csls", "dual_softmax")]
    ranks = [gold_ranks(queries, pool, gold, ties="lowest", skip=one) for one in (skip, None)]
    return [*ranking.nearest(queries, pool, 2), *(part for found in corrected for part in found), *ranks]


def test_shared_late_interactions_are_compared_once_for_all_corrections():
    answers(*late_sides(is_shared=True))
    assert Late.compared == 2  # queries with the pool, and the pool with the queries


@pytest.mark.parametrize("pool", [(1, 4, 4, 7), (1, 4, 6, 7)])
def test_answers_of_shared_late_interactions_are_those_of_others(pool):
    shared_answers, others = (answers(*late_sides(is_shared=is_shared, pool=pool)) for is_shared in (True, False))
    for one, other in zip(shared_answers, others, strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_scores_of_late_interactions_than_are_kept_are_computed_at_each_call(monkeypatch):
    monkeypatch.setattr(ranking, "_KEPT_SCORES", 5)
    queries, pool = late_sides(is_shared=True)
    first, second = (ranking.nearest(queries, pool, 2)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert Late.compared == 2


def test_of_recent_results_only_the_last_are_kept():
    matrices = [np.ones((1, 1)) * value for value in range(_RECENT + 1)]
    calls = []

    @recent
    def summed(matrix):
        calls.append(int(matrix.sum()))
        return matrix + 1

    for matrix in matrices:
        share(matrix)
        summed(matrix)
    summed(matrices[-1])
    summed(matrices[0])
    assert calls == [*range(_RECENT + 1), 0]
