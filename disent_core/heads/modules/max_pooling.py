"""A linear layer on token states with max pooling over the tokens of each text."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from disent_core.heads.modules.attention import widened
from disent_core.matmul import Linear
from disent_core.settings import Precision


class MaxLinear(Linear):
    """`Linear` on each token's state, then the maximum over the tokens: one value a text and unit.

    A unit's gradient goes to the token that gave its maximum (to each of several equal ones). Padding has no influence.
    Products have the `precision`; inputs, outputs and gradients are float32.
    """

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - a text is states and a mask
        self, states: Float[Tensor, "texts length inner"], mask: Bool[Tensor, "texts length"]
    ) -> Float[Tensor, "texts outer"]:
        """Return the maxima of W h + b over each text's real tokens, of which there is at least one."""
        tokens = _rounded(widened(states), self.precision)
        maxima, *_ = _MaxProduct.apply(tokens.unsqueeze(0), mask.unsqueeze(0), self.weight.unsqueeze(0), self.precision)
        return maxima.squeeze(0) + self.bias  # b is the same for every token


class _MaxProduct(torch.autograd.Function):
    """max_j W h_j of each seed of a stack: rounded h is [seeds, texts, length, inner], W [seeds, outer, inner].

    The products, [seeds, texts, length, outer], are an output only because backward needs them.
    """

    @staticmethod
    def forward(states: Tensor, mask: Tensor, weight: Tensor, precision: Precision) -> tuple[Tensor, Tensor]:
        seeds = zip(states.expand(len(weight), *states.shape[1:]), _rounded(weight, precision), strict=True)
        products = _stack([F.linear(tokens, matrix) for tokens, matrix in seeds])
        padding = (~mask).expand(len(weight), *mask.shape[1:])
        if (
            products.is_cpu
        ):  # few rows are padding: numbers of rows, for which a CPU would wait for a GPU, touch no other
            products.view(-1, products.shape[-1]).index_fill_(0, padding.flatten().nonzero().squeeze(1), float("-inf"))
        else:
            products.masked_fill_(padding.unsqueeze(3), float("-inf"))
        return products.amax(dim=2).to(weight.dtype), products

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        states, _, weight, ctx.precision = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(states, weight, *output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, maxima, products = ctx.saved_tensors
        upstream, maxima = (_rounded(value, ctx.precision).unsqueeze(2) for value in (gradients[0], maxima))
        # The upstream gradient goes to the tokens whose product is the maximum: [seeds, texts, length, outer].
        routed = _where_equal(products, maxima, upstream)
        to_states = to_weight = None
        if ctx.needs_input_grad[0]:
            to_states = (routed @ _rounded(weight, ctx.precision).unsqueeze(1)).to(states.dtype)
            to_states = to_states if len(states) == len(weight) else to_states.sum(dim=0, keepdim=True)
        if ctx.needs_input_grad[2]:
            tokens = states.flatten(1, 2).expand(len(weight), -1, -1)
            seeds = zip(routed.flatten(1, 2), tokens, strict=True)
            to_weight = _stack([F.linear(gradient.T, rows.T) for gradient, rows in seeds]).to(weight.dtype)
        return to_states, None, to_weight, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """The stack is in front of each tensor's own dimension of length 1, or the tensor is the same for all."""
        states, mask, weight = (
            value if dim is None else value.movedim(dim, 0).squeeze(1)
            for value, dim in zip(inputs[:3], in_dims[:3], strict=True)
        )
        weight = weight.expand(info.batch_size, *weight.shape[1:])
        maxima, products = _MaxProduct.apply(states, mask, weight, inputs[3])
        return (maxima.unsqueeze(1), products.unsqueeze(1)), (0, 0)


def _rounded(values: Tensor, precision: Precision) -> Tensor:
    return values.bfloat16() if precision == "bfloat16" else values


def _stack(parts: list[Tensor]) -> Tensor:
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)


def _where_equal(left: Tensor, right: Tensor, values: Tensor) -> Tensor:
    """`values` where left equals right to the bit, else 0: on bits as integers, in a tenth of the time of `where`."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    is_equal = torch.eq(left.view(bits), right.view(bits), out=torch.empty_like(left, dtype=bits))
    return is_equal.mul_(values.view(bits)).view(left.dtype)
