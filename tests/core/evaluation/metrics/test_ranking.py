"""Exact retrieval, corrections for hubs and the search with a bias against loops; results of shared matrices."""

import gc
import math
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_inputs import Late

from disent_core.errors import DisentError
from disent_core.evaluation.metrics import exact_search, ranking
from disent_core.evaluation.metrics.ranking import average_precision, gold_ranks, nearest, unit_rows
from disent_core.evaluation.metrics.shared import RECENT, _alive, _results, recent, share, shared
from disent_core.evaluation.tasks.retrieval_problem import TEMPERATURE, bias
from disent_core.exact import on_grid

QUERIES, POOL, DIM = 7, 12, 5


def cosine(left, right):
    norms = np.linalg.norm(left) * np.linalg.norm(right)
    return float(left @ right / norms) if norms else 0.0


seeds = st.integers(0, 10_000)


def copies(rng):
    """Queries and a pool of copies, of a shape for which one matrix product scores copies differently."""
    return rng.normal(size=(333, 400)), np.repeat(rng.normal(size=(1, 400)), 110, axis=0)


def test_copies_in_a_large_pool_tie_to_the_bit_and_their_ranks_follow_their_index():
    queries, pool = copies(np.random.default_rng(0))
    scores, indices = nearest(queries, pool, 3)
    assert (indices == [0, 1, 2]).all()
    assert (np.ptp(scores, axis=1) == 0).all()
    gold = np.arange(333)[:, None] % 110
    assert (gold_ranks(queries, pool, gold, ties="lowest") == gold + 1).all()


def test_different_rows_with_equal_checksums_stay_two_candidates():
    ones = np.ones((1, 4))
    pool = np.concatenate([ones, ones * [1, -1, 1, -1]])  # the two signs are 2^63 times an odd factor each
    assert ranking._copies(ranking.unit_rows(pool, "pool"))[0] is None
    assert nearest(pool, pool, 1)[1][:, 0].tolist() == [0, 1]


def test_zeros_score_zero_and_a_query_of_zeros_finds_the_first_candidates():
    scores, indices = nearest(np.zeros((1, DIM)), np.random.default_rng(0).normal(size=(POOL, DIM)), 3)
    assert (scores.tolist(), indices.tolist()) == ([[0, 0, 0]], [[0, 1, 2]])
    scores, indices = nearest(np.ones((1, 2)), np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]), 3)
    assert indices.tolist() == [[2, 1, 0]]
    np.testing.assert_allclose(scores, [[1, 0, -1]], atol=1e-6)


@given(seeds, st.integers(1, POOL))
def test_a_skipped_candidate_is_never_found(seed, k):
    rng = np.random.default_rng(seed)
    queries, pool = rng.normal(size=(QUERIES, DIM)), rng.normal(size=(4, DIM))[rng.integers(0, 4, POOL)]
    skip = rng.integers(0, POOL, QUERIES)
    _, rankings = nearest(queries, pool, POOL)
    _, without_skipped = nearest(queries, pool, k, skip=skip)
    for row, full, skipped in zip(without_skipped, rankings, skip, strict=True):
        assert row.tolist() == [place for place in full if place != skipped][:k]


def test_half_precision_and_norms_whose_squares_leave_single_precision_are_harmless():
    rows = np.eye(4, dtype=np.float32)
    for queries, pool in ((rows * np.float32(1e-30), rows * np.float32(1e30)), (rows.astype(np.float16),) * 2):
        assert nearest(queries, pool, 1)[1][:, 0].tolist() == [0, 1, 2, 3]


def ranks_by_loop(query, pool, gold, ties, skip):
    last = {place: ties == "worst" and place in gold for place in range(len(pool))}
    order = sorted(
        (place for place in range(len(pool)) if place != skip),
        key=lambda place: (-round(cosine(query, pool[place]), 9), last[place], place),
    )
    return [order.index(place) + 1 if place >= 0 else 0 for place in gold]


@pytest.mark.parametrize("ties", ["lowest", "worst"])
@given(seed=seeds, skipping=st.booleans())
def test_gold_ranks_equal_a_sort_of_all_candidates(ties, seed, skipping):
    rng = np.random.default_rng(seed)
    distinct = rng.normal(size=(5, DIM))  # no two of them score alike, but most candidates have copies
    queries, pool = rng.normal(size=(QUERIES, DIM)), distinct[rng.integers(0, 5, POOL)]
    gold = np.array([rng.permutation(POOL)[:4] for _ in range(QUERIES)])
    skip = np.array([gold_row[3] for gold_row in gold]) if skipping else None
    gold[:, 3] = -1
    ranks = gold_ranks(queries, pool, gold, ties=ties, skip=skip)
    for number, query in enumerate(queries):
        skipped = skip[number] if skipping else -1
        assert ranks[number].tolist() == ranks_by_loop(query, pool, gold[number].tolist(), ties, skipped)


