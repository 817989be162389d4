"""Attention over tokens, and over what it leaves."""

import pytest
import torch
from synthetic import random_rows

from disent_core.heads.modules.attention import residual_weights, without_special_tokens


@pytest.mark.parametrize("form", ["softmax", "renorm"])
def test_residual_attention_gives_padding_no_weight_and_sums_to_one(form):
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    attention = random_rows(2, 4, seed=0).masked_fill(~mask, float("-inf")).softmax(dim=-1)
    rest = residual_weights(attention, mask, form)
    assert (rest[~mask] == 0).all()
    assert rest.sum(dim=-1).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("form", ["softmax", "renorm"])
def test_a_texts_only_token_has_all_of_the_residual_attention(form):
    mask = torch.tensor([[True, False]])
    assert residual_weights(torch.tensor([[1.0, 0.0]]), mask, form).tolist() == [[1.0, 0.0]]


def test_dropping_special_tokens_hides_first_and_last_but_keeps_texts_of_nothing_else():
    lengths = torch.tensor([4, 3, 2, 1])
    mask = torch.arange(4) < lengths.unsqueeze(1)
    assert without_special_tokens(mask).int().tolist() == [[0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
