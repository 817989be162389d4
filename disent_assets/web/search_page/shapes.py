"""The shapes of the texts of an index, grouped once, on the first request."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from disent_core.shapes import Shape, compared, shapes

if TYPE_CHECKING:
    import numpy as np

    from disent import Index

MOST_TEXTS = 5_000
"""Most texts to group: the work grows with their square."""
LONGEST = 300  # characters of a grouped text; aligning two texts takes time in the product of their words
MOST_SHOWN = 100
TEMPLATE = "template"
PATIENCE_SECONDS = 2.0
"""How long a request waits before the answer that the shapes are not ready yet."""


@dataclass(frozen=True)
class IndexShapes:
    """Shapes of an index.

    Attributes:
        shapes: of at least two texts each, the largest first, at most `MOST_SHOWN`.
        more: number of further such shapes.
        alone: number of texts whose shape no other text has.
        texts: number of grouped texts.
    """

    shapes: tuple[Shape, ...]
    more: int
    alone: int
    texts: int


class LazyShapes:
    """Groups the texts of an index once, in a thread, while searches go on."""

    def __init__(self, index: "Index") -> None:
        self.index = index
        self.is_possible = TEMPLATE in index.embeddings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shapes")

    @cached_property
    def _grouped(self) -> "Future[IndexShapes]":
        return self._thread.submit(index_shapes, self.index)

    async def get(self) -> IndexShapes | None:
        """Return the shapes, or None if computing them takes longer than a request waits.

        Raises:
            ValueError: if the index has no shapes, with the reason.
            DisentError: if the vectors of the index can't be read.
        """
        self.index._embedding("shape")
        await asyncio.wait([asyncio.wrap_future(self._grouped)], timeout=PATIENCE_SECONDS)
        return self._grouped.result() if self._grouped.done() else None


def index_shapes(index: "Index") -> IndexShapes:
    """Group evenly spaced texts of an index, at most `MOST_TEXTS`, by the vectors in it."""
    step = max(-(-len(index) // MOST_TEXTS), 1)
    texts = [index.texts[row] for row in range(0, len(index), step) if 0 < len(index.texts[row].strip()) <= LONGEST]
    row_of = {compared(index.texts[row]): row for row in range(0, len(index), step)}

    def vectors(listed: Sequence[str]) -> "np.ndarray":
        return index.vectors(TEMPLATE, [row_of[text] for text in listed])

    listed = shapes(texts, vectors)
    several = [shape for shape in listed if shape.distinct > 1]
    return IndexShapes(
        shapes=tuple(several[:MOST_SHOWN]),
        more=max(len(several) - MOST_SHOWN, 0),
        alone=len(listed) - len(several),
        texts=len(texts),
    )
