"""Tests that results of shared matrices are kept exactly as long as the matrices live."""

import gc

import numpy as np
import pytest
from task_inputs import Late

from disent_core.evaluation.metrics import exact_search, ranking
from disent_core.evaluation.metrics.hubness import bias
from disent_core.evaluation.metrics.ranking import gold_ranks
from disent_core.evaluation.metrics.shared import RECENT, _alive, _results, recent, share, shared

calls = []


@shared
def multiplied(matrix, factor):
    calls.append(factor)
    return matrix * factor, None


def test_a_function_is_computed_at_each_call_but_of_a_shared_matrix_once_for_each_of_the_other_arguments():
    matrix = np.ones((2, 2))
    first = multiplied(matrix, 2)[0].sum()
    matrix *= 5
    assert (first, multiplied(matrix, 2)[0].sum()) == (8, 40)
    calls.clear()
    share(matrix)
    assert [multiplied(matrix, factor)[0].sum() for factor in (2, 2, 3)] == [40, 40, 60]
    assert calls == [2, 3]


def test_results_end_with_their_matrices():
    gc.collect()
    before = len(_results), len(_alive)
    matrix = np.ones((2, 2))
    share(matrix)
    inner, _ = multiplied(matrix, 2)
    multiplied(inner, 2)
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
        for part, expected_part in zip(ranking.nearest(queries, pool, k), expected, strict=True):
            np.testing.assert_array_equal(part, expected_part)
    assert len(searched) == 4


def late_sides(*, is_shared, pool=(1, 4, 4, 7)):
    sides = [Late(values, lambda left, right: np.cos(left * right)) for values in ([3, 5, 9], pool)]
    for side in sides if is_shared else ():
        share(side)
    Late.compared = 0
    return sides


def answers(queries, pool):
    gold = np.array([[0, 2], [1, 3], [2, -1]])
    skip = np.array([0, 1, 2])
    corrected = [ranking.nearest(queries, pool, 2, bias=bias(name, pool, queries)) for name in ("csls", "dual_softmax")]
    ranks = [gold_ranks(queries, pool, gold, ties="lowest", skip=skipped) for skipped in (skip, None)]
    return [*ranking.nearest(queries, pool, 2), *(part for found in corrected for part in found), *ranks]


def test_shared_late_interactions_are_compared_once_for_all_corrections():
    answers(*late_sides(is_shared=True))
    assert Late.compared == 2  # queries with the pool, and the pool with the queries


@pytest.mark.parametrize("pool", [(1, 4, 4, 7), (1, 4, 6, 7)])
def test_answers_of_shared_late_interactions_are_those_of_others(pool):
    shared_answers, others = (answers(*late_sides(is_shared=is_shared, pool=pool)) for is_shared in (True, False))
    for answer, other in zip(shared_answers, others, strict=True):
        np.testing.assert_array_equal(answer, other)


def test_more_scores_of_late_interactions_than_are_kept_are_computed_at_each_call(monkeypatch):
    monkeypatch.setattr(ranking, "_KEPT_SCORES", 5)
    queries, pool = late_sides(is_shared=True)
    first, second = (ranking.nearest(queries, pool, 2)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert Late.compared == 2


def test_of_recent_results_only_the_last_are_kept():
    matrices = [np.ones((1, 1)) * value for value in range(RECENT + 1)]
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
    assert calls == [*range(RECENT + 1), 0]
