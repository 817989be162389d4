"""The linear map of training: nn.Linear's numbers and gradients, for a seed and for a stack of them."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from disent_core.matmul import Linear, OnednnLinear, packed, product, set_precision, use_onednn

SEEDS, ROWS, INNER, OUTER = 3, 40, 16, 24
TOLERANCE = {"float32": 1e-5, "bfloat16": 3e-2}


def pair(precision: str) -> tuple[Linear, torch.nn.Linear]:
    module, plain = Linear(INNER, OUTER), torch.nn.Linear(INNER, OUTER)
    plain.load_state_dict(module.state_dict())
    set_precision(module, precision)
    return module, plain


def with_gradients(module, rows):
    rows = rows.clone().requires_grad_()
    actual = module(rows)
    weight = torch.linspace(-1, 1, actual.numel()).view_as(actual)
    return actual.detach(), *torch.autograd.grad((actual * weight).sum(), [rows, module.weight, module.bias])


@pytest.mark.parametrize("shape", [(ROWS, INNER), (2, ROWS, INNER), (INNER,), (0, INNER)])
@pytest.mark.parametrize("precision", TOLERANCE)
def test_it_equals_nn_linear(precision, shape):
    module, plain = pair(precision)
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    for actual, expected in zip(with_gradients(module, rows), with_gradients(plain, rows), strict=True):
        scale = max(1.0, expected.abs().max().item() if expected.numel() else 0.0)
        assert torch.allclose(actual, expected, atol=TOLERANCE[precision] * scale)
        assert actual.dtype == torch.float32


@pytest.mark.parametrize("rows", [1, ROWS])
def test_a_packed_factor_gives_the_product_of_its_rows_for_any_number_of_left_rows(rows):
    generator = torch.Generator().manual_seed(0)
    right = torch.randn(OUTER, INNER, generator=generator)
    order = packed(right, ROWS)
    for left in (torch.randn(rows, INNER, generator=generator), torch.randn(3 * rows, INNER, generator=generator)):
        assert torch.allclose(product(left, order, "float32"), left @ right.T, atol=1e-5)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_stack_equals_its_seeds_one_by_one(is_shared):
    module, _ = pair("float32")
    generator = torch.Generator().manual_seed(1)
    stack = {name: torch.randn(SEEDS, *value.shape, generator=generator) for name, value in module.named_parameters()}
    rows = torch.randn(SEEDS, 2, ROWS, INNER, generator=generator)[0 if is_shared else slice(None)].requires_grad_()
    leaves = {name: value.clone().requires_grad_() for name, value in stack.items()}
    stacked = vmap(lambda part, x: functional_call(module, part, (x,)), in_dims=(0, None if is_shared else 0))
    actual = stacked(leaves, rows)
    gradients = torch.autograd.grad(actual.square().sum(), [rows, *leaves.values()])
    apart = {name: value.clone().requires_grad_() for name, value in stack.items()}
    expected = torch.stack([
        torch.nn.functional.linear(rows if is_shared else rows[seed], apart["weight"][seed], apart["bias"][seed])
        for seed in range(SEEDS)
    ])  # fmt: skip
    assert torch.allclose(actual, expected, atol=1e-5)
    separate = torch.autograd.grad(expected.square().sum(), [rows, *apart.values()])
    for gradient, expected_gradient in zip(gradients, separate, strict=True):
        assert torch.allclose(gradient, expected_gradient, atol=1e-5 * expected_gradient.abs().max().item())


def test_float64_stays_float64():
    module, plain = pair("float32")
    rows = torch.randn(ROWS, INNER, dtype=torch.float64)
    assert torch.allclose(module.double()(rows), plain.double()(rows), atol=1e-12)


@pytest.mark.parametrize(("shape", "bias"), [((32, 8), True), ((25, 10), False), ((1, 1), True)])
@pytest.mark.parametrize(("dtype", "reference"), [(torch.bfloat16, nn.Linear), (torch.float32, OnednnLinear)])
def test_weights_in_the_order_of_onednn_change_no_bit_of_a_product(shape, bias, dtype, reference):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(60, 100, bias=bias), nn.Linear(100, 384, bias=bias)).to(dtype).eval()
    plain = nn.Sequential(nn.Linear(60, 100, bias=bias), nn.Linear(100, 384, bias=bias)).to(dtype).eval()
    plain.load_state_dict(model.state_dict())
    for part in plain:
        part.__class__ = reference
    use_onednn(model, 256, dtype)
    x = torch.randn(*shape, 60).to(dtype)
    with torch.inference_mode():
        for rows in (x, x[:, 0]):
            if rows.numel() > 60 or dtype == torch.bfloat16:  # a single row in float32 is another kernel
                assert torch.equal(model(rows), plain(rows))
            assert torch.allclose(model(rows), plain(rows), atol=1e-5)


@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="the processor has no bfloat16")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_weights_of_the_type_are_ordered(dtype):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).bfloat16())
    use_onednn(model, 256, dtype)
    assert [part.weight.is_mkldnn for part in model] == [dtype == torch.float32, dtype == torch.bfloat16]
