"""Average linkage: what is joined, beside loops; looser thresholds, and the order of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.linkage import components, linked


def at_angles(*degrees):
    angles = np.deg2rad(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def drawn(seed, rows, dim):
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)) + 0.7
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def by_loops(vectors, threshold):
    groups = [[row] for row in range(len(vectors))]
    while len(groups) > 1:
        cosines = {
            (left, right): float(np.mean(vectors[groups[left]].astype(float) @ vectors[groups[right]].astype(float).T))
            for right in range(len(groups))
            for left in range(right)
        }
        (left, right), best = max(cosines.items(), key=lambda item: item[1])
        if best < threshold:
            break
        groups[left] += groups.pop(right)
    return {frozenset(group) for group in groups}


def sets_of(labels):
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in range(labels.max(initial=-1) + 1)}


def test_a_chain_of_near_vectors_is_not_one_group():
    vectors, near = at_angles(0, 20, 50, 80), np.cos(np.deg2rad(31))
    assert sets_of(linked(vectors, near)) == {frozenset({0, 1}), frozenset({2, 3})}


def test_groups_that_are_given_stay_together_and_count_by_their_mean():
    vectors = at_angles(0, 90, 45, 200)
    assert linked(vectors, 0.7, np.array([0, 0, 1, 2])).tolist() == [0, 0, 0, 1]
    assert linked(vectors, 0.71, np.array([0, 0, 1, 2])).tolist() == [0, 0, 1, 2]


def test_equal_vectors_are_joined_at_threshold_one_and_no_vectors_give_no_groups():
    assert linked(np.zeros((0, 3), dtype=np.float32), 0.5).tolist() == []
    assert len(sets_of(linked(np.repeat(drawn(1, 3, 5), 4, axis=0), 1.0))) == 3


@pytest.mark.parametrize(("seed", "threshold"), [(0, 0.85), (1, 0.6), (2, 0.6), (3, 0.4)])
def test_groups_are_those_of_loops_where_the_steps_do_not_matter(seed, threshold):
    # Pairs of near vectors, and between the pairs nothing that is near.
    centres = np.eye(10, dtype=np.float32)[:6] + 0.02
    vectors = np.concatenate([centres + 0.1 * drawn(seed + row, 6, 10) for row in range(3)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert sets_of(linked(vectors, threshold)) == by_loops(vectors, threshold)


@given(st.integers(0, 1 << 16), st.integers(1, 40), st.integers(2, 6), st.floats(0.05, 1), st.floats(0.05, 1))
def test_groups_of_a_looser_threshold_are_unions_of_those_of_a_stricter_one(seed, rows, dim, threshold, other):
    vectors = drawn(seed, rows, dim).round(1)  # with many equal cosines
    looser, stricter = (sets_of(linked(vectors, level)) for level in sorted((threshold, other)))
    assert all(any(group <= union for union in looser) for group in stricter)


def test_components_are_connected_rows():
    assert components(6, [(4, 2), (2, 0), (5, 3)]).tolist() == [0, 1, 0, 2, 0, 2]
    assert components(3, []).tolist() == [0, 1, 2]
