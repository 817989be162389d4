"""Every loss equals a loop over its formula, written with plain floats."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loops import cosine
from synthetic import random_rows

from disent_core.losses import similarity


def rows(count: int, dim: int, seed: int) -> torch.Tensor:
    return random_rows(count, dim, seed=seed)


def loop_cosine(left: torch.Tensor, right: torch.Tensor) -> float:
    return cosine(left.tolist(), right.tolist())


seeds = st.integers(0, 10_000)
sizes = st.tuples(st.integers(1, 6), st.integers(2, 7))


@given(seeds, sizes)
def test_pairwise_losses_equal_a_loop_over_rows(seed, size):
    left, right = rows(*size, seed), rows(*size, seed + 1)
    expected = [loop_cosine(a, b) for a, b in zip(left, right, strict=True)]
    assert similarity.cosine(left, right).tolist() == pytest.approx(expected)
    assert similarity.cosine_distance(left, right).tolist() == pytest.approx([1 - value for value in expected])
    assert similarity.hinged_cosine(left, right).tolist() == pytest.approx([max(0.0, value) for value in expected])


@given(seeds, sizes)
def test_contrasts_equal_a_loop_over_triples(seed, size):
    left, right, to_left, to_right = (rows(*size, seed + offset) for offset in range(4))
    linear, hinged = [], []
    for a, b, c, d in zip(left, right, to_left, to_right, strict=True):
        pulled, first, second = loop_cosine(a, b), loop_cosine(a, c), loop_cosine(b, d)
        linear.append(-pulled + first + second)
        hinged.append(1 - pulled + max(0.0, first) + max(0.0, second))
    assert similarity.linear_contrast(left, right, to_left, to_right).tolist() == pytest.approx(linear)
    assert similarity.hinged_contrast(left, right, to_left, to_right).tolist() == pytest.approx(hinged)


@given(seeds, sizes, st.floats(0.05, 2.0))
def test_info_nce_both_ways_equals_loops_over_candidates(seed, size, temperature):
    left, right, to_left, to_right = (rows(*size, seed + offset) for offset in range(4))
    expected = [0.0] * len(left)
    for anchors, others, negatives in ((left, right, to_left), (right, left, to_right)):
        for i, anchor in enumerate(anchors):
            candidates = [loop_cosine(anchor, candidate) for candidate in others]
            scores = [value / temperature for value in [*candidates, loop_cosine(anchor, negatives[i])]]
            expected[i] += math.log(sum(math.exp(score) for score in scores)) - scores[i]
    actual = similarity.info_nce_both_ways(left, right, to_left, to_right, temperature=temperature)
    assert actual.tolist() == pytest.approx(expected)


def test_hinged_cosine_has_zero_gradient_for_dissimilar_rows():
    left = torch.tensor([[1.0, 0.0]], requires_grad=True)
    similarity.hinged_cosine(left, torch.tensor([[-1.0, 0.1]])).sum().backward()
    assert left.grad is not None
    assert left.grad.abs().sum() == 0


@given(seeds, sizes)
def test_cosines_of_several_pairs_are_those_of_each_and_so_are_gradients(seed, size):
    pairs = ((0, 1), (0, 2), (1, 3))
    actual, expected = [], []
    for results, of in (
        (actual, lambda matrices: similarity.cosines(matrices, pairs)),
        (
            expected,
            lambda matrices: [torch.nn.functional.cosine_similarity(matrices[i], matrices[j]) for i, j in pairs],
        ),
    ):
        matrices = [rows(*size, seed + offset).requires_grad_(offset > 0) for offset in range(4)]
        weights = rows(len(pairs), size[0], seed + 4)
        values = of(matrices)
        loss = sum((value * weight).sum() for value, weight in zip(values, weights, strict=True))
        results += [*values, *torch.autograd.grad(loss, matrices[1:])]
    assert all(torch.allclose(left, right) for left, right in zip(actual, expected, strict=True))


def test_cosines_of_a_stack_are_those_of_each_of_its_parts():
    left, right = rows(12, 5, 0).view(3, 4, 5).requires_grad_(), rows(4, 5, 1).requires_grad_()
    actual = torch.func.vmap(similarity.cosine, in_dims=(0, None))(left, right)
    expected = torch.nn.functional.cosine_similarity(left, right, dim=-1)
    assert torch.allclose(actual, expected)
    for left_value, right_value in zip(
        torch.autograd.grad(actual.square().sum(), [left, right]),
        torch.autograd.grad(expected.square().sum(), [left, right]),
        strict=True,
    ):
        assert torch.allclose(left_value, right_value)


@pytest.mark.parametrize("diagonal", [False, True])
@given(seeds, sizes, st.data())
def test_mean_pairwise_cosine_equals_a_loop_over_pairs(diagonal, seed, size, data):
    matrix = rows(*size, seed)
    groups = data.draw(st.lists(st.integers(0, 2), min_size=size[0], max_size=size[0]))
    expected = []
    for i, group in enumerate(groups):
        others = [j for j, row_group in enumerate(groups) if row_group == group and (diagonal or j != i)]
        expected.append(sum(loop_cosine(matrix[i], matrix[j]) for j in others) / len(others) if others else 1.0)
    members = torch.nn.functional.one_hot(torch.tensor(groups), 3).double()
    actual = similarity.mean_pairwise_cosine(matrix, members, diagonal=diagonal)
    assert actual.tolist() == pytest.approx(expected, abs=1e-9)


def test_zero_rows_have_cosine_zero_and_a_finite_gradient():
    left = torch.zeros(1, 3, requires_grad=True)
    similarity.cosine(left, torch.ones(1, 3)).sum().backward()
    assert torch.isfinite(left.grad).all()
    assert similarity.cosine(torch.zeros(1, 3), torch.ones(1, 3)).item() == 0


def test_losses_reject_batches_of_unequal_length():
    with pytest.raises(Exception, match="batch"):
        similarity.squared_error(torch.zeros(2, 3), torch.zeros(3, 3))
