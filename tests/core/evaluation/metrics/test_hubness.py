"""Corrections for hubs against loops over their formulas, and the search with a bias against loops."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_inputs import Late

from disent_core.evaluation.metrics import ranking
from disent_core.evaluation.metrics.hubness import TEMPERATURE, bias, mean_of_nearest, soft_maximum
from disent_core.evaluation.metrics.ranking import nearest, unit_rows
from disent_core.exact import on_grid

seeds = st.integers(0, 10_000)


def rows(rng, number, dim=4):
    return rng.normal(size=(number, dim)).astype(np.float32)


def cosines(queries, pool):
    """By loops, in the order of the queries."""
    return [[float(q @ c / np.linalg.norm(q) / np.linalg.norm(c)) for c in pool] for q in queries]


def late(matrix):
    """A late interaction that is the cosine, in float32."""
    norm = partial(np.linalg.norm, axis=-1)
    return Late(matrix, lambda left, right: (left * right).sum(axis=-1) / norm(left) / norm(right))


@given(seeds, st.integers(1, 12))
def test_the_mean_of_the_nearest_equals_a_loop_over_the_bank(seed, k):
    rng = np.random.default_rng(seed)
    pool, bank = rows(rng, 5), rows(rng, 9)
    expected = []
    for near in cosines(pool, bank):
        highest = sorted(near, reverse=True)[:k]
        expected.append(sum(highest) / len(highest))
    np.testing.assert_allclose(mean_of_nearest(pool, bank, k), expected, atol=1e-6)


@given(seeds, st.sampled_from([0.02, 0.05, 1.0]))
def test_the_soft_maximum_equals_a_loop_over_the_bank(seed, temperature):
    rng = np.random.default_rng(seed)
    pool, bank = rows(rng, 5), rows(rng, 9)
    expected = []
    for near in cosines(pool, bank):
        total = 0.0
        for cosine in near:
            total += math.exp((cosine - 1) / temperature)
        expected.append(1 + temperature * math.log(total / len(near)))
    np.testing.assert_allclose(soft_maximum(pool, bank, temperature), expected, atol=1e-5)


@pytest.mark.parametrize("wrap", [np.asarray, late])
@given(seeds)
def test_csls_finds_what_a_loop_over_its_formula_finds(wrap, seed):
    rng = np.random.default_rng(seed)
    queries, pool = rows(rng, 14), rows(rng, 12)
    table = cosines(queries, pool)
    of_pool = [sum(sorted((row[c] for row in table), reverse=True)[:10]) / 10 for c in range(12)]
    of_queries = [sum(sorted(row, reverse=True)[:10]) / 10 for row in table]
    _, found = nearest(wrap(queries), wrap(pool), 1, bias=bias("csls", wrap(pool), wrap(queries)))
    for q, (best,) in enumerate(found):
        csls = [2 * table[q][c] - of_queries[q] - of_pool[c] for c in range(12)]
        assert csls[best] == pytest.approx(max(csls), abs=1e-5)


@pytest.mark.parametrize("wrap", [np.asarray, late])
@given(seeds)
def test_the_dual_softmax_finds_the_highest_product_of_both_softmaxes(wrap, seed):
    rng = np.random.default_rng(seed)
    queries, pool = rows(rng, 14), rows(rng, 12)
    powers = [[math.exp(cosine / TEMPERATURE) for cosine in row] for row in cosines(queries, pool)]
    of_candidates = [sum(row[c] for row in powers) for c in range(12)]
    _, found = nearest(wrap(queries), wrap(pool), 1, bias=bias("dual_softmax", wrap(pool), wrap(queries)))
    for row, (best,) in zip(powers, found, strict=True):
        product = [row[c] / sum(row) * row[c] / of_candidates[c] for c in range(12)]
        assert product[best] == pytest.approx(max(product), rel=1e-3)


def test_a_bias_of_zero_changes_no_bit():
    rng = np.random.default_rng(0)
    queries, pool = rows(rng, 50), np.repeat(rows(rng, 40), 2, axis=0)
    for plain, biased in zip(nearest(queries, pool, 5), nearest(queries, pool, 5, bias=np.zeros(80)), strict=True):
        assert np.array_equal(plain, biased)


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
    for row, found, best in zip(rounded, indices, scores, strict=True):
        expected = np.lexsort((np.arange(6_000), -row))[:k]
        assert found.tolist() == expected.tolist()
        assert best.tolist() == row[expected].tolist()


def test_a_skipped_candidate_stays_skipped_with_a_bias():
    rng = np.random.default_rng(2)
    queries, pool, skip = rows(rng, 6), rows(rng, 5), np.arange(6) % 5
    _, indices = nearest(queries, pool, 5, skip=skip, bias=rng.uniform(-1, 1, 5))
    assert not (indices == skip[:, None]).any()


def hub_and_spokes():
    """Each candidate is near to its query, but the first one is nearer to all queries."""
    rng = np.random.default_rng(3)
    own = np.eye(12, dtype=np.float32)[1:]
    hub = own.sum(axis=0, keepdims=True)
    queries = own + 1.1 * hub / np.linalg.norm(hub)
    return queries + 0.01 * rng.normal(size=queries.shape), np.concatenate([hub, own])


@pytest.mark.parametrize("hubness", ["csls", "dual_softmax", "train_bias"])
def test_a_hub_is_found_by_all_queries_until_it_is_corrected(hubness):
    queries, pool = hub_and_spokes()
    assert set(nearest(queries, pool, 1)[1][:, 0]) == {0}
    corrected = nearest(queries, pool, 1, bias=bias(hubness, pool, queries[::-1]))[1][:, 0]
    assert corrected.tolist() == list(range(1, 12))


@pytest.mark.parametrize("hubness", ["csls", "dual_softmax"])
def test_a_bias_does_not_depend_on_blocks(hubness, monkeypatch):
    rng = np.random.default_rng(4)
    pool, bank = rows(rng, 31), rows(rng, 17)
    at_once = bias(hubness, pool, bank)
    monkeypatch.setattr(ranking, "_BLOCK_SCORES", 40)
    assert np.array_equal(bias(hubness, pool, bank), at_once)
