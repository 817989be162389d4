"""Run a transformer up to the highest layer that is read, for the states of one or more layers, and set its attention.

`use_attention` sets one of two implementations: `disent_exact`, which is in float32 on a CPU and the same to the bit
for a text wherever it is in the batch, or the faster `disent_batched`, which is equal up to the last bits.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.encoders.contract import Layers, listed_layers

States = Float[Tensor, "rows length dim"]
Visible = Bool[Tensor, "rows length"]  # which positions tokens attend to


def run_model(
    model: Any, ids: Int[Tensor, "rows length"], visible: Visible | None, *, layer: Layers
) -> tuple[States, Tensor | None]:
    """Return the states of one layer, or of several concatenated, and the output of the model's own pooler.

    The pooler reads the last layer; if that is not run, its output is None. Layer k is the input of block k, so blocks
    from the highest layer on are not run. `visible` None means all positions.
    """
    mask, blocks = None if visible is None else visible.long(), list(block_list(model) or ())
    layers = [number % (len(blocks) + 1) for number in listed_layers(layer)] if blocks else []
    if layers and max(layers) < len(blocks):
        return torch.cat(_inputs_of([blocks[number] for number in layers], model, ids, mask), dim=-1), None
    every_layer = layer != -1
    output = model(input_ids=ids, attention_mask=mask, output_hidden_states=every_layer)
    if every_layer:
        hidden = torch.cat([output.hidden_states[number] for number in listed_layers(layer)], dim=-1)
    else:
        hidden = output.last_hidden_state
    return hidden, getattr(output, "pooler_output", None)


def states_width(model: Any, layer: Layers) -> int:
    """Return the number of columns of the states that `run_model` returns."""
    return int(model.config.hidden_size) * len(listed_layers(layer))


def block_list(model: Any) -> nn.ModuleList | None:
    """Return the blocks of the transformer in order; None for an architecture without a list of blocks."""
    if not isinstance(model, nn.Module):
        return None
    count = model.config.num_hidden_layers
    lists = (part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count)
    return next(lists, None)


class _StopError(Exception):
    """Raised when all watched blocks have their inputs, so that nothing after them needs to run."""


def _inputs_of(blocks: Sequence[nn.Module], model: nn.Module, ids: Tensor, mask: Tensor | None) -> list[Tensor]:
    """Run the model until all of these blocks have their inputs, and return the inputs."""
    inputs: dict[nn.Module, Tensor] = {}

    def watched(block: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        inputs[block] = positional[0] if positional else named["hidden_states"]
        if len(inputs) == len(set(blocks)):
            raise _StopError

    with ExitStack() as hooks:
        for block in set(blocks):
            hooks.callback(block.register_forward_pre_hook(watched, with_kwargs=True).remove)
        with suppress(_StopError):
            model(input_ids=ids, attention_mask=mask)
    return [inputs[block] for block in blocks]


_Heads = Float[Tensor, "texts heads width dim"]
_EXACT, _BATCHED = "disent_exact", "disent_batched"
"""Names of `_exact` and `_batched` in transformers' register of attentions."""
_SHORT, _ALIGNED = 32, 16  # tokens below which a text is short; float32 numbers that fill 64 bytes


def use_attention(model: Any, *, batched: bool = False) -> None:
    """Make a transformers model that uses torch's attention compute it with `_exact`, or with `_batched`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    for name, attention in ((_EXACT, _exact), (_BATCHED, _batched)):
        AttentionInterface.register(name, attention)
        AttentionMaskInterface.register(name, sdpa_mask)
    if model.config._attn_implementation in ("sdpa", _EXACT):
        model.set_attn_implementation(_BATCHED if batched else _EXACT)


def _exact(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **named: Any) -> Any:
    """Compute what `sdpa_attention_forward` of transformers computes; short texts on one thread.

    In torch's attention on the CPU, each thread has a buffer whose alignment depends on the batch's width, and the
    rounding of a product depends on alignment. From 32 tokens on, all buffers are aligned. Training and traced graphs
    need no such care. On the CPU, attention in bfloat16 is slower than in float32 (half as fast for a few tokens) and
    rounds more, so a model with bfloat16 weights computes it in float32.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if torch.is_grad_enabled() or query.device.type != "cpu" or torch.jit.is_tracing():
        return sdpa_attention_forward(module, query, key, value, mask, **named)
    dtype = query.dtype
    if dtype == torch.bfloat16 and not torch.is_autocast_enabled("cpu"):
        query, key, value, mask = (_widened(tensor) for tensor in (query, key, value, mask))
    with _one_thread(query.shape[-2] < _SHORT):
        states, weights = sdpa_attention_forward(module, query, key, value, mask, **named)
    return states.to(dtype), weights


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype == torch.bfloat16 else value


@contextmanager
def _one_thread(needed: bool) -> Iterator[None]:
    threads = torch.get_num_threads()
    if not needed or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _batched(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **named: Any) -> Any:
    """Compute what `_exact` computes, up to the last bits; short texts without padding take two products in total.

    torch's attention takes two products per head and text, and its softmax is slow on rows that do not fill the
    processor's registers. Here keys are padded to fill them, which also aligns every matrix.
    """
    width, dim = query.shape[-2:]
    is_causal = getattr(module, "is_causal", True) if named.get("is_causal") is None else named["is_causal"]
    is_plain = mask is None and query.shape == key.shape and not is_causal and named.get("position_bias") is None
    is_small = width < _SHORT and dim % _ALIGNED == 0 and query.device.type == "cpu"
    if not (is_plain and is_small and torch.backends.mkl.is_available()):
        return _exact(module, query, key, value, mask, **named)
    scaling = named.get("scaling")
    with _one_thread(True):
        return _in_two_products(query, key, value, dim**-0.5 if scaling is None else scaling), None


def _in_two_products(
    query: _Heads, key: _Heads, value: _Heads, scaling: float
) -> Float[Tensor, "texts width heads dim"]:
    texts, heads, width, dim = query.shape
    padded = -(-width // _ALIGNED) * _ALIGNED
    keys = torch.zeros(texts, heads, padded, dim)
    keys[:, :, :width] = key
    hidden = torch.zeros(padded)
    hidden[width:] = -torch.inf
    scores = torch.baddbmm(hidden, _matrices(query), keys.flatten(0, 1).transpose(1, 2), alpha=scaling)
    states = torch.bmm(scores.softmax(dim=-1)[..., :width], _matrices(value)).view(texts, heads, width, dim)
    return states.transpose(1, 2).to(query.dtype, memory_format=torch.contiguous_format).contiguous()


def _matrices(values: _Heads) -> Float[Tensor, "matrices width dim"]:
    return values.to(torch.float32, memory_format=torch.contiguous_format).flatten(0, 1)
