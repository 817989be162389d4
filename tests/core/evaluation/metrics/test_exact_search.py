"""Exact search among rows of norm 1 against sorting the exact scores of all pairs, and by numpy alone."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from disent_core import exact
from disent_core.evaluation.metrics import exact_search
from disent_core.evaluation.metrics.exact_search import best, nearest_rows
from disent_core.evaluation.metrics.ranking import expanded, gold_ranks, grouped, nearest, unit_rows
from disent_core.exact import on_grid
from disent_core.matmul import product
from disent_core.shards.backend import ShardBackend, sharded

DIM = 6
few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)
sizes = st.fixed_dictionaries(
    {
        "_QUERIES": st.integers(2, 12),
        "_CANDIDATES": st.integers(9, 90),
        "_FOLD": st.integers(1, 20),
        "_SCORES": st.integers(100, 3_000),
    }
)


def normal(seed, rows, dim=DIM):
    return np.random.default_rng(seed).normal(size=(rows, dim))


def alike(seed, rows):
    """Rows whose cosines differ in the last digits of float32 or not at all."""
    return 1 + 1e-6 * normal(seed, rows)


def on_axes(seed, rows):
    """Rows of few directions: most scores are equal, and not only those of equal rows."""
    return np.random.default_rng(seed).integers(-1, 2, (rows, DIM)).astype(float)


kinds = st.sampled_from([normal, alike, on_axes])


def by_sorting(queries, pool, k):
    """Sort all candidates by dot products that are added up as fractions and rounded to float32."""
    left, right = unit_rows(queries, "queries"), unit_rows(pool, "pool")
    exact = np.array([[np.float32(float(dot(query, candidate))) for candidate in right] for query in left])
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(exact, order, 1), order


def dot(left, right):
    return sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(left, right, strict=True)), Fraction())


def same(actual, expected):
    return all(map(np.array_equal, actual, expected))


def with_sizes(sizes, width, run):
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(exact_search, name, size)
        if width:
            patch.setattr(exact_search, "_chunk_width", lambda pool, fetched: width)
        return run()


@few
@given(kinds, seeds, st.integers(100, 160), st.integers(1, 4))
def test_nearest_equals_sorting_exact_scores_to_the_bit(kind, seed, pool, k):
    queries, pool = kind(seed, 3), kind(seed + 1, pool)
    assert same(with_sizes({}, 2, lambda: nearest(queries, pool, k)), by_sorting(queries, pool, k))


@few
@given(kinds, seeds, st.integers(1, 300), st.integers(1, 12), sizes, st.integers(0, 7))
def test_nearest_does_not_depend_on_the_size_of_blocks(kind, seed, pool, k, sizes, width):
    queries, pool = kind(seed, 11), kind(seed + 1, pool)
    assert same(with_sizes(sizes, width, lambda: nearest(queries, pool, k)), nearest(queries, pool, k))


@few
@given(kinds, seeds, st.integers(1, 120), st.integers(1, 12), st.integers(1, 50))
def test_nearest_does_not_depend_on_the_shards_of_the_pool(kind, seed, pool, k, size):
    queries, pool = kind(seed, 11), kind(seed + 1, pool)
    expected = nearest(queries, pool, k)
    with sharded(ShardBackend("processes", 1)):
        assert same(
            with_sizes({"_LEAST_CANDIDATES": size, "PAIRS_OF_SHARD": 1}, 0, lambda: nearest(queries, pool, k)), expected
        )


def test_shards_of_the_pool_in_processes_find_what_one_finds():
    queries, pool = normal(0, 20), alike(1, 90)
    expected = nearest(queries, pool, 3)
    with sharded(ShardBackend("processes", 2)):
        assert same(
            with_sizes({"_LEAST_CANDIDATES": 40, "PAIRS_OF_SHARD": 1}, 0, lambda: nearest(queries, pool, 3)), expected
        )


@few
@given(kinds, seeds)
def test_the_nearest_candidates_have_the_first_ranks(kind, seed):
    queries, pool = kind(seed, 5), kind(seed + 1, 200)
    _, indices = nearest(queries, pool, 3)
    assert (gold_ranks(queries, pool, indices, ties="lowest") == [1, 2, 3]).all()


def test_a_sum_of_entries_on_the_grid_has_no_rounding_in_float64_in_any_order():
    row = unit_rows(np.abs(normal(0, 1, 4_000)), "rows")[0].astype(np.float64)
    products = row * row
    forward, backward = np.add.accumulate(products)[-1], np.add.accumulate(products[::-1])[-1]
    assert forward == backward == np.sort(products).sum()


def test_rounding_to_the_grid_moves_a_cosine_less_than_float32_does():
    rows = normal(0, 300, 384)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    moved = on_grid(rows.astype(np.float32)).astype(np.float64)
    assert np.abs(moved @ moved.T - rows @ rows.T).max() < 2.0**-24


@pytest.mark.parametrize("dim", [8, 384, 3_000])
def test_the_margin_holds_twice_the_error_of_the_float32_product(dim):
    rows = unit_rows(1 + normal(0, 200, dim), "rows")  # of one sign, so that errors do not cancel
    left = torch.from_numpy(rows)
    error = (product(left, left, "float32").double() - left.double() @ left.double().T).abs().max()
    assert 2 * error < exact_search.margin(dim)


def test_several_threads_find_what_one_finds_and_leave_their_number_as_it_was():
    queries, pool = unit_rows(normal(1, 90), "queries"), unit_rows(normal(2, 300), "pool")
    sizes, before = {"_QUERIES": 4, "_CANDIDATES": 16, "_FOLD": 2}, torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(with_sizes(sizes, 2, lambda: nearest_rows(queries, pool, 2)))
            with ThreadPoolExecutor(1) as later:
                assert torch.get_num_threads() == later.submit(torch.get_num_threads).result() == threads
    finally:
        torch.set_num_threads(before)
    assert same(*results)


@few
@given(
    st.lists(st.sampled_from([-1.0, -(2.0**-52), -0.0, 0.0, 2.0**-52, 0.5, 1.0]), min_size=1, max_size=30), st.data()
)
def test_the_best_are_by_score_and_then_by_column(scores, data):
    k = data.draw(st.integers(1, len(scores)))
    columns = data.draw(st.permutations(range(len(scores))))
    top_scores, places = best(torch.tensor([scores]), torch.tensor([columns]), k)
    expected = sorted(zip(scores, columns, strict=True), key=lambda pair: (-pair[0], pair[1]))[:k]
    assert list(zip(top_scores[0].tolist(), places[0].tolist(), strict=True)) == expected


def test_only_crowded_queries_are_compared_exactly_with_the_whole_pool(monkeypatch):
    crowd, rest = alike(0, 50), normal(1, 2_000)
    compared, of_all = [], exact_search._nearest_of_all
    monkeypatch.setattr(exact_search, "_nearest_of_all", lambda few, *of: compared.append(len(few)) or of_all(few, *of))
    pool = np.concatenate([crowd, rest])
    queries = np.concatenate([crowd[:1], rest[:9]])
    expected = by_sorting(queries[:1], pool, 2)
    top = nearest(queries, pool, 2)
    assert compared == [1]
    assert same([part[:1] for part in top], expected)


def few_values(seed: int, count: int, dim: int, *, values: int = 3) -> np.ndarray:
    """Rows of few different values, so that many scores are equal; some are of zeros."""
    drawn = np.random.default_rng(seed).integers(-values, values + 1, size=(count, dim))
    return exact.unit(drawn.astype(np.float32))


@few
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 60), st.integers(1, 7), st.data())
def test_numpy_gives_the_scores_and_ranks_of_torch_to_the_bit(seed, queries, pool, dim, data):
    k = data.draw(st.integers(1, pool))
    left, right = few_values(seed, queries, dim), few_values(seed + 1, pool, dim)
    for ours, theirs in zip(exact.nearest_rows(left, right, k), exact_search.nearest_rows(left, right, k), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_blocks_of_queries_and_candidates_change_nothing(monkeypatch):
    left, right = few_values(0, 7, 5), few_values(1, 50, 5)
    expected = exact.nearest_rows(left, right, 9)
    monkeypatch.setattr(exact, "_BLOCK", 8)
    monkeypatch.setattr(exact, "_SCORES", 100)
    for ours, theirs in zip(exact.nearest_rows(left, right, 9), expected, strict=True):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("k", [1, 4, 30])
def test_texts_with_equal_rows_share_their_score_and_are_by_index(k):
    left, distinct = few_values(0, 4, 5), few_values(1, 8, 5, values=9)
    group = np.random.default_rng(2).permutation(np.arange(30) % 8)
    nearest = exact_search.nearest_rows(left, distinct, min(k, 8))
    by_torch = expanded(*nearest, grouped(group), k)
    for ours, theirs in zip(exact.nearest_rows(left, distinct, k, group), by_torch, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_a_row_of_zeros_stays_zero_and_others_have_norm_one_whatever_their_scale():
    units = exact.unit(np.array([[0, 0], [3e30, 4e30], [3e-30, 4e-30]], dtype=np.float32))
    assert units.tolist() == [[0, 0], pytest.approx([0.6, 0.8], abs=1e-7), pytest.approx([0.6, 0.8], abs=1e-7)]
