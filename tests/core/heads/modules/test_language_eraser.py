"""The eraser leaves no linear trace of the language, and needs no language to do so."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from disent_core.evaluation.metrics.linear_probe import linear_probe
from disent_core.heads.modules.language_eraser import LanguageEraser


def worlds(languages, *, texts=60, dim=7, seed=0):
    """Correlated vectors of which every language has a mean of its own, and their languages."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(languages).repeat(texts)
    mixing = torch.randn(dim, dim, generator=random)
    means = 3 * torch.randn(languages, dim, generator=random)
    return torch.randn(len(labels), dim, generator=random) @ mixing + means[labels], labels


def fitted(vectors, labels):
    eraser = LanguageEraser(vectors.shape[1], int(labels.max()) + 1).double()
    eraser.fit(vectors, labels)
    return eraser


@given(st.integers(2, 4), st.integers(0, 1000))
def test_after_it_all_languages_have_the_same_mean(languages, seed):
    vectors, labels = worlds(languages, seed=seed)
    vectors = vectors.double()
    erased = fitted(vectors, labels)(vectors)
    means = torch.stack([erased[labels == label].mean(dim=0) for label in range(languages)])
    assert torch.allclose(means, vectors.mean(dim=0).expand_as(means), atol=1e-9)


def test_a_linear_probe_that_read_every_language_reads_none():
    vectors, labels = worlds(2, texts=2000)
    before, after = vectors.numpy(), fitted(vectors.double(), labels)(vectors.double()).numpy()
    names = labels.numpy().astype(str)
    read = [(linear_probe(rows[:2000], names[:2000], rows[2000:]) == names[2000:]).mean() for rows in (before, after)]
    assert read[0] > 0.9
    assert read[1] == pytest.approx(0.5, abs=0.05)


def test_it_removes_one_dimension_less_than_there_are_languages():
    vectors, labels = worlds(3)
    vectors = vectors.double()
    change = fitted(vectors, labels)(vectors) - vectors
    assert torch.linalg.matrix_rank(change, rtol=1e-9) == 2


def test_without_training_it_changes_nothing():
    vectors, _ = worlds(2)
    assert torch.equal(LanguageEraser(7, 2)(vectors), vectors)


def test_erasing_twice_is_erasing_once():
    vectors, labels = worlds(3)
    eraser = fitted(vectors.double(), labels)
    once = eraser(vectors.double())
    assert torch.allclose(eraser(once), once)
