"""Exact search among rows of norm 1: a float32 product finds the few candidates that may win, float64 scores them.

Entries are multiples of 2^-26 (`on_grid`). So products of two entries are multiples of 2^-52, no sum of some of a
pair's products reaches 2 (Cauchy and Schwarz), and every such sum fits in the 53 bits of a float64: there the dot
product of two rows is exact, in whatever order it is added up. A pair's score is that number, rounded once to
float32. It depends on the two rows alone: not on blocks, threads, the library, or the other candidates.
"""

import logging
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32, Int, Int64
from torch import Tensor

from disent_core.matmul import product
from disent_core.progress import Progress

logger = logging.getLogger(__name__)

_GRID = np.float32(1 << 26)
_UNIT = 2.0**-24  # of float32: the largest relative error of one rounding
_QUERIES = 256  # of one product: with `_CANDIDATES` columns its scores stay in the cache
_CANDIDATES = 2048
_SCORES = 1 << 24  # exact scores held at once: 64 MB
_FOLD = 16  # chunks a group in the search for the highest ones
_RESCORED = 1 << 17  # numbers gathered at once to score pairs again: 1 MB
_SPARE = 3  # chunks scored again beyond the k that must be

Nearest = tuple[Float32[Tensor, "queries k"], Int64[Tensor, "queries k"]]


