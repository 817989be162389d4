"""Search rows of norm 1 exactly: a float32 product finds the few possible winners, float64 scores them.

All values are multiples of 2^-26 (`on_grid`). So the product of two values is a multiple of 2^-52, no partial sum of
a dot product reaches 2 (Cauchy-Schwarz), and every partial sum fits into the 53 bits of a float64. The float64 dot
product of two rows is therefore exact in any order of summation. The score of a pair is this number, rounded once to
float32: it depends only on the two rows, not on blocks, threads, the library or other candidates.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32, Int, Int64
from torch import Tensor

from disent_core.evaluation.metrics.grid import Neighbours, PoolRows, Queries
from disent_core.exact import blocks
from disent_core.matmul import packed, product
from disent_core.progress import Progress
from disent_core.shards.backend import map_shards, ranges

log = logging.getLogger(__name__)

_UNIT = 2.0**-24  # unit roundoff of float32: the largest relative error of one rounding
_QUERIES = 256  # queries per float32 product: its scores (_QUERIES x _CANDIDATES) stay in the cache of a core
_CANDIDATES = 1024  # candidates per float32 product
_SCORES = 1 << 24  # exact scores held at once: 64 MB
_FOLD = 32  # chunks treated as one when searching for the highest chunk maxima
_RESCORED = 1 << 17  # float64 numbers gathered at once for exact scores: 1 MB
_SPARE = 3  # chunks scored exactly in addition to the k required
# A GPU has no such cache, and pays for the launch of every block.
_QUERIES_ON_GPU, _CANDIDATES_ON_GPU, _RESCORED_ON_GPU = 1 << 12, 1 << 12, 1 << 26

PAIRS_OF_SHARD = 10_000_000_000
"""Pairs of queries and candidates compared in a shard of the pool: a minute on one core at 384 dimensions."""
_LEAST_CANDIDATES = 1 << 14
"""Least candidates of a shard: each shard returns k candidates per query, which must be sent and merged."""

Nearest = tuple[Float32[Tensor, "queries k"], Int64[Tensor, "queries k"]]
QueryRows = Float32[Tensor, "queries dim"]
Candidates = Float32[Tensor, "pool dim"]


def nearest_rows(queries: Queries, pool: PoolRows, k: int, bound: float = 1.0, *, device: str = "cpu") -> Neighbours:
    """Return scores and indices of the best k candidates of each query: highest first, equal ones by index.

    Rows have norm 1 or 0 and lie on the grid; many equal rows in the pool make the search slow. `k` is at most the size
    of the pool. `bound` limits the sum of absolute products of two rows and is below 2; for rows of norm 1 it is 1. The
    devices `cpu` and `cuda` give equal results: float32 products may round in any order, float64 ones do not.
    """
    on_gpu = device != "cpu"
    shards = ranges(len(pool), max(PAIRS_OF_SHARD // max(len(queries), 1), k, _LEAST_CANDIDATES), on_gpu=on_gpu)
    if len(shards) == 1:
        return _nearest_of_pool(queries, pool, k, bound, device)
    parts = ((shard.start, pool[shard.start : shard.stop]) for shard in shards)
    search = partial(_nearest_of_part, queries=queries, k=k, bound=bound, device=device)
    scores, indices = reduce(partial(_merged, k=k), map_shards(search, [*parts], on_gpu=on_gpu))
    return scores, indices


def _nearest_of_part(
    part: tuple[int, np.ndarray], *, queries: np.ndarray, k: int, bound: float, device: str
) -> tuple[np.ndarray, np.ndarray]:
    """Search a part of the pool, given with the index of its first candidate."""
    first, pool = part
    scores, indices = _nearest_of_pool(queries, pool, min(k, len(pool)), bound, device)
    return scores, indices + first


def _merged(left: tuple[np.ndarray, ...], right: tuple[np.ndarray, ...], *, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best k of two parts of the pool; scores are exact, so scores and indices decide."""
    both = [torch.from_numpy(np.concatenate(sides, axis=1)) for sides in zip(left, right, strict=True)]
    scores, indices = best(both[0], both[1], k)
    return scores.numpy(), indices.numpy()


