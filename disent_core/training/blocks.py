"""Apply heads to blocks whose shape depends on no other text, so that a text's embedding does not either.

The rounding of a matrix product depends on its shape. So all blocks of one width have the same number of rows (rows are
repeated if there are too few texts), and a text's width depends only on its own length.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from disent_core.encoders.tokens import padded_widths
from disent_core.training.data import Batch, TextFeatures

_ROWS = {"cpu": 256, "cuda": 4096}
_TOKENS = {"cpu": 1024, "cuda": 65_536}
"""Tokens of a block, by device; few enough on the CPU that a single text is fast."""


def embedded(
    embed: Callable[[Batch, Int[Tensor, " texts"]], Batch], features: TextFeatures, device: str
) -> dict[str, Float[np.ndarray, "texts _"]]:
    """Return the embeddings of at least one text by name, in order, computed by `embed`.

    `embed` maps some texts' `vectors` (with their `grouped_states`, if there are states) and the indices of these
    texts, which may repeat, to one matrix per name.
    """
    matrices: dict[str, np.ndarray] = {}
    for count, texts, batch in _blocks(features, device):
        for name, value in embed({key: part.to(device) for key, part in batch.items()}, texts).items():
            rows = value[:count].cpu().numpy()  # the rest of the block is padding
            matrix = matrices.setdefault(name, np.empty((len(features), rows.shape[1]), rows.dtype))
            matrix[texts[:count].numpy()] = rows
    return matrices


def in_fixed_shapes(function: Callable[[Tensor], Tensor], rows: Num[Tensor, "rows _"]) -> Num[Tensor, "rows _"]:
    """Apply a function that treats matrix rows independently to a matrix of any number of rows."""
    size = _ROWS[rows.device.type]
    return torch.cat([function(block[_padded(len(block), size)])[: len(block)] for block in rows.split(size)])


def _blocks(features: TextFeatures, device: str) -> Iterator[tuple[int, Int[Tensor, " texts"], Batch]]:
    """Yield for each block its number of distinct texts, its texts' indices (distinct, then repeated), and itself."""
    states, state_rows = features.states, features.state_rows
    if states is None or state_rows is None:
        for chosen in torch.arange(len(features)).split(_ROWS[device]):
            texts = chosen[_padded(len(chosen), _ROWS[device])]
            yield len(chosen), texts, {"vectors": features.vectors.take(features.rows[texts])}
        return
    widths = torch.from_numpy(padded_widths(states.length[state_rows].numpy()))
    for width in widths.unique().tolist():
        order = torch.arange(max(_TOKENS[device] // width, 1))
        for chosen in (widths == width).nonzero().squeeze(1).split(len(order)):
            texts = chosen[_padded(len(chosen), len(order))]
            values, mask = states.take(state_rows[texts], width)
            of_states = {"order": order, "place": order, "states_0": values, "mask_0": mask}
            yield len(chosen), texts, {"vectors": features.vectors.take(features.rows[texts]), **of_states}


def _padded(count: int, size: int) -> Int[Tensor, " size"]:
    """Return 0 to `count` - 1, repeated up to `size`."""
    return torch.arange(size) % count
