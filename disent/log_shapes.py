"""Group the texts of a log by shape: `disent.shapes`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from disent_core.shapes import Shape


def shapes(
    texts: Iterable[str],
    model: Any = None,
    *,
    earlier: Iterable[str] | None = None,
    threshold: float | None = None,
    show_progress: bool = False,
) -> "list[Shape]":
    """Group texts of one or several languages by their shape, as patterns with proposed slots.

    Args:
        texts: the texts of a log; repeated texts count.
        model: what `load` returns, or a name or path for it; None: the model `small`.
        earlier: texts of an earlier log, to tell new shapes from known ones; both logs are grouped together.
        threshold: least mean cosine of shapes at which wordings share a group; None: 0.7.
        show_progress: show on stderr how many texts are encoded, and the time left.

    Returns:
        The groups, the largest first; see `disent_core.shapes`.

    Raises:
        ValueError: if the model has no shape, a text is not a string, or the threshold is out of range.
    """
    from disent.model import opened
    from disent_core.shapes import THRESHOLD, shapes
    from disent_core.text import listed_texts

    loaded = opened(model)

    def encode(listed: Sequence[str]) -> "np.ndarray":
        return loaded.encode(listed, "shape", normalize=True, show_progress=show_progress)

    known = None if earlier is None else listed_texts(earlier)
    return shapes(listed_texts(texts), encode, earlier=known, threshold=THRESHOLD if threshold is None else threshold)