def test_gold_ranks_do_not_depend_on_the_size_of_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    queries, pool = rng.normal(size=(40, DIM)), rng.normal(size=(30, DIM))
    gold = rng.integers(0, 30, (40, 2))
    in_one_block = gold_ranks(queries, pool, gold, ties="lowest")
    monkeypatch.setattr(ranking, "_BLOCK_SCORES", 64)
    assert (gold_ranks(queries, pool, gold, ties="lowest") == in_one_block).all()


@pytest.mark.parametrize("ties", ["lowest", "worst"])
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-7])
def test_gold_ranks_are_those_of_exact_scores_however_close_these_are(monkeypatch, ties, spread):
    rng = np.random.default_rng(2)
    queries, pool = rng.normal(size=(30, 64)), rng.normal(size=64) + spread * rng.normal(size=(40, 64))
    gold, skip = np.array([rng.permutation(40)[:4] for _ in range(30)]), rng.integers(0, 40, 30)
    gold[::2, 3] = -1
    screened = gold_ranks(queries, pool, gold, ties=ties, skip=skip)
    monkeypatch.setattr(exact_search, "margin", lambda dim: 3.0)  # float32 tells no two candidates apart
    assert (screened == gold_ranks(queries, pool, gold, ties=ties, skip=skip)).all()


def test_average_precision_is_the_mean_precision_at_the_ranks_and_every_query_has_gold():
    ranks = np.array([[3, 1, 0], [2, 5, 9], [2, 3, 1]])
    by_hand = [(1 / 1 + 2 / 3) / 2, (1 / 2 + 2 / 5 + 3 / 9) / 3, 1]
    np.testing.assert_allclose(average_precision(ranks), by_hand)
    with pytest.raises(ValueError, match="1 of 2 queries"):
        average_precision(np.array([[1, 2], [0, 0]]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_named_by_its_row(value):
    pool = np.ones((4, DIM))
    pool[2, 1] = value
    with pytest.raises(DisentError, match=r"pool: 1 of 4 rows .* first row 2"):
        nearest(np.ones((1, DIM)), pool, 1)


def test_dimensions_that_differ_and_an_empty_pool_are_rejected():
    with pytest.raises(ValueError, match="queries have 2 dimensions, candidates 3"):
        nearest(np.ones((1, 2)), np.ones((4, 3)), 1)
    with pytest.raises(ValueError, match="nothing to search"):
        gold_ranks(np.ones((1, 2)), np.ones((0, 2)), np.zeros((1, 1), int), ties="lowest")


def test_gold_ranks_hold_a_block_of_scores_and_never_the_whole_matrix():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6_000, 8)).astype(np.float32)
    tracemalloc.start()
    gold_ranks(rows, rows, np.arange(6_000)[:, None], ties="lowest")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * ranking._BLOCK_SCORES * 4 < 6_000**2 * 4


def rows(rng, number, dim=4):
    return rng.normal(size=(number, dim)).astype(np.float32)


def table_of_cosines(queries, pool):
    return [[float(q @ c / np.linalg.norm(q) / np.linalg.norm(c)) for c in pool] for q in queries]


def late(matrix):
    norm = partial(np.linalg.norm, axis=-1)
    return Late(matrix, lambda left, right: (left * right).sum(axis=-1) / norm(left) / norm(right))


@pytest.mark.parametrize("wrap", [np.asarray, late])
@given(seeds, st.integers(1, 14))
def test_biases_equal_loops_over_the_bank(wrap, seed, size):
    rng = np.random.default_rng(seed)
    pool, bank = rows(rng, 5), rows(rng, size)
    means, soft = [], []
    for near in table_of_cosines(pool, bank):
        highest = sorted(near, reverse=True)[:10]
        means.append(sum(highest) / len(highest))
        total = sum(math.exp((cosine - 1) / TEMPERATURE) for cosine in near)
        soft.append(1 + TEMPERATURE * math.log(total / len(near)))
    for hubness, expected in (("csls", means), ("train_bias", means), ("dual_softmax", soft)):
        np.testing.assert_allclose(bias(hubness, wrap(pool), wrap(bank)), expected, atol=1e-5)


