"""Attention over tokens, and over what it leaves."""

import pytest
import torch
from synthetic import grouped_texts, random_rows

from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.modules.token_pooling import (
    TemplateAttention,
    permuted,
    residual_weights,
    without_special_tokens,
)

DIM, LENGTHS = 4, (3, 1, 5, 2, 4)


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


def attention(**switches):
    torch.manual_seed(0)
    return TemplateAttention(DIM, FmdaConfig(**switches)).double()


@pytest.mark.parametrize("ffn", ["linear", "mlp2"])
def test_gradients_of_the_attention_equal_finite_differences(ffn):
    module, texts = attention(ffn=ffn), grouped_texts(LENGTHS, DIM, seed=1)
    vectors = random_rows(1, len(LENGTHS), DIM, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: module(rows, [texts]), [vectors])


def test_states_in_half_precision_attend_as_their_values_in_float32():
    module, texts = attention().float(), grouped_texts(LENGTHS, DIM, seed=1)
    vectors = random_rows(1, len(LENGTHS), DIM, seed=2).float()
    half = {name: value.half() if value.is_floating_point() else value for name, value in texts.items()}
    wide = {name: value.float() if value.is_floating_point() else value for name, value in half.items()}
    found, expected = (
        [*module(vectors, [states]), *torch.autograd.grad(sum(part.sum() for part in module(vectors, [states])),
                                                          module.query.parameters())]
        for states in (half, wide)
    )  # fmt: skip
    assert all(torch.equal(*parts) for parts in zip(found, expected, strict=True))


def test_a_permutation_gives_each_gradient_back_to_its_row():
    order = torch.tensor([2, 0, 3, 1])
    rows = random_rows(4, 3, seed=0).requires_grad_()
    assert torch.equal(permuted(rows, order, order.argsort()), rows[order])
    assert torch.autograd.gradcheck(lambda values: permuted(values, order, order.argsort()), [rows])
