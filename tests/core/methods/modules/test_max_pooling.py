"""The maximum over tokens equals a loop over texts, tokens and units, forth and back, for one seed or several."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import random_rows
from torch.func import functional_call, vmap

from disent_core.methods.modules.token_pooling import MaxPooledLinear

DIM, UNITS, LENGTHS = 5, 4, (3, 1, 6)


def texts(seed=0):
    """States of texts of several lengths, padded with what must not matter."""
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    return random_rows(len(LENGTHS), max(LENGTHS), DIM, seed=seed).masked_fill(~mask.unsqueeze(-1), 1e3), mask


def layer(precision="float32"):
    torch.manual_seed(0)
    module = MaxPooledLinear(DIM, UNITS).double()
    module.precision = precision
    return module


def loop(module, states, mask):
    """Values, and which token gave each."""
    values, winners = [], []
    for text, real in zip(states.tolist(), mask.tolist(), strict=True):
        answers = [
            [
                sum(w * x for w, x in zip(row, token, strict=True)) + b
                for row, b in zip(*parameters(module), strict=True)
            ]
            for token, is_real in zip(text, real, strict=True)
            if is_real
        ]
        columns = list(zip(*answers, strict=True))
        values.append([max(column) for column in columns])
        winners.append([column.index(max(column)) for column in columns])
    return values, winners


def parameters(module):
    return module.weight.tolist(), module.bias.tolist()


def test_values_equal_a_loop_over_texts_tokens_and_units():
    module, (states, mask) = layer(), texts()
    assert torch.allclose(
        module(states, mask), torch.tensor(loop(module, states, mask)[0], dtype=torch.float64), atol=1e-12
    )


def test_gradients_go_to_the_token_that_gave_the_maximum():
    module, (states, mask) = layer(), texts()
    upstream, states = random_rows(len(LENGTHS), UNITS, seed=7), states.requires_grad_()
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
    stacks = {"weight": random_rows(3, UNITS, DIM, seed=1), "bias": random_rows(3, UNITS, seed=2)}
    stacks = {name: stack.requires_grad_() for name, stack in stacks.items()}
    inputs = states if shared else torch.stack([states, texts(1)[0], texts(2)[0]])

    def of_one(weight, bias, rows):
        return functional_call(module, {"weight": weight, "bias": bias}, (rows, mask))

    together = vmap(of_one, in_dims=(0, 0, None if shared else 0))(*stacks.values(), inputs)
    apart = torch.stack(
        [of_one(stacks["weight"][i], stacks["bias"][i], inputs if shared else inputs[i]) for i in range(3)]
    )
    assert torch.equal(together, apart)
    found, expected = (torch.autograd.grad(value.square().sum(), list(stacks.values())) for value in (together, apart))
    assert all(torch.allclose(one, other, atol=1e-12) for one, other in zip(found, expected, strict=True))


def test_bfloat16_differs_by_its_rounding_only():
    states, mask = texts()
    exact, rounded = layer()(states, mask), layer("bfloat16")(states, mask)
    assert rounded.dtype == exact.dtype
    assert 0 < (exact - rounded).abs().max() < 0.05


@settings(deadline=None, max_examples=20)
@given(st.permutations(range(max(LENGTHS))))
def test_the_order_of_tokens_does_not_matter(order):
    module, (states, mask) = layer(), texts()
    full = torch.ones_like(mask)
    assert torch.allclose(module(states, full), module(states[:, list(order)], full), atol=1e-12)


def test_a_token_more_never_lowers_a_value():
    module, (states, mask) = layer(), texts()
    longer = mask.clone()
    longer[1, 1] = True
    assert (module(states, longer) >= module(states, mask)).all()