@pytest.mark.parametrize("k", [1, 5])
def test_the_search_with_a_bias_is_exact_in_a_large_pool_of_near_ties(k):
    rng = np.random.default_rng(1)
    queries, centre = rows(rng, 40, 16), rows(rng, 1, 16)
    pool = centre + 1e-4 * rows(rng, 6_000, 16)
    of_pool = 1e-6 * rng.normal(size=6_000)
    scores, indices = nearest(queries, pool, k, bias=of_pool)
    halves = on_grid((of_pool / 2).astype(np.float32)[:, None])[:, 0].astype(float)
    exact = unit_rows(queries, "q").astype(float) @ unit_rows(pool, "p").astype(float).T - halves
    rounded = exact.astype(np.float32)
    for row, actual, best in zip(rounded, indices, scores, strict=True):
        expected = np.lexsort((np.arange(6_000), -row))[:k]
        assert actual.tolist() == expected.tolist()
        assert best.tolist() == row[expected].tolist()


def test_a_skipped_candidate_stays_skipped_with_a_bias():
    rng = np.random.default_rng(2)
    queries, pool, skip = rows(rng, 6), rows(rng, 5), np.arange(6) % 5
    _, indices = nearest(queries, pool, 5, skip=skip, bias=rng.uniform(-1, 1, 5))
    assert not (indices == skip[:, None]).any()


def hub_and_spokes():
    """Each candidate is near to its query, but the first one is nearer to all queries; the bank is the queries."""
    rng = np.random.default_rng(3)
    spokes = np.eye(12, dtype=np.float32)[1:]
    hub = spokes.sum(axis=0, keepdims=True)
    queries = spokes + 1.1 * hub / np.linalg.norm(hub)
    queries = queries + 0.01 * rng.normal(size=queries.shape)
    return queries, queries[::-1], np.concatenate([hub, spokes])


@pytest.mark.parametrize("wrap", [np.asarray, late])
@pytest.mark.parametrize("hubness", ["csls", "dual_softmax", "train_bias"])
def test_a_hub_is_found_by_all_queries_until_it_is_corrected(hubness, wrap):
    queries, bank, pool = (wrap(side) for side in hub_and_spokes())
    assert set(nearest(queries, pool, 1)[1][:, 0]) == {0}
    corrected = nearest(queries, pool, 1, bias=bias(hubness, pool, bank))[1][:, 0]
    assert corrected.tolist() == list(range(1, 12))


@pytest.mark.parametrize("hubness", ["csls", "dual_softmax"])
def test_a_bias_does_not_depend_on_blocks(hubness, monkeypatch):
    rng = np.random.default_rng(4)
    pool, bank = rows(rng, 31), rows(rng, 17)
    at_once = bias(hubness, pool, bank)
    monkeypatch.setattr(ranking, "_BLOCK_SCORES", 40)
    assert np.array_equal(bias(hubness, pool, bank), at_once)


calls = []


@shared
def multiplied(matrix, factor):
    calls.append(factor)
    return matrix * factor, None


def test_results_are_cached_only_for_shared_matrices():
    matrix = np.ones((2, 2))
    first = multiplied(matrix, 2)[0].sum()
    matrix *= 5
    assert (first, multiplied(matrix, 2)[0].sum()) == (8, 40)
    calls.clear()
    share(matrix)
    assert [multiplied(matrix, factor)[0].sum() for factor in (2, 2, 3)] == [40, 40, 60]
    assert calls == [2, 3]


def test_cached_results_are_freed_with_their_matrices():
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


def test_shared_matrices_are_searched_once_for_every_small_k(monkeypatch):
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
    return [*ranking.nearest(queries, pool, 2), *(part for result in corrected for part in result), *ranks]


def test_shared_late_interactions_are_compared_once_for_all_corrections():
    answers(*late_sides(is_shared=True))
    assert Late.compared == 2  # queries with the pool, and the pool with the queries


@pytest.mark.parametrize("pool", [(1, 4, 4, 7), (1, 4, 6, 7)])
def test_answers_of_shared_late_interactions_are_those_of_others(pool):
    shared_answers, others = (answers(*late_sides(is_shared=is_shared, pool=pool)) for is_shared in (True, False))
    for answer, other in zip(shared_answers, others, strict=True):
        np.testing.assert_array_equal(answer, other)


def test_late_interaction_scores_beyond_the_cache_limit_are_recomputed(monkeypatch):
    monkeypatch.setattr(ranking, "_KEPT_SCORES", 5)
    queries, pool = late_sides(is_shared=True)
    first, second = (ranking.nearest(queries, pool, 2)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert Late.compared == 2


def test_only_the_most_recent_results_are_cached():
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
