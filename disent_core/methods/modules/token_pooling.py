"""Pool the token states of a text: attention with its complement (FMDA, Section 3), and a maximum over tokens (Facet).

With linear maps, sum_j a_j V(h_j) = V(sum_j a_j h_j) for weights that sum to 1, and (Q c).(K h_j) =
(K^T Q c).h_j + const: an utterance of L tokens costs O(L D + D^2), not O(L D^2), with the same result. So do the last
layers of deeper maps, with hidden units in place of h_j.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.matmul import Linear, affine, seeds_in_front, stack
from disent_core.methods.fmda import AttentionConfig, ResidualAttention
from disent_core.settings import Precision
from disent_core.training.data import Batch


def feed_forward(dim: int, config: AttentionConfig) -> nn.Module:
    if config.ffn == "linear":
        return Linear(dim, dim)
    activation = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}[config.activation]
    return nn.Sequential(Linear(dim, dim), activation(), Linear(dim, dim))


class TemplateAttention(nn.Module):
    """Attention of the sentence vector over token states (template), and the complement of it (residual)."""

    def __init__(self, dim: int, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config
        self.query, self.key = feed_forward(dim, config), feed_forward(dim, config)
        self.template_value, self.residual_value = feed_forward(dim, config), feed_forward(dim, config)
        self.scale = dim**-0.5 if config.attention_scale == "sqrt_d" else 1.0

    def forward(
        self, vectors: Float[Tensor, "roles texts dim"], texts: Sequence[Batch]
    ) -> tuple[Float[Tensor, "roles texts dim"], Float[Tensor, "roles texts dim"]]:
        """Return the template and residual of texts in several roles; `texts` has their `grouped_states`."""
        groups = [group for text in texts for group in state_groups(text)]
        order, inverse = (_within_all([text[name] for text in texts]) for name in ("order", "place"))
        # Sort the queries of all roles like the groups of states, [roles * texts, dim], and undo this at the end.
        queries = permuted(self._queries(vectors).flatten(0, 1), order, inverse).split(
            [len(mask) for _, mask in groups]
        )
        by_group = [self._of_group(group_queries, *group) for group_queries, group in zip(queries, groups, strict=True)]
        template, residual = (
            permuted(torch.cat(parts), inverse, order).view_as(vectors) for parts in zip(*by_group, strict=True)
        )
        return _last_layer(self.template_value)(template), _last_layer(self.residual_value)(residual)

    def _queries(self, vectors: Tensor) -> Tensor:
        """Return the vectors to multiply with each token's state, or with the hidden units of its key."""
        # The bias of K's last layer is left out: it adds the same amount to every token of an utterance.
        last = _last_layer(self.key)
        key, precision = last.weight.T, last.precision
        if isinstance(self.query, Linear):  # Q and K need only one product
            query_then_key = affine(key, self.query.weight.T, torch.zeros_like(self.query.bias), precision)
            return affine(vectors, query_then_key, key @ self.query.bias, precision)
        return affine(self.query(vectors), key, torch.zeros_like(last.bias), precision)

    def _of_group(
        self,
        queries: Float[Tensor, "group dim"],
        states: Float[Tensor, "group length dim"],
        mask: Bool[Tensor, "group length"],
    ) -> tuple[Float[Tensor, "group dim"], Float[Tensor, "group dim"]]:
        """Attend within a group of texts. The last layers of value maps are applied later, to all groups at once."""
        wide = widened(states)
        if self.config.attention_special == "drop":
            mask = without_special_tokens(mask)

        def summed(equation: str, rows: Tensor, layers: nn.Module) -> Tensor:
            if isinstance(layers, nn.Sequential):
                return torch.einsum(equation, rows, layers[:-1](wide))
            return _WithStates.apply(rows, states, wide, equation)

        scores = summed(_SCORES, queries, self.key)
        attention = (scores * self.scale).masked_fill(~mask, float("-inf")).softmax(dim=-1)
        complement = residual_weights(attention, mask, self.config.residual_attention)
        return summed(_SUMS, attention, self.template_value), summed(_SUMS, complement, self.residual_value)


def _last_layer(layers: nn.Module) -> Linear:
    last = layers[-1] if isinstance(layers, nn.Sequential) else layers
    assert isinstance(last, Linear)
    return last


def _within_all(rows: Sequence[Int[Tensor, " texts"]]) -> Int[Tensor, " all"]:
    stacked = torch.stack(list(rows))
    return (stacked + stacked.shape[1] * torch.arange(len(rows), device=stacked.device).unsqueeze(1)).flatten()


_SCORES, _SUMS = "td,tld->tl", "tl,tld->td"


