"""Attention over tokens and what it leaves, and the maximum over tokens: padding, gradients and precision."""

import pytest
import torch
from synthetic import grouped_texts, random_rows
from torch.func import functional_call

from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.modules.token_pooling import (
    MaxPooledLinear,
    TemplateAttention,
    residual_weights,
    without_special_tokens,
)

DIM, LENGTHS = 4, (3, 1, 5, 2, 4)


@pytest.mark.parametrize("form", ["softmax", "renorm"])
def test_residual_attention_sums_to_one_without_weight_on_padding(form):
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    attention = random_rows(2, 4, seed=0).masked_fill(~mask, float("-inf")).softmax(dim=-1)
    rest = residual_weights(attention, mask, form)
    assert (rest[~mask] == 0).all()
    assert rest.sum(dim=-1).tolist() == pytest.approx([1.0, 1.0])
    mask = torch.tensor([[True, False]])
    assert residual_weights(torch.tensor([[1.0, 0.0]]), mask, form).tolist() == [[1.0, 0.0]]


def test_special_tokens_are_dropped_unless_a_text_has_nothing_else():
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
    actual, expected = (
        [*module(vectors, [states]), *torch.autograd.grad(sum(part.sum() for part in module(vectors, [states])),
                                                          module.query.parameters())]
        for states in (half, wide)
    )  # fmt: skip
    assert all(torch.equal(*parts) for parts in zip(actual, expected, strict=True))


INNER, UNITS, COUNTS = 5, 4, (3, 1, 6)


def texts(seed=0):
    """States of texts of several lengths, padded with what must not matter."""
    mask = torch.arange(max(COUNTS)) < torch.tensor(COUNTS).unsqueeze(1)
    return random_rows(len(COUNTS), max(COUNTS), INNER, seed=seed).masked_fill(~mask.unsqueeze(-1), 1e3), mask


def layer(precision="float32"):
    torch.manual_seed(0)
    module = MaxPooledLinear(INNER, UNITS).double()
    module.precision = precision
    return module


def test_gradients_of_the_maximum_equal_finite_differences():
    module, (states, mask) = layer(), texts()

    def pooled(weight, bias, rows):
        return functional_call(module, {"weight": weight, "bias": bias}, (rows, mask))

    assert torch.autograd.gradcheck(pooled, [*module.parameters(), states.requires_grad_()])


def test_bfloat16_differs_by_its_rounding_only():
    states, mask = texts()
    exact, rounded = layer()(states, mask), layer("bfloat16")(states, mask)
    assert rounded.dtype == exact.dtype
    assert 0 < (exact - rounded).abs().max() < 0.05