def _nearest_of_pool(queries: Queries, pool: PoolRows, k: int, bound: float, device: str) -> Neighbours:
    rows, candidates = (torch.from_numpy(values).to(device) for values in (queries, pool))
    scores, indices = torch.empty(len(rows), k), torch.empty(len(rows), k, dtype=torch.int64)
    progress = Progress(log, len(rows), "queries", what=f"nearest of {len(candidates)} candidates")

    def search(block: slice) -> slice:
        scores[block], indices[block] = _nearest_of_block(rows[block], candidates, k, bound)
        return block

    if device == "cpu":
        for block in _in_threads(search, [*blocks(len(rows), _QUERIES)]):
            progress.advance(block.stop)
    else:
        with torch.device(device):  # device of new tensors
            for block in map(search, blocks(len(rows), _QUERIES_ON_GPU)):
                progress.advance(block.stop)
    return scores.numpy(), indices.numpy()


def _in_threads(search: Callable[[slice], slice], wanted: Sequence[slice]) -> Iterator[slice]:
    """Search blocks in parallel, each with one thread: threads that share a product wait for each other at its end."""
    threads = torch.get_num_threads()
    if min(threads, len(wanted)) <= 1:
        yield from map(search, wanted)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(1)) as pool:
            yield from pool.map(search, wanted)
    finally:
        torch.set_num_threads(threads)


def exact_scores(queries: QueryRows, pool: Candidates) -> Float32[Tensor, "queries pool"]:
    """Return exact scores of all pairs of rows on the grid."""
    scores = torch.empty(len(queries), len(pool))
    doubles = queries.double()
    for block in blocks(len(pool), 4 * _CANDIDATES):
        scores[:, block] = doubles @ pool[block].double().T
    return scores


def best(scores: Float32[Tensor, "queries scored"], columns: Int[Tensor, "#queries scored"], k: int) -> Nearest:
    """Return the k highest scores of each row and their columns (below 2^32): highest first, equal ones by column."""
    # Score and column are packed into one int64 key that sorts like the pair: the upper 32 bits are the score's bits in
    # sortable order, the lower 32 bits count columns down, so that the lowest column wins a tie.
    keys = _in_order((scores + 0.0).view(torch.int32)).long() << 32 | _LAST - columns
    top = keys.topk(k, dim=1).values
    return _in_order((top >> 32).int()).view(torch.float32), _LAST - (top & _LAST)


_LAST = (1 << 32) - 1


def _in_order(bits: Int[Tensor, "queries k"]) -> Int[Tensor, "queries k"]:
    """Map the bits of float32 values to int32 that sort like the values; the map is its own inverse."""
    # Negative floats sort in reverse as integers: their 31 lower bits are flipped.
    return bits ^ (bits >> 31 & 0x7FFFFFFF)


# --- one block of queries ---------------------------------------------------------------------------------


def _nearest_of_block(queries: QueryRows, pool: Candidates, k: int, bound: float) -> Nearest:
    """Search one block: score exactly the candidates of the chunks with the highest float32 scores.

    The maxima of the k best chunks are k candidates. So the k-th best exact score is at most one rounding error below
    the k-th highest chunk maximum, and the float32 score of a winner is at most one more error below that.
    """
    fetched = k + _SPARE  # chunks per query that are scored exactly
    width = _chunk_width(len(pool), fetched)
    if 8 * fetched * width > len(pool):  # the chunks would contain much of the pool: score all of it
        return _nearest_of_all(queries, pool, k)
    maxima, chunks = _highest(*_chunk_maxima(queries, pool, width), fetched)
    scores, indices = _nearest_of_chunks(queries, pool, chunks[:, :k], width, k)
    # Chunks within the margin of the k-th may contain a winner: spare ones and, if even the last spare is, others.
    near = maxima >= maxima[:, k - 1 : k] - bound * margin(pool.shape[1])
    if (close := near[:, k]).any():
        scores[close], indices[close] = _nearest_of_chunks(queries[close], pool, chunks[close], width, k)
    if (crowded := near[:, -1]).any():
        scores[crowded], indices[crowded] = _nearest_of_all(queries[crowded], pool, k)
    return scores, indices


def margin(dim: int) -> float:
    """Twice the largest error of a float32 dot product of rows of norm 1, plus the rounding of scores and margin.

    The bound holds for any order of the sum: Higham 2002, Accuracy and Stability of Numerical Algorithms, eq. 3.4.
    """
    return (2 * dim + 4) * _UNIT


def _chunk_width(pool: int, fetched: int) -> int:
    """Return the chunk size: wide chunks leave few maxima to sort, narrow ones few candidates to score exactly.

    The optimum assumes that one exact score costs as much as sorting about 1000 maxima.
    """
    return max(1, round((pool / (1000 * fetched)) ** 0.5))


