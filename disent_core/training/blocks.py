"""Apply heads on blocks of texts whose shape depends on no other text, so that a text's embedding does not either.

The rounding of a matrix product depends on its shape. So every block has as many rows as all blocks of its width, rows
are repeated where there are too few texts, and the width depends on a text's own length.
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
"""Of a block, by device; small enough on the CPU that a single text is fast."""


def embedded(
    embed: Callable[[Batch, Int[Tensor, " texts"]], Batch], features: TextFeatures, device: str
) -> dict[str, Float[np.ndarray, "texts _"]]:
    """Return what `embed` gives for each of at least one text, by name, in order.

    `embed` maps `vectors` of some texts with, if there are states, their `grouped_states`, and the numbers of these
    texts, which may repeat, to one matrix a name.
    """
    matrices: dict[str, np.ndarray] = {}
    for count, texts, batch in _blocks(features, device):
        for name, value in embed({key: part.to(device) for key, part in batch.items()}, texts).items():
            rows = value[:count].cpu().numpy()  # the rest of the block is padding
            matrix = matrices.setdefault(name, np.empty((len(features), rows.shape[1]), rows.dtype))
            matrix[texts[:count].numpy()] = rows
    return matrices


def in_fixed_shapes(function: Callable[[Tensor], Tensor], rows: Num[Tensor, "rows _"]) -> Num[Tensor, "rows _"]:
    """Apply a function of matrices, row by row the same, to a matrix of any number of rows."""
    size = _ROWS[rows.device.type]
    return torch.cat([function(block[_padded(len(block), size)])[: len(block)] for block in rows.split(size)])


def _blocks(features: TextFeatures, device: str) -> Iterator[tuple[int, Int[Tensor, " texts"], Batch]]:
    """Yield the number of different texts in a block, the numbers of its texts (those, then repeated ones), and it."""
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
    """Return 0 to `count`, repeated up to `size`."""
    return torch.arange(size) % count
