"""Group unit vectors by average linkage: join groups whose vectors have a mean cosine above a threshold.

The required cosine falls from 1 to the threshold in steps, and at each step every group joins its nearest group, if
that is near enough. The steps are the same for every threshold, so the groups of a looser one are unions of those of a
stricter one. Only numpy is imported here.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_STEPS = 100  # from cosine 1 to 0
_ROUNDING = 1e-6  # error of a cosine in float32
_BLOCK = 1 << 24  # cosines computed at once: 64 MB

Labels = NDArray[np.int64]
"""The number of the group of each row, 0 to the number of groups - 1."""


def linked(vectors: NDArray[np.float32], threshold: float, labels: Labels | None = None) -> Labels:
    """Join groups while the mean cosine of their unit vectors [rows, dim] is at least the threshold, above 0.

    A looser threshold joins exactly what a stricter one joins, and perhaps more. `labels` are the groups to start from;
    None: each vector is alone.
    """
    labels = np.arange(len(vectors)) if labels is None else labels
    if not len(vectors):
        return labels
    sums, sizes = _summed(vectors, labels), np.bincount(labels)
    nearest, bound = _nearest(sums, sizes, np.arange(len(sizes)))
    # A group is stale if its nearest was joined: no cosine exceeds the bound, but all may be lower.
    is_stale = np.zeros(len(sizes), dtype=bool)
    steps = [step / _STEPS for step in range(_STEPS - 1, 0, -1) if step / _STEPS > threshold]
    for level in (*steps, threshold):
        is_near = bound >= level - _ROUNDING
        if (rows := np.flatnonzero(is_near & is_stale)).size:
            nearest[rows], bound[rows] = _nearest(sums, sizes, rows)
            is_stale[rows] = False
            is_near = bound >= level - _ROUNDING
        if not is_near.any():
            continue
        rows = np.flatnonzero(is_near)
        joined = components(len(sizes), zip(rows.tolist(), nearest[rows].tolist(), strict=True))
        is_new = np.bincount(joined) > 1
        _, first = np.unique(joined, return_index=True)
        bounds = np.full(len(first), -np.inf, dtype=np.float32)
        np.maximum.at(bounds, joined, bound)
        is_stale = is_new | is_stale[first] | is_new[joined[nearest[first]]]
        nearest, bound = joined[nearest[first]], bounds
        sums, sizes = _summed(sums, joined), np.bincount(joined, sizes).astype(np.int64)
        labels = joined[labels]
    return labels


def components(count: int, pairs: Iterable[tuple[int, int]]) -> Labels:
    """Return the connected components of rows 0 to `count` - 1, of which `pairs` are joined."""
    above = list(range(count))

    def top(row: int) -> int:
        while above[row] != row:
            above[row] = row = above[above[row]]
        return row

    for left, right in pairs:
        first, second = sorted((top(left), top(right)))
        above[second] = first
    return np.unique([top(row) for row in range(count)], return_inverse=True)[1]


def _summed(vectors: NDArray[np.float32], labels: Labels) -> NDArray[np.float32]:
    sums = np.zeros((labels.max() + 1, vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, labels, vectors)
    return sums


def _nearest(
    sums: NDArray[np.float32], sizes: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the nearest group of each of the groups `rows`, and the mean cosine of their vectors."""
    means = sums / sizes[:, None].astype(np.float32)
    nearest, cosines = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.float32)
    size = max(1, _BLOCK // len(means))
    for start in range(0, len(rows), size):
        chosen = rows[start : start + size]
        block = means[chosen] @ means.T
        block[np.arange(len(chosen)), chosen] = -np.inf
        nearest[start : start + size] = block.argmax(axis=1)
        cosines[start : start + size] = block[np.arange(len(chosen)), nearest[start : start + size]]
    return nearest, cosines
