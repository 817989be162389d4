"""The eraser leaves no linear trace of the language, and needs no language to do so."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from disent_core.methods.facet_head import LanguageEraser


def worlds(languages, *, texts=60, dim=7, seed=0):
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(languages).repeat(texts)
    mixing = torch.randn(dim, dim, generator=random)
    means = 3 * torch.randn(languages, dim, generator=random)
    return torch.randn(len(labels), dim, generator=random) @ mixing + means[labels], labels


def fitted(vectors, labels, **settings):
    eraser = LanguageEraser(vectors.shape[1]).double()
    eraser.fit(vectors, labels, **settings)
    return eraser


@given(st.integers(2, 4), st.integers(0, 1000))
def test_erasure_gives_all_languages_the_same_mean(languages, seed):
    vectors, labels = worlds(languages, seed=seed)
    vectors = vectors.double()
    erased = fitted(vectors, labels)(vectors)
    means = torch.stack([erased[labels == label].mean(dim=0) for label in range(languages)])
    assert torch.allclose(means, vectors.mean(dim=0).expand_as(means), atol=1e-9)


def test_erasure_removes_one_dimension_less_than_languages_and_is_idempotent():
    vectors, labels = worlds(3)
    vectors = vectors.double()
    change = fitted(vectors, labels)(vectors) - vectors
    assert torch.linalg.matrix_rank(change, rtol=1e-9) == 2
    vectors, _ = worlds(2)
    assert LanguageEraser(7)(vectors) is vectors
    vectors, labels = worlds(3)
    eraser = fitted(vectors.double(), labels)
    once = eraser(vectors.double())
    assert torch.allclose(eraser(once), once)


def test_kept_variance_erases_the_directions_of_smallest_variance():
    vectors = torch.diag(torch.tensor([4.0, 3.0, 2.0, 0.6, 0.5, 0.2, 0.1]).double().sqrt())
    vectors = torch.cat([vectors, -vectors]).repeat(2, 1)  # the last two hold 0.3 of 10.4
    kept = fitted(vectors, torch.arange(2).repeat_interleave(14), kept_variance=0.95)(vectors)
    assert (kept.var(dim=0) > 1e-9).tolist() == [True, True, True, True, True, False, False]


def test_erasure_weighs_languages_equally_whatever_their_number_of_texts():
    vectors, labels = worlds(2, texts=200)
    vectors = vectors.double()
    often = torch.cat([torch.arange(len(labels)), *[torch.nonzero(labels == 1).squeeze(1)] * 3])
    once, more = fitted(vectors, labels, kept_variance=0.8), fitted(vectors[often], labels[often], kept_variance=0.8)
    assert torch.allclose(once(vectors), more(vectors))
