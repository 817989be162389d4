"""Attention over tokens and what it leaves; the maximum over tokens equals a loop, forth and back, for every seed."""

import pytest
import torch
from loops import through
from synthetic import grouped_texts, random_rows
from torch.func import functional_call, vmap

from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.modules.token_pooling import (
    MaxPooledLinear,
    TemplateAttention,
    permuted,
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


def test_a_permutation_gives_each_gradient_back_to_its_row():
    order = torch.tensor([2, 0, 3, 1])
    rows = random_rows(4, 3, seed=0).requires_grad_()
    assert torch.equal(permuted(rows, order, order.argsort()), rows[order])
    assert torch.autograd.gradcheck(lambda values: permuted(values, order, order.argsort()), [rows])


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


def loop(module, states, mask):
    values, winners = [], []
    for text, real in zip(states.tolist(), mask.tolist(), strict=True):
        answers = [through(module, token) for token, is_real in zip(text, real, strict=True) if is_real]
        columns = list(zip(*answers, strict=True))
        values.append([max(column) for column in columns])
        winners.append([column.index(max(column)) for column in columns])
    return values, winners


def test_gradients_go_to_the_token_that_gave_the_maximum():
    module, (states, mask) = layer(), texts()
    upstream, states = random_rows(len(COUNTS), UNITS, seed=7), states.requires_grad_()
    to_states, to_weight, to_bias = torch.autograd.grad(
        (module(states, mask) * upstream).sum(), [states, module.weight, module.bias]
    )
    expected_states, expected_weight = torch.zeros_like(states), torch.zeros_like(module.weight)
    for text, winners in enumerate(loop(module, states, mask)[1]):
        for unit, token in enumerate(winners):
            expected_states[text, token] += upstream[text, unit] * module.weight[unit]
            expected_weight[unit] += upstream[text, unit] * states[text, token]
    assert torch.allclose(to_states, expected_states, atol=1e-12)
    assert torch.allclose(to_weight, expected_weight, atol=1e-12)
    assert torch.allclose(to_bias, upstream.sum(dim=0), atol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_a_stack_of_seeds_gives_what_each_seed_gives(shared):
    module, (states, mask) = layer(), texts()
    stacks = {"weight": random_rows(3, UNITS, INNER, seed=1), "bias": random_rows(3, UNITS, seed=2)}
    stacks = {name: stack.requires_grad_() for name, stack in stacks.items()}
    inputs = states if shared else torch.stack([states, texts(1)[0], texts(2)[0]])

    def of_seed(weight, bias, rows):
        return functional_call(module, {"weight": weight, "bias": bias}, (rows, mask))

    together = vmap(of_seed, in_dims=(0, 0, None if shared else 0))(*stacks.values(), inputs)
    apart = torch.stack(
        [of_seed(stacks["weight"][i], stacks["bias"][i], inputs if shared else inputs[i]) for i in range(3)]
    )
    assert torch.equal(together, apart)
    actual, expected = (torch.autograd.grad(value.square().sum(), list(stacks.values())) for value in (together, apart))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(actual, expected, strict=True))


def test_bfloat16_differs_by_its_rounding_only():
    states, mask = texts()
    exact, rounded = layer()(states, mask), layer("bfloat16")(states, mask)
    assert rounded.dtype == exact.dtype
    assert 0 < (exact - rounded).abs().max() < 0.05
