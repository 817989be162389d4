"""The regression is that of scikit-learn, and its threshold refuses the share of held-out texts that was asked for."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from disent_core.classifier import FewExamplesWarning, fitted, unit


def world(texts: int, dim: int, classes: int, spread: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around a centre for each class, and the numbers of their classes."""
    random = np.random.default_rng(0)
    targets = np.arange(texts) % classes
    return random.normal(size=(classes, dim))[targets] * spread + random.normal(size=(texts, dim)), targets


@pytest.mark.parametrize(("texts", "dim", "classes", "c"), [(60, 200, 4, 10.0), (400, 8, 3, 1000.0), (9, 3, 3, 0.01)])
def test_the_solution_is_that_of_scikit_learn(texts, dim, classes, c):
    vectors, targets = world(texts, dim, classes)
    ours = fitted(vectors, targets, tuple(range(classes)), c)
    twin = LogisticRegression(C=c, tol=1e-9, max_iter=10_000).fit(unit(vectors), targets)
    np.testing.assert_allclose(ours.weights[:, :-1], twin.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.probabilities(vectors), twin.predict_proba(unit(vectors)), atol=1e-5)


def test_with_two_classes_the_penalty_is_spread_over_both_so_c_is_twice_that_of_scikit_learn():
    vectors, targets = world(100, 10, 2)
    twin = LogisticRegression(C=6.0, tol=1e-9, max_iter=10_000).fit(unit(vectors), targets)
    ours = fitted(vectors, targets, ("a", "b"), 3.0).probabilities(vectors)
    np.testing.assert_allclose(ours, twin.predict_proba(unit(vectors)), atol=1e-5)


def test_the_solution_is_the_same_to_the_bit_when_it_is_made_again_and_of_vectors_of_any_length():
    vectors, targets = world(50, 12, 3)
    first = fitted(vectors, targets, ("a", "b", "c"), 1.0, refused=0.1)
    again = fitted(vectors, targets, ("a", "b", "c"), 1.0, refused=0.1)
    assert np.array_equal(first.weights, again.weights)
    assert first.threshold == again.threshold
    scaled = fitted(4 * vectors, targets, ("a", "b", "c"), 1.0)
    assert np.array_equal(first.weights, scaled.weights)


def test_the_threshold_refuses_the_configured_share_of_known_class_texts():
    refused = 0.3
    vectors, targets = world(4_000, 10, 4, spread=1.0)
    half = fitted(vectors[:2_000], targets[:2_000], tuple("abcd"), 1.0, refused)
    assert half.threshold is not None
    new = vectors[2_000:]
    below = (half.nearness(new, half.probabilities(new)) < half.threshold).mean()
    assert below == pytest.approx(refused, abs=0.03)


def test_outliers_are_below_the_threshold_even_with_high_class_probability():
    vectors, targets = world(20, 50, 2, spread=3.0)
    classifier = fitted(vectors, targets, ("a", "b"), 10.0, refused=0.05)
    far = np.random.default_rng(1).normal(size=(20, 50)) + 0.5 * vectors[targets == 0].mean(axis=0)
    probabilities = classifier.probabilities(far)
    assert classifier.threshold is not None
    assert (probabilities.max(axis=1) > classifier.threshold).mean() > 0.9
    assert (classifier.nearness(far, probabilities) < classifier.threshold).mean() > 0.9


def test_a_duplicate_example_does_not_change_the_threshold():
    vectors, targets = world(40, 10, 2)
    once = fitted(vectors, targets, ("a", "b"), 1.0, refused=0.2).threshold
    twice = fitted(np.tile(vectors, (2, 1)), np.tile(targets, 2), ("a", "b"), 0.5, refused=0.2).threshold
    assert once == pytest.approx(twice, abs=0.1)


@pytest.mark.parametrize(
    ("texts", "classes", "refused", "least"),
    [(30, 10, 0.05, 40), (50, 2, 0.01, 100), (40, 10, 0.05, 0)],
)
def test_a_threshold_from_few_texts_warns_of_the_number_that_suffices(texts, classes, refused, least):
    vectors, targets = world(texts, 10, classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(vectors, targets, tuple(range(classes)), 1.0)
        assert not caught
        fitted(vectors, targets, tuple(range(classes)), 1.0, refused)
    expected = [f"{texts} texts of {classes} labels say little", f"give {least} or more"] if least else []
    assert [warning.category for warning in caught] == [FewExamplesWarning] * bool(least)
    assert all(part in str(caught[0].message) for part in expected)


def test_the_threshold_is_chosen_on_texts_that_are_held_out():
    vectors, targets = world(40, 100, 4)
    memorised = fitted(vectors, targets, tuple("abcd"), 1e4, refused=0.2)
    assert memorised.threshold is not None
    of_itself = memorised.nearness(vectors, memorised.probabilities(vectors))
    assert memorised.threshold < np.quantile(of_itself, 0.2) - 0.1


def test_the_only_text_of_a_class_is_never_held_out():
    vectors, targets = world(20, 10, 2)
    targets[0] = 2
    assert fitted(vectors, targets, tuple("abc"), 1.0, refused=0.5).threshold is not None
    with pytest.raises(ValueError, match="no label has two texts"):
        fitted(vectors[:2], np.array([0, 1]), tuple("ab"), 1.0, refused=0.5)
