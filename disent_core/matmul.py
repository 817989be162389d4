"""Compute linear maps fast on matrices of thousands of rows, for one seed or a stack of seeds."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor, nn

from disent_core.settings import Precision


def arithmetic(device: str, precision: Precision) -> AbstractContextManager[object]:
    """Return a context in which a whole model's products have this precision; weights, sums and losses stay float32."""
    return torch.autocast(device, dtype=torch.bfloat16) if precision == "bfloat16" else nullcontext()


class Linear(nn.Linear):
    """`nn.Linear` with a choice of `precision` of its products; inputs, outputs and gradients are always float32.

    bfloat16 keeps 8 bits of each factor and adds up in float32: several times faster where the processor has
    instructions for it. Under `torch.vmap` over seeds each seed's product stays one large product.
    """

    precision: Precision = "float32"

    def forward(self, input: Float[Tensor, "*rows inner"]) -> Float[Tensor, "*rows outer"]:
        return affine(input, self.weight, self.bias, self.precision)


def affine(
    x: Float[Tensor, "*rows inner"],
    weight: Float[Tensor, "outer inner"],
    bias: Float[Tensor, " outer"],
    precision: Precision,
) -> Float[Tensor, "*rows outer"]:
    """Compute what `Linear` computes, with any weight."""
    rows = (x.bfloat16() if precision == "bfloat16" else x).reshape(1, -1, x.shape[-1])
    product = _Affine.apply(rows, weight.unsqueeze(0), bias.unsqueeze(0), precision)
    return product.view(*x.shape[:-1], len(weight))


def set_precision(module: nn.Module, precision: Precision) -> None:
    """Choose the precision of every `Linear` in a module."""
    for part in module.modules():
        if isinstance(part, Linear):
            part.precision = precision


class _Affine(torch.autograd.Function):
    """x W^T + b of each seed of a stack: x is [seeds, rows, inner], W [seeds, outer, inner], b [seeds, outer]."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, precision: Precision) -> Tensor:
        seeds = zip(x.expand(len(weight), *x.shape[1:]), weight, bias, strict=True)
        return stack([product(rows, matrix, precision).add_(shift) for rows, matrix, shift in seeds])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _, ctx.precision = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (x, weight) = gradients, ctx.saved_tensors
        rounded = gradient.bfloat16() if ctx.precision == "bfloat16" else gradient
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            pairs = zip(rounded, weight, strict=True)
            to_x = stack([product(row_gradients, matrix.T, ctx.precision) for row_gradients, matrix in pairs])
            # One x shared by all seeds (length 1) gets the sum of the seeds' gradients.
            to_x = (to_x if len(x) == len(to_x) else to_x.sum(dim=0, keepdim=True)).to(x.dtype)
        if ctx.needs_input_grad[1]:
            seeds = zip(rounded, x.expand(len(weight), *x.shape[1:]), strict=True)
            to_weight = stack([product(row_gradients.T, inputs.T, ctx.precision) for row_gradients, inputs in seeds])
        return to_x, to_weight, gradient.sum(dim=1) if ctx.needs_input_grad[2] else None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Replace the leading dimension of length 1 by the mapped one; expand tensors that are not mapped."""
        x, weight, bias = seeds_in_front(inputs[:3], in_dims[:3])
        seeds = info.batch_size
        weight, bias = (value.expand(seeds, *value.shape[1:]) for value in (weight, bias))
        return _Affine.apply(x, weight, bias, inputs[3]).unsqueeze(1), 0


def seeds_in_front(tensors: Sequence[Tensor], in_dims: Sequence[int | None]) -> list[Tensor]:
    """Replace the leading dimension of length 1 of each tensor by the one that vmap maps, if it maps one."""
    pairs = zip(tensors, in_dims, strict=True)
    return [value if dim is None else value.movedim(dim, 0).squeeze(1) for value, dim in pairs]


def stack(parts: list[Tensor]) -> Tensor:
    """Return `torch.stack(parts)`, without a copy of a single part."""
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)


def product(left: Float[Tensor, "n k"], right: Float[Tensor, "m k"], precision: Precision) -> Float[Tensor, "n m"]:
    """Multiply the left rows by the transposed right rows, with the fastest kernel for the precision."""
    if precision == "bfloat16":
        return F.linear(left.bfloat16(), right.bfloat16()).float()
    if _HAS_ONEDNN and left.dtype == torch.float32 and left.device.type == "cpu" and left.numel():
        # torch's own choice for float32 is MKL, which takes twice as long on processors that aren't Intel's. The public
        # way to oneDNN, F.linear on `to_mkldnn()` tensors, has the same bits but copies both factors: 4 to 12 % slower.
        return torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
    return F.linear(left, right)


