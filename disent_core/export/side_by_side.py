"""Truncate embeddings of several parts side by side, all parts together. Exported folders carry a copy of this file.

sentence-transformers' `truncate_dim` keeps the first columns: in a meaning, these would be the template's alone.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor


class SideBySide(Tensor):
    """A matrix of parts side by side, whose `[..., :n]` takes the first columns of every part, in proportion.

    Each part keeps its norm, so that the cosine of two truncated vectors weighs the parts as before. Any other
    operation sees a plain tensor and returns one.
    """

    widths: Sequence[int]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.__getitem__ and isinstance(args[0], cls) and isinstance(args[1], tuple):
                match args[1]:
                    case (_, slice(start=None, stop=int(columns), step=None)):
                        return truncated(args[0].as_subclass(Tensor), args[0].widths, columns)
                    case _:
                        pass
            return func(*args, **(kwargs or {}))


def side_by_side(matrix: Tensor, widths: Sequence[int]) -> Tensor:
    """Return the matrix with a truncation that respects its parts; unchanged if it has one part, or is traced."""
    if len(widths) < 2 or torch.jit.is_tracing():
        return matrix
    parts = matrix.as_subclass(SideBySide)
    parts.widths = widths
    return parts


def truncated(matrix: Tensor, widths: Sequence[int], columns: int) -> Tensor:
    """Return the first columns of every part, `columns` in all, each part scaled to its original norm.

    Raises:
        ValueError: if a part would get no column.
    """
    total = sum(widths)
    if columns >= total:
        return matrix
    ends = [round(end * columns / total) for end in accumulate(widths)]
    kept = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    if min(kept) < 1:
        parts = " + ".join(map(str, widths))
        raise ValueError(f"{columns} dimensions can't have some of each part, {parts}. Keep more, or take a part alone")
    shortened = []
    for part, count in zip(matrix.split(list(widths), dim=-1), kept, strict=True):
        first = part[..., :count]
        lengths = part.norm(dim=-1, keepdim=True) / first.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        shortened.append(first * lengths)
    return torch.cat(shortened, dim=-1)
