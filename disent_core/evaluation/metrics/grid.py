"""The grid of values on which dot products are exact (`exact_search`), and blocks of rows."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int64

_GRID = np.float32(1 << 26)

Queries = Float32[np.ndarray, "queries dim"]
PoolRows = Float32[np.ndarray, "pool dim"]
Found = tuple[Float32[np.ndarray, "queries k"], Int64[np.ndarray, "queries k"]]
"""Scores and indices of the k nearest candidates of each query, the best first."""


def on_grid(matrix: Float32[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """Round a matrix of values of at most 1 in place to multiples of 2^-26, without negative zeros, and return it.

    Values of 2^-3 and more are such multiples already. Cosines change by less than the rounding of float32.
    """
    matrix *= _GRID
    np.rint(matrix, out=matrix)
    matrix /= _GRID
    matrix += np.float32(0)
    return matrix


def blocks(rows: int, step: int) -> Iterator[slice]:
    """Yield slices of `step` rows; the last one may be shorter."""
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
