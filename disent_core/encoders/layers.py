"""Run a transformer up to the highest layer that is read, and return the states of one or several layers."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from disent_core.encoders.contract import Layers

States = Float[Tensor, "rows length dim"]
Visible = Bool[Tensor, "rows length"]  # which positions tokens attend to


def run_model(
    model: Any, ids: Int[Tensor, "rows length"], visible: Visible | None, *, layer: Layers
) -> tuple[States, Tensor | None]:
    """Return the states of a layer, or of several side by side, and the output of the model's own pooler.

    The pooler reads the last layer: without that, its output is None. Layer k is the input of block k, so the blocks
    from the highest layer on are not run. `visible` of None stands for all positions.
    """
    mask, blocks = None if visible is None else visible.long(), list(block_list(model) or ())
    layers = [number % (len(blocks) + 1) for number in _listed(layer)] if blocks else []
    if layers and max(layers) < len(blocks):
        return torch.cat(_inputs_of([blocks[number] for number in layers], model, ids, mask), dim=-1), None
    every_layer = layer != -1
    output = model(input_ids=ids, attention_mask=mask, output_hidden_states=every_layer)
    if every_layer:
        hidden = torch.cat([output.hidden_states[number] for number in _listed(layer)], dim=-1)
    else:
        hidden = output.last_hidden_state
    return hidden, getattr(output, "pooler_output", None)


def states_width(model: Any, layer: Layers) -> int:
    """Return the number of columns of the states that `run_model` returns."""
    return int(model.config.hidden_size) * len(_listed(layer))


def missing_layers(model: Any, layer: Layers) -> list[int]:
    count = model.config.num_hidden_layers
    return [number for number in _listed(layer) if not -count - 1 <= number <= count]


def _listed(layer: Layers) -> tuple[int, ...]:
    return (layer,) if isinstance(layer, int) else layer


def block_list(model: Any) -> nn.ModuleList | None:
    """Return the blocks of the transformer in order; None for an architecture that does not have them as a list."""
    if not isinstance(model, nn.Module):
        return None
    count = model.config.num_hidden_layers
    lists = (part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count)
    return next(lists, None)


class _StopError(Exception):
    """The highest block that is watched has its input."""


def _inputs_of(blocks: Sequence[nn.Module], model: nn.Module, ids: Tensor, mask: Tensor | None) -> list[Tensor]:
    """Run the model until all of these blocks have their inputs, and return those."""
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
