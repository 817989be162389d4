"""Compute exact cosines with numpy alone: rows of norm 1 lie on a grid, where float64 dot products have no error.

`evaluation.metrics.exact_search` explains the grid, and gives bit-identical scores and ranks with torch, which is
faster for many queries but takes seconds to import.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_GRID = np.float32(1 << 26)
_BLOCK = 4_096  # candidates converted to float64 at once: 8 MB at 256 dimensions
_SCORES = 1 << 24  # scores held at once: 64 MB


def on_grid(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round a matrix of values of at most 1 in place to multiples of 2^-26, without negative zeros, and return it.

    Values of 2^-3 and more are such multiples already. Cosines change by less than the rounding of float32.
    """
    matrix *= _GRID
    np.rint(matrix, out=matrix)
    matrix /= _GRID
    matrix += np.float32(0)
    return matrix


def unit(matrix: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return finite rows of any scale with norm 1, on the grid; a row of zeros stays zero."""
    matrix = matrix.astype(np.float32 if matrix.dtype.itemsize < 8 else np.float64)
    # Divide by the largest value first, so that no square overflows or underflows.
    peak = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
    matrix /= np.where(peak > 0, peak, 1)
    norm = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix /= np.where(norm > 0, norm, 1)
    return on_grid(matrix.astype(np.float32, copy=False))


def nearest_rows(
    queries: NDArray[np.float32], pool: NDArray[np.float32], k: int, group: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return scores and indices of the best k candidates of each query: highest first, equal ones by index.

    Rows are as `unit` returns them; `k` is at most the number of candidates. These are the rows of the pool or, with
    `group`, texts: `group` has the row number of each text.
    """
    scores, indices = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for queried in blocks(len(queries), max(1, _SCORES // max(len(pool), 1))):
        doubles = queries[queried].astype(float)
        of_pool = np.empty((len(doubles), len(pool)), np.float32)
        for block in blocks(len(pool), _BLOCK):
            of_pool[:, block] = doubles @ pool[block].astype(float).T
        for row, of_query in enumerate(of_pool, queried.start):
            of_texts = of_query if group is None else of_query[group]
            indices[row] = _best(of_texts, k)
            scores[row] = of_texts[indices[row]] + np.float32(0)
    return scores, indices


def _best(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the indices of the k highest scores, the highest first, equal ones by index."""
    if k < len(scores):
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        above = np.flatnonzero(scores > least)
        chosen = np.concatenate([above, np.flatnonzero(scores == least)[: k - len(above)]])
    else:
        chosen = np.arange(len(scores))
    return chosen[np.lexsort((chosen, -scores[chosen]))]


def blocks(rows: int, step: int) -> Iterator[slice]:
    """Yield slices of `step` rows; the last one may be shorter."""
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