def on_grid(matrix: Float32[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """The matrix, entries of at most 1, rounded in place to multiples of 2^-26; no negative zeros.

    Entries of 2^-3 and more are such multiples already; a cosine moves by less than float32's own rounding.
    """
    matrix *= _GRID
    np.rint(matrix, out=matrix)
    matrix /= _GRID
    matrix += np.float32(0)
    return matrix


def blocks(rows: int, step: int) -> Iterator[slice]:
    """Slices of `step` rows, the last one of what is left."""
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def nearest_rows(
    queries: Float32[np.ndarray, "queries dim"], pool: Float32[np.ndarray, "pool dim"], k: int
) -> tuple[Float32[np.ndarray, "queries k"], Int64[np.ndarray, "queries k"]]:
    """Scores and indices of the best k candidates of each query: highest first, equal ones by index.

    Args:
        queries: rows of norm 1 or 0, on the grid.
        pool: the same; equal rows are found, but many of them cost time.
        k: candidates a query, from 1 to the number in the pool.
    """
    rows, candidates = torch.from_numpy(queries), torch.from_numpy(pool)
    scores, indices = torch.empty(len(rows), k), torch.empty(len(rows), k, dtype=torch.int64)
    progress = Progress(logger, len(rows), "queries", what=f"nearest of {len(candidates)} candidates")
    for block in blocks(len(rows), _QUERIES):
        scores[block], indices[block] = _nearest_of_block(rows[block], candidates, k)
        progress.advance(block.stop)
    return scores.numpy(), indices.numpy()


def exact_scores(
    queries: Float32[Tensor, "queries dim"], pool: Float32[Tensor, "pool dim"]
) -> Float32[Tensor, "queries pool"]:
    """Scores of all pairs of rows on the grid."""
    scores = torch.empty(len(queries), len(pool))
    doubles = queries.double()
    for block in blocks(len(pool), 2 * _CANDIDATES):
        scores[:, block] = doubles @ pool[block].double().T
    return scores


def best(scores: Float32[Tensor, "queries scored"], columns: Int[Tensor, "#queries scored"], k: int) -> Nearest:
    """The k highest scores of each row and their columns (below 2^32): highest first, equal ones by column."""
    # One integer that sorts as the pair does: the bits of a float, in order, above the column, from the end.
    keys = _in_order((scores + 0.0).view(torch.int32)).long() << 32 | _LAST - columns
    top = keys.topk(k, dim=1).values
    return _in_order((top >> 32).int()).view(torch.float32), _LAST - (top & _LAST)


_LAST = (1 << 32) - 1


def _in_order(bits: Int[Tensor, "queries k"]) -> Int[Tensor, "queries k"]:
    """Bits of float32 as integers of the same order, and back."""
    return bits ^ (bits >> 31 & 0x7FFFFFFF)


# --- one block of queries ---------------------------------------------------------------------------------


def _nearest_of_block(queries: Float32[Tensor, "queries dim"], pool: Float32[Tensor, "pool dim"], k: int) -> Nearest:
    """Every winner is in a chunk whose highest float32 score is near the k-th highest of such scores.

    The k best chunks have k candidates, so the k-th best score is at most one error below the k-th best chunk's,
    and a winner's float32 score at most another error below that.
    """
    fetched = k + _SPARE
    width = _chunk_width(len(pool), fetched)
    if 8 * fetched * width > len(pool):
        return _nearest_of_all(queries, pool, k)
    maxima, chunks = _highest(_chunk_maxima(queries, pool, width), fetched)
    scores, indices = _nearest_of_chunks(queries, pool, chunks, width, k)
    crowded = maxima[:, -1] >= maxima[:, k - 1] - _margin(pool.shape[1])  # there may be winners in other chunks
    if crowded.any():
        scores[crowded], indices[crowded] = _nearest_of_all(queries[crowded], pool, k)
    return scores, indices


def _margin(dim: int) -> float:
    """Twice the largest error of a float32 dot product of rows of norm 1, and the rounding of scores and margin.

    Higham 2002, Accuracy and Stability of Numerical Algorithms, equation 3.4: in any order of the sum.
    """
    return (2 * dim + 4) * _UNIT


def _chunk_width(pool: int, fetched: int) -> int:
    """Candidates a chunk: wide ones make a short list of maxima, narrow ones leave few candidates to score again.

    A candidate to score again costs as much as some 1000 in the list.
    """
    return max(1, round((pool / (1000 * fetched)) ** 0.5))


def _chunk_maxima(
    queries: Float32[Tensor, "queries dim"], pool: Float32[Tensor, "pool dim"], width: int
) -> Float32[Tensor, "chunks queries"]:
    """Highest float32 score in each chunk, -inf in a few more; see `_members` for which those are."""
    chunks = -(-len(pool) // width)
    maxima = torch.full((chunks + -chunks % _FOLD, len(queries)), -torch.inf)
    for block in blocks(len(pool), width * _chunks_of_group(width)):
        scores = product(pool[block], queries, "float32")
        if missing := -len(scores) % width:
            scores = F.pad(scores, (0, 0, 0, missing), value=-torch.inf)
        # The members of a chunk are apart, so that the highest of all chunks are found in one sweep.
        found = scores.view(width, -1, len(queries)).amax(dim=0)
        first = block.start // width
        maxima[first : first + len(found)] = found
    return maxima


def _highest(values: Float32[Tensor, "chunks queries"], k: int) -> Nearest:
    """The k highest of each column and their rows: they are in the k groups of rows that have the highest highest."""
    groups = len(values) // _FOLD
    own = values.view(_FOLD, groups, -1).amax(dim=0).T.topk(min(k, groups), dim=1).indices
    rows = (own.unsqueeze(2) + groups * torch.arange(_FOLD)).flatten(1)
    highest, places = values.T.gather(1, rows).topk(k, dim=1)
    return highest, rows.gather(1, places)


def _members(chunks: Int64[Tensor, "queries fetched"], width: int, pool: int) -> Int64[Tensor, "queries members"]:
    """Indices of the candidates of chunks; those past the end of the pool are none.

    A group has some `_CANDIDATES` consecutive candidates and deals them out to its chunks in turn; the last has fewer.
    """
    full = _chunks_of_group(width)
    group = chunks // full
    size = (-(-pool // width) - group * full).clamp(max=full)
    first = group * full * width + chunks % full
    return (first.unsqueeze(2) + size.unsqueeze(2) * torch.arange(width)).flatten(1)


def _chunks_of_group(width: int) -> int:
    return -(-_CANDIDATES // width)


def _nearest_of_chunks(
    queries: Float32[Tensor, "queries dim"],
    pool: Float32[Tensor, "pool dim"],
    chunks: Int64[Tensor, "queries fetched"],
    width: int,
    k: int,
) -> Nearest:
    columns = _members(chunks, width, len(pool))
    scores = torch.empty(columns.shape)
    for block in blocks(len(queries), max(1, _RESCORED // (columns.shape[1] * pool.shape[1]))):
        places = columns[block].clamp(max=len(pool) - 1)
        gathered = pool.index_select(0, places.flatten()).double().view(*places.shape, -1)
        scores[block] = (gathered @ queries[block].double().unsqueeze(2)).squeeze(2)
    scores[columns >= len(pool)] = -torch.inf
    return best(scores, columns, k)


def _nearest_of_all(queries: Float32[Tensor, "queries dim"], pool: Float32[Tensor, "pool dim"], k: int) -> Nearest:
    columns = torch.arange(len(pool)).unsqueeze(0)
    step = max(1, _SCORES // len(pool))
    parts = [best(exact_scores(queries[block], pool), columns, k) for block in blocks(len(queries), step)]
    return torch.cat([scores for scores, _ in parts]), torch.cat([indices for _, indices in parts])
