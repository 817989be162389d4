"""Every loss equals its formula, written as loops with plain floats, and has a worked example that is right."""

import doctest
import inspect
import math

import pytest
import torch
from loops import cosine
from synthetic import random_rows

from disent_core.losses import contrastive, similarity

ROWS, DIM, CLASSES = 6, 4, 3
LABELS = [0, 1, 1, 2, 0, 1]


def vectors(seed: int, *shape: int) -> torch.Tensor:
    return random_rows(*(shape or (ROWS, DIM)), seed=seed)


def labels() -> torch.Tensor:
    return torch.tensor(LABELS)


def squared(left, right):
    return sum((a - b) ** 2 for a, b in zip(left, right, strict=True))


def close(actual, expected):
    assert actual.tolist() == pytest.approx(expected, abs=1e-6)


def test_class_means_equal_a_loop_and_are_zero_without_rows():
    rows = vectors(1)
    means, counts = contrastive.class_means(rows, labels(), CLASSES + 1)
    for label in range(CLASSES):
        members = [row for row, its in zip(rows.tolist(), LABELS, strict=True) if its == label]
        close(means[label], [sum(column) / len(members) for column in zip(*members, strict=True)])
    assert counts.tolist() == [2, 3, 1, 0]
    close(means[CLASSES], [0.0] * DIM)


def test_moved_centers_equal_a_loop_over_classes_and_rows():
    rows, centers = vectors(1), vectors(2, CLASSES + 1, DIM)
    actual = contrastive.updated_centers(centers, rows, labels(), rate=0.5)
    for label, center in enumerate(centers.tolist()):
        members = [row for row, its in zip(rows.tolist(), LABELS, strict=True) if its == label]
        step = [sum(c - row[d] for row in members) / (1 + len(members)) for d, c in enumerate(center)]
        close(actual[label], [c - 0.5 * delta for c, delta in zip(center, step, strict=True)])


def test_discrimination_equals_two_cross_entropies():
    positive, negative = vectors(1, ROWS), vectors(2, ROWS)
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    pairs = zip(positive.tolist(), negative.tolist(), strict=True)
    expected = [-math.log(sigmoid(a)) - math.log(1 - sigmoid(b)) for a, b in pairs]
    close(contrastive.binary_cross_entropy(positive, negative), expected)


def test_siamese_equals_a_loop_over_pairs():
    left, right = vectors(1), 0.5 * vectors(2)
    same = [True, False, True, False, False, True]
    expected = []
    for a, b, is_same in zip(left.tolist(), right.tolist(), same, strict=True):
        distance = math.sqrt(squared(a, b))
        expected.append(distance**2 if is_same else max(0.0, 2.0 - distance) ** 2)
    assert 0.0 in expected
    assert any(0 < loss < 4 for loss, is_same in zip(expected, same, strict=True) if not is_same)
    close(contrastive.siamese(left, right, torch.tensor(same), margin=2.0), expected)


@pytest.mark.parametrize("same", [True, False])
def test_siamese_has_a_finite_gradient_between_equal_rows(same):
    left = vectors(1).requires_grad_()
    contrastive.siamese(left, left.detach().clone(), torch.full((ROWS,), same), margin=2.0).sum().backward()
    assert torch.isfinite(left.grad).all()


def test_n_pair_equals_a_loop_over_negatives():
    anchors, positives, negatives = vectors(1), vectors(2), vectors(3, ROWS, 4, DIM)
    expected = []
    for anchor, positive, others in zip(anchors.tolist(), positives.tolist(), negatives.tolist(), strict=True):
        gaps = [cosine(anchor, negative) - cosine(anchor, positive) for negative in others]
        expected.append(math.log(1 + sum(math.exp(gap) for gap in gaps)))
    close(contrastive.n_pair(anchors, positives, negatives), expected)


def test_the_in_batch_softmax_ignores_excluded_candidates():
    cosines = vectors(0, 3, 3)
    excluded = torch.tensor([[False, True, False], [True, False, False], [False, False, False]])
    changed = torch.where(excluded, 1e6, cosines)
    before, after = (contrastive.in_batch_softmax(values, excluded, temperature=0.1) for values in (cosines, changed))
    assert torch.equal(before, after)
    assert contrastive.in_batch_softmax(changed, torch.zeros_like(excluded), temperature=0.1)[0] > 1e6
    excluded = ~torch.eye(2, dtype=torch.bool)
    assert contrastive.in_batch_softmax(vectors(0, 2, 2), excluded, temperature=0.05).tolist() == [0, 0]


EQUAL = torch.eye(ROWS, dtype=torch.bool)
EQUAL[0, 4] = EQUAL[4, 0] = True


def test_symmetric_softmax_equals_a_loop_without_equal_texts():
    left, right = vectors(1), vectors(2)
    a, b = left.tolist(), right.tolist()
    expected = []
    for i in range(ROWS):
        candidates = [j for j in range(ROWS) if j == i or not EQUAL[i, j]]
        there = sum(math.exp((cosine(a[i], b[j]) - cosine(a[i], b[i])) / 0.5) for j in candidates)
        back = sum(math.exp((cosine(a[j], b[i]) - cosine(a[i], b[i])) / 0.5) for j in candidates)
        expected.append((math.log(there) + math.log(back)) / 2)
    close(contrastive.symmetric_softmax(left, right, EQUAL, temperature=0.5), expected)


@pytest.mark.parametrize("sides", [2, 3])
def test_one_pool_softmax_equals_a_loop_over_texts_and_their_translations(sides):
    groups, temperature = 4, 0.3
    rows = torch.nn.functional.normalize(vectors(5, sides * groups, DIM), dim=-1)
    excluded = torch.zeros(groups, groups, dtype=torch.bool)
    excluded[0, 2] = excluded[2, 0] = True
    cosines = (rows @ rows.T).view(sides, groups, sides, groups)
    actual = contrastive.one_pool_softmax(cosines, excluded, temperature=temperature)
    for side in range(sides):
        for group in range(groups):
            similarity = cosines[side, group].tolist()
            negatives = sum(
                math.exp(similarity[other_side][other] / temperature)
                for other_side in range(sides)
                for other in range(groups)
                if other != group and not excluded[group, other]
            )
            losses = [
                math.log(1 + negatives / math.exp(similarity[other_side][group] / temperature))
                for other_side in range(sides)
                if other_side != side
            ]
            assert float(actual[side, group]) == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_fully_excluded_one_pool_softmax_has_zero_gradient():
    cosines = torch.ones(2, 2, 2, 2, requires_grad=True)
    contrastive.one_pool_softmax(cosines, torch.ones(2, 2, dtype=torch.bool), temperature=0.1).sum().backward()
    assert cosines.grad is not None
    assert not cosines.grad.any()


MODULES = (contrastive, similarity)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_print_what_they_say(module):
    failed, attempted = doctest.testmod(module)
    assert attempted > 10
    assert failed == 0


def test_every_public_loss_has_an_example():
    losses = [
        loss
        for module in MODULES
        for name, loss in inspect.getmembers(module, inspect.isfunction)
        if loss.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert len(losses) > 20
    assert [loss.__name__ for loss in losses if ">>> " not in (loss.__doc__ or "")] == []