class _WithStates(torch.autograd.Function):
    """Scores or weighted sums of each text's frozen token states, which get no gradient.

    Backward keeps the `states` as they are stored, often in half precision, and widens them again: a batch in float32
    is larger than the cache.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, states: Tensor, wide: Tensor, equation: str) -> Tensor:
        return torch.einsum(equation, rows, wide)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, states, _, ctx.equation = inputs
        ctx.save_for_backward(states)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (states,) = gradients, ctx.saved_tensors
        return torch.einsum(_SUMS if ctx.equation == _SCORES else _SCORES, gradient, widened(states)), None, None, None


def widened(states: Float[Tensor, "*texts dim"]) -> Float[Tensor, "*texts dim"]:
    """Return stored states in at least float32, the precision of all computation."""
    return states.to(torch.promote_types(states.dtype, torch.float32))


def permuted(
    rows: Float[Tensor, "rows dim"], order: Int[Tensor, " rows"], inverse: Int[Tensor, " rows"]
) -> Float[Tensor, "rows dim"]:
    """Return `rows[order]`; its gradient is gathered with the `inverse` permutation instead of scattered."""
    return _Permuted.apply(rows, order, inverse)


class _Permuted(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        return rows.index_select(0, order)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return gradients[0].index_select(0, ctx.saved_tensors[0]), None, None


def residual_weights(
    attention: Float[Tensor, "texts length"], mask: Bool[Tensor, "texts length"], form: ResidualAttention
) -> Float[Tensor, "texts length"]:
    """Return the residual's weights from the template's: softmax(1 - a), as published, or (1 - a) / (L - 1).

    Either sums to 1. A text's only token gets weight 1: 0 / 0 counts as 1, which is what softmax gives. As published,
    no token gets more than e times another's weight, so it is close to a plain mean.
    """
    complement = 1 - attention  # padding has attention 0, hence complement 1: it is masked again
    if form == "softmax":
        return complement.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    other_tokens = mask.sum(dim=-1, keepdim=True) - 1
    return torch.where(other_tokens > 0, complement / other_tokens.clamp_min(1), 1.0) * mask


def without_special_tokens(mask: Bool[Tensor, "texts length"]) -> Bool[Tensor, "texts length"]:
    """Also mask the first and last token of each text, unless it has no other tokens."""
    following = torch.nn.functional.pad(mask[:, 1:], (0, 1), value=False)
    inner = mask & following
    inner = torch.cat([torch.zeros_like(inner[:, :1]), inner[:, 1:]], dim=1)
    return torch.where(inner.any(dim=1, keepdim=True), inner, mask)


def state_groups(batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the states and mask of each group of texts of similar length, in the batch's `order`."""
    group = 0
    while f"states_{group}" in batch:
        yield batch[f"states_{group}"], batch[f"mask_{group}"]
        group += 1


def mean_states(batch: Batch) -> Float[Tensor, "texts dim"]:
    means = []
    for states, mask in state_groups(batch):
        wide = widened(states)
        means.append(torch.einsum(_SUMS, mask.to(wide.dtype) / mask.sum(dim=1, keepdim=True), wide))
    return torch.cat(means)[batch["place"]]


def of_role(batch: Batch, role: str) -> Batch:
    """Return the tensors of one role, without the role's name as prefix."""
    prefix = f"{role}_"
    return {name.removeprefix(prefix): value for name, value in batch.items() if name.startswith(prefix)}


class MaxPooledLinear(Linear):
    """`Linear` on each token's state, then the maximum over the tokens: one value per text and unit.

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
    """max_j W h_j for each seed of a stack; rounded h is [seeds, texts, length, inner], W [seeds, outer, inner].

    The products, [seeds, texts, length, outer], are an output only because backward needs them.
    """

    @staticmethod
    def forward(states: Tensor, mask: Tensor, weight: Tensor, precision: Precision) -> tuple[Tensor, Tensor]:
        seeds = zip(states.expand(len(weight), *states.shape[1:]), _rounded(weight, precision), strict=True)
        products = stack([F.linear(tokens, matrix) for tokens, matrix in seeds])
        padding = (~mask).expand(len(weight), *mask.shape[1:])
        if products.is_cpu:  # few rows are padding, so set only those; on a GPU, finding them would make the CPU wait
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
        # Route the upstream gradient to the tokens whose product is the maximum: [seeds, texts, length, outer].
        routed = _where_equal(products, maxima, upstream)
        to_states = to_weight = None
        if ctx.needs_input_grad[0]:
            to_states = (routed @ _rounded(weight, ctx.precision).unsqueeze(1)).to(states.dtype)
            to_states = to_states if len(states) == len(weight) else to_states.sum(dim=0, keepdim=True)
        if ctx.needs_input_grad[2]:
            tokens = states.flatten(1, 2).expand(len(weight), -1, -1)
            seeds = zip(routed.flatten(1, 2), tokens, strict=True)
            to_weight = stack([F.linear(gradient.T, rows.T) for gradient, rows in seeds]).to(weight.dtype)
        return to_states, None, to_weight, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        states, mask, weight = seeds_in_front(inputs[:3], in_dims[:3])
        weight = weight.expand(info.batch_size, *weight.shape[1:])
        maxima, products = _MaxProduct.apply(states, mask, weight, inputs[3])
        return (maxima.unsqueeze(1), products.unsqueeze(1)), (0, 0)


def _rounded(values: Tensor, precision: Precision) -> Tensor:
    return values.bfloat16() if precision == "bfloat16" else values


def _where_equal(left: Tensor, right: Tensor, values: Tensor) -> Tensor:
    """Return `values` where left equals right to the bit, else 0: on integers, in a tenth of the time of `where`."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    is_equal = torch.eq(left.view(bits), right.view(bits), out=torch.empty_like(left, dtype=bits))
    return is_equal.mul_(values.view(bits)).view(left.dtype)
