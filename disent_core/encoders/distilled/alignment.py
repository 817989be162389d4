"""Word alignment by IBM model 1, and the rows of a new vocabulary as averages of the teacher's rows.

Brown et al. 1993, The Mathematics of Statistical Machine Translation, https://aclanthology.org/J93-2003.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

LEAST_PROBABILITY = 0.05
"""Of a teacher's piece given a foreign piece; a less probable one gives nothing to the foreign piece's row."""


@dataclass(frozen=True)
class Alignment:
    """For some pairs of a new piece and a teacher's piece: how probable the latter is given the former, and how often
    both are expected to be linked."""

    new: Int[np.ndarray, " links"]
    own: Int[np.ndarray, " links"]
    probability: Float[np.ndarray, " links"]
    count: Float[np.ndarray, " links"]


def align(pivots: Sequence[Sequence[int]], foreign: Sequence[Sequence[int]], *, iterations: int) -> Alignment:
    """Learn p(teacher's piece | new piece) from sentence pairs by expectation maximisation.

    Every token of a pivot is explained by one piece of the foreign sentence, each once, or by none of them (NULL).

    Args:
        pivots: pieces of the teacher of each sentence.
        foreign: new pieces of its translation.
        iterations: of expectation maximisation, from uniform probabilities.
    """
    token, own, new = _links(pivots, foreign)
    if not len(token):
        nothing = np.zeros(0)
        return Alignment(nothing.astype(np.int64), nothing.astype(np.int64), nothing, nothing)
    width = int(own.max()) + 1
    pairs, link = np.unique((new + 1) * width + own, return_inverse=True)
    new_of_pair, own_of_pair = pairs // width - 1, pairs % width
    probability, count = np.ones(len(pairs)), np.ones(len(pairs))
    for _ in range(iterations):
        weight = probability[link]
        share = weight / np.bincount(token, weight)[token]
        count = np.bincount(link, share)
        total = np.bincount(new_of_pair + 1, count)
        probability = count / total[new_of_pair + 1]
    kept = (new_of_pair >= 0) & (probability > LEAST_PROBABILITY)
    return Alignment(new_of_pair[kept], own_of_pair[kept], probability[kept], count[kept])


_NULL = -1


def _links(
    pivots: Sequence[Sequence[int]], foreign: Sequence[Sequence[int]]
) -> tuple[Int[np.ndarray, " links"], Int[np.ndarray, " links"], Int[np.ndarray, " links"]]:
    """Every link that a sentence pair allows: number of the pivot's token, its piece, and the new piece or NULL."""
    sets = [np.unique([_NULL, *pieces]) for pieces in foreign]
    counts = np.array([len(pieces) for pieces in pivots], dtype=np.int64)
    widths = np.array([len(pieces) for pieces in sets], dtype=np.int64)
    own = np.concatenate([np.asarray(pieces, dtype=np.int64) for pieces in pivots] or [np.zeros(0, np.int64)])
    repeats = np.repeat(widths, counts)
    token = np.repeat(np.arange(len(own)), repeats)
    new = [np.tile(pieces, count) for pieces, count in zip(sets, counts.tolist(), strict=True)]
    return token, own[token], np.concatenate(new or [np.zeros(0, np.int64)]).astype(np.int64)


def aligned_rows(
    own_rows: Float[np.ndarray, "pivot_pieces dim"],
    copied: Sequence[Sequence[int]],
    pivot_share: Float[np.ndarray, " pieces"],
    alignments: Sequence[Alignment],
) -> Float[np.ndarray, "pieces dim"]:
    """Rows of the new vocabulary.

    The row of a piece is a mixture: of the mean of the teacher's pieces that spell it, and of the mean of the teacher's
    pieces that it is aligned with. The share of the former is that of its occurrences that are in pivots.

    Args:
        own_rows: the teacher's.
        copied: for each new piece, the teacher's pieces that spell it.
        pivot_share: for each new piece, the share of its occurrences that are in the teacher's language.
        alignments: of all languages.
    """
    spelt = np.stack([own_rows[list(pieces)].mean(axis=0, dtype=np.float64) for pieces in copied])
    new, own, probability, count = (
        np.concatenate([vars(alignment)[name] for alignment in alignments] or [np.zeros(0)])
        for name in ("new", "own", "probability", "count")
    )
    new, own = new.astype(np.int64), own.astype(np.int64)
    weight = count * np.sqrt(probability)
    total = np.bincount(new, weight, minlength=len(copied))
    is_aligned = total > 0
    mean = _weighted_sums(new, weight, own_rows[own], len(copied)) / np.where(is_aligned, total, 1)[:, None]
    norms = np.linalg.norm(own_rows, axis=1)[own]
    typical = np.bincount(new, weight * norms, minlength=len(copied)) / np.where(is_aligned, total, 1)
    # A mean of rows that point elsewhere is short: it is lengthened half way to what its parts have.
    length = np.linalg.norm(mean, axis=1)
    mean *= ((length + typical) / 2 / np.where(length > 0, length, 1))[:, None]
    share = np.where(is_aligned, pivot_share, 1.0)[:, None]
    return (share * spelt + (1 - share) * mean).astype(np.float32)


def _weighted_sums(
    group: Int[np.ndarray, " rows"],
    weight: Float[np.ndarray, " rows"],
    values: Float[np.ndarray, "rows dim"],
    size: int,
) -> Float[np.ndarray, "groups dim"]:
    from scipy.sparse import csr_array

    matrix = csr_array((weight, (group, np.arange(len(group)))), shape=(size, len(group)))
    return matrix @ values.astype(np.float64)
