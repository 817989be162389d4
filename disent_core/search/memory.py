"""Search texts and vectors in memory with numpy alone. No library of an extra is imported here."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from disent_core.errors import EncoderError
from disent_core.exact import nearest_rows, unit
from disent_core.text import text_keys

Hits = tuple[NDArray[np.float32], NDArray[np.int64]]
NONE = -1
"""Row of a hit that there is not."""


class MemoryIndex:
    """Texts, possibly repeated, with vectors of each embedding, searched as in `stored.StoredIndex`."""

    folder = approximate = noise = None

    def __init__(
        self,
        texts: Sequence[str],
        languages: Sequence[str | None],
        vectors: Mapping[str, NDArray[np.float32]],
        title: str,
    ) -> None:
        self.texts, self.languages, self.title = texts, languages, title
        self.spoken = frozenset(languages)
        self.embeddings = tuple(vectors)
        self.keys = np.array(text_keys(texts), dtype="S32")
        self._units = {name: _unit(rows, name) for name, rows in vectors.items()}

    def nearest(
        self,
        queries: NDArray[np.float32],
        embedding: str,
        k: int,
        *,
        keep: Callable[[str | None], bool] | None = None,
        without: Sequence[str] | None = None,
        is_exact: bool = True,
    ) -> Hits:
        """Find the k texts with the highest cosines to each query, always exactly; see `StoredIndex.nearest`."""
        kept = [row for row, language in enumerate(self.languages) if keep is None or keep(language)]
        rows, pool = np.array(kept, dtype=np.int64), self._units[embedding]
        copies = 0 if without is None or not kept else int(np.unique(self.keys[rows], return_counts=True)[1].max())
        pool = pool if len(rows) == len(pool) else pool[rows]
        scores, places = nearest_rows(_unit(queries, "queries"), pool, min(k + copies, len(rows)))
        return best_of([(scores, rows[places])], len(queries), k, self.keys, without)

    def units(self, embedding: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of some rows, scaled to norm 1."""
        return self._units[embedding][rows]


def best_of(found: Sequence[Hits], queries: int, k: int, keys: np.ndarray, without: Sequence[str] | None) -> Hits:
    """Return the best k hits of each query: the highest scores first, equal ones by row, then rows of -1.

    `found` has scores and rows, [queries, any]; `keys` are those of the rows, and `without` has the key that each query
    must not find.
    """
    nothing = np.full((queries, k), -np.inf, np.float32), np.full((queries, k), NONE)
    scores, rows = (np.concatenate(columns, axis=1) for columns in zip(*found, nothing, strict=True))
    if without is not None and len(keys):
        is_left_out = (rows != NONE) & (keys[rows] == np.array(without, dtype="S32")[:, None])
        scores, rows = np.where(is_left_out, np.float32(-np.inf), scores), np.where(is_left_out, NONE, rows)
    order = np.lexsort((np.where(rows == NONE, len(keys), rows), -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)


def _unit(rows: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise EncoderError(f"{name}: the vector of text {bad + 1} has values that are not finite. Use another model")
    return unit(rows)
