"""faiss proposes candidates; scores are exact, and enough of the exact neighbours is found."""

import sys

import numpy as np
import pytest
from task_inputs import Late

from disent_core.evaluation.metrics import approximate_search
from disent_core.evaluation.metrics.approximate_search import recall_of, tune
from disent_core.evaluation.metrics.ranking import nearest

pytest.importorskip("faiss")
ROWS = np.random.default_rng(0).standard_normal((400, 16), dtype=np.float32)
QUERIES = np.random.default_rng(1).standard_normal((30, 16), dtype=np.float32)


@pytest.mark.parametrize("engine", ["hnsw", "ivf"])
def test_scores_are_exact_and_in_order_and_most_of_the_exact_neighbours_are_found(engine):
    scores, indices = nearest(QUERIES, ROWS, 10, engine=engine)
    all_scores, all_indices = nearest(QUERIES, ROWS, 400)
    score_of = np.empty_like(all_scores)
    np.put_along_axis(score_of, all_indices, all_scores, axis=1)
    np.testing.assert_array_equal(scores, np.take_along_axis(score_of, indices, axis=1))
    assert (np.diff(scores, axis=1) <= 0).all()
    exact = all_indices[:, :10].tolist()
    assert np.mean([len({*row} & {*exact[query]}) / 10 for query, row in enumerate(indices.tolist())]) > 0.9


def test_two_searches_give_the_same():
    np.testing.assert_array_equal(*(nearest(QUERIES, ROWS, 7, engine="ivf") for _ in range(2)))


def test_k_may_equal_the_size_of_the_pool():
    proposed, exact = (nearest(QUERIES, ROWS, 400, engine=engine) for engine in ("ivf", "exact"))
    np.testing.assert_array_equal(proposed, exact)


def test_copies_a_skipped_candidate_and_a_bias_are_as_in_exact_search():
    pool, bias = np.concatenate([ROWS, ROWS[:50]]), np.linspace(-1, 1, 450)
    skip = np.arange(30)
    options = {"skip": skip, "bias": bias}
    (_, proposed), (_, exact) = (nearest(ROWS[:30], pool, 2, **options, engine=engine) for engine in ("ivf", "exact"))
    assert (proposed == exact).mean() > 0.9
    assert not (proposed == skip[:, None]).any()
    few = nearest(ROWS[:30], pool[[*range(40), *range(40)]], 2, engine="ivf")[1]
    np.testing.assert_array_equal(few[:, 0] + 40, few[:, 1])


def test_a_late_interaction_needs_no_engine(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    query, pool = (Late(values, lambda left, right: -np.abs(left - right)) for values in ([3], [1, 4, 9]))
    assert nearest(query, pool, 1, engine="ivf")[1].tolist() == [[1]]


def test_tuning_picks_the_smallest_sufficient_effort():
    class Index:
        index = None

    tried = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(approximate_search, "efforts", lambda index: iter([8, 16, 32, 64]))
        patch.setattr(approximate_search, "set_effort", lambda index, effort: tried.append(effort))
        assert tune(Index(), lambda: tried[-1] / 40) == 64
        tried.clear()
        assert tune(Index(), lambda: 0.95 if tried[-1] == 16 else 0.94) == 16
    assert tried == [8, 16]


def test_recall_is_the_share_of_exact_scores_with_ties_counted():
    exact = [np.array([0.9, 0.8, 0.8]), np.array([0.5, 0.4, 0.3])]
    assert recall_of([np.array([0.9, 0.8, 0.8, 0.8]), np.array([0.5, 0.3, 0.2, 0.1])], exact) == pytest.approx(5 / 6)
