"""A truncation of an embedding of parts side by side shortens every part."""

from pathlib import Path

import numpy as np
import pytest
import torch
from random_heads import CASES, TEXTS

from disent_core.export.folder import export_head
from disent_core.export.side_by_side import SideBySide, side_by_side
from disent_core.lineage.saved_heads import open_head

pytest.importorskip("sentence_transformers")

WIDTHS = (7, 4)  # of template and residual


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder of lexicon, whose meaning is template and residual; tests only read it."""
    place = tmp_path_factory.mktemp("lexicon")
    return export_head(open_head(CASES["lexicon"](place), device="cpu"), place / "out", seed=4).folder


def loaded(folder: Path, **options):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True, trust_remote_code=True, **options)


def expected(whole: np.ndarray, kept: tuple[int, int]) -> np.ndarray:
    """The first columns of both parts, each as long as the part was."""
    shortened = []
    for part, count in zip(np.split(whole, [WIDTHS[0]], axis=1), kept, strict=True):
        lengths = np.linalg.norm(part, axis=1, keepdims=True)
        first = part[:, :count]
        shortened.append(first * lengths / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12))
    return np.concatenate(shortened, axis=1)


def test_truncate_dim_keeps_a_share_of_template_and_residual_however_it_is_set(folder):
    model = loaded(folder)
    wanted = expected(model.encode(TEXTS), (4, 2))
    found = [model.encode(TEXTS, truncate_dim=6), loaded(folder, truncate_dim=6).encode(TEXTS)]
    with model.truncate_embeddings(6):
        found.append(model.encode(TEXTS))
        assert model.get_embedding_dimension() == 6
    for vectors in found:
        np.testing.assert_allclose(vectors, wanted, atol=1e-6)


def test_an_embedding_of_one_part_keeps_its_first_columns(folder):
    model = loaded(folder)
    template = model.encode(TEXTS, task="template")
    np.testing.assert_array_equal(model.encode(TEXTS, task="template", truncate_dim=5), template[:, :5])


def test_too_few_dimensions_for_all_parts_are_refused(folder):
    with pytest.raises(ValueError, match=r"1 dimensions can't have some of each part, 7 \+ 4"):
        loaded(folder).encode(TEXTS, truncate_dim=1)


def test_as_many_dimensions_as_there_are_change_nothing(folder):
    model = loaded(folder)
    np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=11), model.encode(TEXTS))
    np.testing.assert_array_equal(model.encode(TEXTS, truncate_dim=99), model.encode(TEXTS))


def test_nothing_but_a_truncation_sees_the_parts():
    matrix = torch.arange(33.0).view(3, 11)
    parts = side_by_side(matrix, WIDTHS)
    assert isinstance(parts, SideBySide)
    for ordinary in (parts[1], parts[:, 2:5], parts * 2, parts.T, torch.stack([parts])):
        assert type(ordinary) is torch.Tensor
    assert torch.equal(parts[:, 2:5], matrix[:, 2:5])
    assert torch.equal(parts[..., -3:], matrix[..., -3:])
