"""Shapes in the signatures of the core are checked while its tests run."""

import jaxtyping
import pytest
import torch

from disent_core.methods.modules.hashed_words import Ragged


def test_an_array_of_a_wrong_shape_is_refused():
    with pytest.raises(jaxtyping.TypeCheckError):
        Ragged.of([[1]]).sums(torch.zeros(3))