def packed(rows: Float[Tensor, "m k"], times: int) -> Tensor:
    """Return rows as the right factor of several calls of `product`, in the order in which the kernel reads them.

    Otherwise oneDNN reorders them in every product. The result has no strides and no readable values; where torch has
    no such order, it is the rows themselves. `times` is about the number of rows of the left factor.
    """
    on_cpu = _HAS_ONEDNN and rows.dtype == torch.float32 and rows.device.type == "cpu" and rows.numel()
    return torch.ops.mkldnn._reorder_linear_weight(rows, times) if on_cpu else rows


_HAS_ONEDNN = torch.backends.mkldnn.is_available() and all(
    hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
)


class OnednnLinear(nn.Linear):
    """`nn.Linear` through oneDNN, without gradients; see `product` and `use_onednn`."""

    def forward(self, input: Float[Tensor, "*rows inner"]) -> Float[Tensor, "*rows outer"]:
        return torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, "none", [], "")


def use_onednn(model: nn.Module, rows: int, dtype: torch.dtype) -> None:
    """Run every `nn.Linear` of a frozen model whose weights have this type through oneDNN, on a CPU.

    Weights are kept in the order in which oneDNN reads them; otherwise it reorders them in every product, of about
    `rows` rows. Products are bit-identical either way, except for a single row in float32 and for strided batches of
    bfloat16 matrices, where torch rounds once more before adding the bias. Types that oneDNN lacks stay as they are.
    """
    is_supported = dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    for part in model.modules() if _HAS_ONEDNN and is_supported else ():
        if type(part) is nn.Linear and part.weight.dtype == dtype and part.weight.device.type == "cpu":
            packed = torch.ops.mkldnn._reorder_linear_weight(part.weight.detach(), rows)
            part.weight = nn.Parameter(packed, requires_grad=False)
            part.__class__ = OnednnLinear


class Int8Linear(nn.Linear):
    """`nn.Linear` by an integer product, without gradients, on a CPU; made by `use_int8`.

    An integer product is exact in any order, and each input row is rounded by its own largest value: an output depends
    on its own row alone, not on the batch or the number of threads.
    """

    smoothing: Float[Tensor, " inner"]
    scale: Float[Tensor, " outer"]

    def forward(self, input: Float[Tensor, "*rows inner"]) -> Float[Tensor, "*rows outer"]:
        numbers, scales = _in_int8(input.reshape(-1, input.shape[-1]) * self.smoothing)
        output = torch._int_mm(numbers, self.weight.T).float().mul_(scales).mul_(self.scale)
        return (output if self.bias is None else output.add_(self.bias)).view(*input.shape[:-1], -1)


def _in_int8(rows: Float[Tensor, "rows inner"]) -> tuple[Int8[Tensor, "rows inner"], Float[Tensor, "rows 1"]]:
    """Return integers from -127 to 127, and the scale to multiply each row by; changes `rows`."""
    largest = torch.maximum(rows.amax(dim=1, keepdim=True), rows.amin(dim=1, keepdim=True).neg_())
    scales = largest.div_(127).clamp_min_(torch.finfo(torch.float32).tiny)
    return rows.div_(scales).round_().to(torch.int8), scales


def use_int8(model: nn.Module, run: Callable[[], object]) -> None:
    """Round the weights of every `nn.Linear` of a frozen model to 8 bits, in place, and the inputs at each product.

    A few columns of the inputs are many times as large as the others, which would round to almost nothing. So each
    column is divided by the square root of its largest value over that of its weights, and its weights are multiplied
    by the same factor (Xiao et al. 2023, SmoothQuant, equation 4 with alpha = 0.5). `run` runs the model, in float32 on
    a CPU, on inputs like those to come. ValueError if this processor does not multiply 8-bit numbers exactly.
    """
    large = torch.full((32, 1024), 127, dtype=torch.int8)
    if not bool((torch._int_mm(large, large.T) == 127 * 127 * 1024).all()):  # sums of 16 bits would be cut
        raise ValueError("this processor does not multiply 8-bit numbers exactly")
    largest: dict[nn.Module, Tensor] = {}

    def watched(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        columns = inputs[0].abs().flatten(0, -2).amax(dim=0)
        largest[layer] = torch.maximum(columns, largest.get(layer, columns))

    layers = [part for part in model.modules() if type(part) is nn.Linear]
    with ExitStack() as hooks:
        for layer in layers:
            hooks.callback(layer.register_forward_pre_hook(watched).remove)
        run()
    for layer in layers:
        weight = layer.weight.detach()
        by_column = weight.abs().amax(dim=0).clamp_min(1e-6)
        factors = (largest.get(layer, by_column).clamp_min(1e-6) / by_column).sqrt()
        numbers, scales = _in_int8(weight * factors)
        layer.weight = nn.Parameter(numbers, requires_grad=False)
        layer.register_buffer("smoothing", 1 / factors)
        layer.register_buffer("scale", scales.squeeze(1))
        layer.__class__ = Int8Linear