def _chunk_maxima(
    queries: QueryRows, pool: Candidates, width: int
) -> tuple[Float32[Tensor, "chunks queries"], Float32[Tensor, "folds queries"]]:
    """Highest float32 score of each chunk (`_members` says which candidates it holds), -inf of one without candidates.

    The second result is the maximum of each `_FOLD` chunks, taken here while they are still in the cache.
    """
    group = width * _chunks_of_group(width)
    chunks = -(-len(pool) // group) * _chunks_of_group(width)
    maxima, of_folds = torch.empty(chunks, len(queries)), torch.empty(chunks // _FOLD, len(queries))
    # Multiply few queries with many groups at once: starting and awaiting threads for each group would take longer than
    # the product.
    at_once = _QUERIES_ON_GPU * _CANDIDATES_ON_GPU if pool.is_cuda else _QUERIES * _CANDIDATES
    span = group * max(1, at_once // (group * len(queries)))
    right = packed(queries, span) if len(pool) > span else queries
    for block in blocks(len(pool), span):
        scores = product(pool[block], right, "float32")  # candidates x queries
        if missing := -len(scores) % group:
            scores = F.pad(scores, (0, 0, 0, missing), value=-torch.inf)
        # A chunk's members are every n-th row, so that contiguous rows give the maxima of all chunks of a group.
        members = scores.view(-1, width, group // width, len(queries))
        first, last = block.start // width, (block.start + len(scores)) // width
        highest = maxima[first:last].view(-1, group // width, len(queries))
        # One after another is faster than `amax`, because the maxima stay in the cache.
        torch.maximum(members[:, 0], members[:, -1], out=highest)
        for place in range(1, width - 1):
            torch.maximum(highest, members[:, place], out=highest)
        torch.amax(maxima[first:last].view(-1, _FOLD, len(queries)), 1, out=of_folds[first // _FOLD : last // _FOLD])
    return maxima, of_folds


def _highest(values: Float32[Tensor, "chunks queries"], of_folds: Float32[Tensor, "folds queries"], k: int) -> Nearest:
    """Return the k highest values of each column and their rows, which are in the k folds with the highest maxima."""
    best_folds = of_folds.T.topk(min(k, len(of_folds)), dim=1).indices
    # Each fold has `_FOLD` rows in turn: queries x (k * _FOLD) rows are left to sort.
    rows = (best_folds.unsqueeze(2) * _FOLD + torch.arange(_FOLD)).flatten(1)
    highest, places = values.T.gather(1, rows).topk(k, dim=1)
    return highest, rows.gather(1, places)


def _members(chunks: Int64[Tensor, "queries fetched"], width: int) -> Int64[Tensor, "queries members"]:
    """Return the indices of the candidates in chunks; an index past the end of the pool means no candidate.

    A group holds about `_CANDIDATES` consecutive candidates and deals them to its chunks in turn.
    """
    of_group = _chunks_of_group(width)
    first = chunks // of_group * of_group * width + chunks % of_group
    return (first.unsqueeze(2) + of_group * torch.arange(width)).flatten(1)


def _chunks_of_group(width: int) -> int:
    """Return the number of chunks in a full group: whole folds, rounded up."""
    return -(-_CANDIDATES // (width * _FOLD)) * _FOLD


def _nearest_of_chunks(
    queries: QueryRows, pool: Candidates, chunks: Int64[Tensor, "queries fetched"], width: int, k: int
) -> Nearest:
    columns = _members(chunks, width)
    scores = torch.empty(columns.shape)
    at_once = _RESCORED_ON_GPU if pool.is_cuda else _RESCORED
    for block in blocks(len(queries), max(1, at_once // (columns.shape[1] * pool.shape[1]))):
        places = columns[block].clamp(max=len(pool) - 1)
        gathered = pool.index_select(0, places.flatten()).double().view(*places.shape, -1)  # queries x members x dim
        scores[block] = gathered.mul_(queries[block].double().unsqueeze(1)).sum(dim=2)
    scores[columns >= len(pool)] = -torch.inf
    return best(scores, columns, k)


def _nearest_of_all(queries: QueryRows, pool: Candidates, k: int) -> Nearest:
    """Return the k nearest of the whole pool, by exact scores in blocks of at most `_SCORES`."""
    columns = torch.arange(len(pool)).unsqueeze(0)
    step = max(1, _SCORES // len(pool))
    parts = [best(exact_scores(queries[block], pool), columns, k) for block in blocks(len(queries), step)]
    return torch.cat([scores for scores, _ in parts]), torch.cat([indices for _, indices in parts])
