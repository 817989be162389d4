"""Word alignment by IBM model 1, and the rows of a new vocabulary as averages of the teacher's rows.

Brown et al. 1993, The Mathematics of Statistical Machine Translation, https://aclanthology.org/J93-2003.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int32

from disent_core.storage.text_columns import BLOCK

LEAST_PROBABILITY = 0.05
"""Of a teacher's piece given a foreign piece; a less probable one gives nothing to the foreign piece's row."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of texts, one text after another, and how many each text has."""

    ids: Int[np.ndarray, " pieces"]
    lengths: Int[np.ndarray, " texts"]

    def blocks(self) -> Iterator["Pieces"]:
        """Yield some texts at a time."""
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        for start in range(0, len(self.lengths), BLOCK):
            lengths = self.lengths[start : start + BLOCK]
            yield Pieces(self.ids[ends[start] : ends[start + len(lengths)]], lengths)


@dataclass(frozen=True)
class Alignment:
    """For some pairs of a new piece and a teacher's piece: how probable the latter is given the former, and how often
    both are expected to be linked."""

    new: Int[np.ndarray, " links"]
    teacher: Int[np.ndarray, " links"]
    probability: Float[np.ndarray, " links"]
    count: Float[np.ndarray, " links"]


def align(pivots: Pieces, foreign: Pieces, *, iterations: int) -> Alignment:
    """Learn p(teacher's piece | new piece) from sentence pairs by expectation maximisation.

    Every token of a pivot is explained by one piece of the foreign sentence, each once, or by none of them (NULL).
    Probabilities are uniform at first.
    """
    width = int(pivots.ids.max(initial=0)) + 1
    blocks = [_links(*sides, width) for sides in zip(pivots.blocks(), foreign.blocks(), strict=True)]
    pairs = np.unique(np.concatenate([np.zeros(0, np.int64), *(block.pairs for block in blocks)]))
    rows_of_blocks = [np.searchsorted(pairs, block.pairs) for block in blocks]
    new_of_pair, teacher_of_pair = pairs // width - 1, pairs % width
    probability, count = np.ones(len(pairs)), np.ones(len(pairs))
    for _ in range(iterations):
        count = np.zeros(len(pairs))
        for block, rows in zip(blocks, rows_of_blocks, strict=True):
            token = np.repeat(np.arange(len(block.fans)), block.fans)
            weight = probability[rows][block.pair]
            share = weight / np.bincount(token, weight)[token]
            np.add.at(count, rows[block.pair], share)  # one after another, so that no bit depends on the blocks
        total = np.bincount(new_of_pair + 1, count)
        probability = count / total[new_of_pair + 1]
    kept = (new_of_pair >= 0) & (probability > LEAST_PROBABILITY)
    return Alignment(new_of_pair[kept], teacher_of_pair[kept], probability[kept], count[kept])


@dataclass(frozen=True)
class _Links:
    """Every link that some sentence pairs allow: those of the first token of the pivots, of the second, and so on."""

    fans: Int32[np.ndarray, " tokens"]  # how many links each token has
    pair: Int32[np.ndarray, " links"]  # of each link, its row of `pairs`
    # Distinct pairs of a new piece (0 for NULL, otherwise its number and 1) and one of the teacher's, sorted. Each is a
    # number: the former times the width of the teacher's vocabulary, and the latter.
    pairs: Int[np.ndarray, " pairs"]


def _links(pivots: Pieces, foreign: Pieces, width: int) -> _Links:
    sentences, size = np.arange(len(foreign.lengths)), int(foreign.ids.max(initial=0)) + 2
    candidates = np.concatenate([sentences * size, np.repeat(sentences, foreign.lengths) * size + foreign.ids + 1])
    of_sentence, new = np.divmod(np.unique(candidates), size)  # NULL and the distinct pieces of each sentence, sorted
    widths = np.bincount(of_sentence, minlength=len(sentences))
    fans = np.repeat(widths, pivots.lengths)
    first = np.repeat(np.cumsum(widths) - widths, pivots.lengths)
    links = np.arange(fans.sum()) + np.repeat(first - (np.cumsum(fans) - fans), fans)
    pairs, pair = np.unique(new[links] * width + np.repeat(pivots.ids, fans), return_inverse=True)
    return _Links(fans.astype(np.int32), pair.astype(np.int32), pairs)


def aligned_rows(
    teacher_rows: Float[np.ndarray, "pivot_pieces dim"],
    copied: Sequence[Sequence[int]],
    pivot_share: Float[np.ndarray, " pieces"],
    alignments: Sequence[Alignment],
) -> Float[np.ndarray, "pieces dim"]:
    """Return the rows of the new vocabulary.

    The row of a piece is a mixture: of the mean of the teacher's pieces that spell it, and of the mean of the teacher's
    pieces that it is aligned with. The share of the former is that of its occurrences that are in pivots.

    Args:
        teacher_rows: the rows of the teacher's pieces.
        copied: for each new piece, the teacher's pieces that spell it.
        pivot_share: for each new piece, the share of its occurrences that are in the teacher's language.
        alignments: of all languages.
    """
    from scipy.sparse import csr_array

    spelt = np.stack([teacher_rows[list(pieces)].mean(axis=0, dtype=np.float64) for pieces in copied])
    new, teacher, probability, count = (
        np.concatenate([vars(alignment)[name] for alignment in alignments] or [np.zeros(0)])
        for name in ("new", "teacher", "probability", "count")
    )
    new, teacher = new.astype(np.int64), teacher.astype(np.int64)
    weight = count * np.sqrt(probability)
    total = np.bincount(new, weight, minlength=len(copied))
    is_aligned = total > 0
    # Sums by new piece, in float64: a sparse matrix [new pieces, links] times the rows that the links name.
    sums = csr_array((weight, (new, np.arange(len(new)))), shape=(len(copied), len(new)))
    mean = (sums @ teacher_rows[teacher].astype(np.float64)) / np.where(is_aligned, total, 1)[:, None]
    norms = np.linalg.norm(teacher_rows, axis=1)[teacher]
    typical = np.bincount(new, weight * norms, minlength=len(copied)) / np.where(is_aligned, total, 1)
    # A mean of rows that point elsewhere is short: it is lengthened half way to what its parts have.
    length = np.linalg.norm(mean, axis=1)
    mean *= ((length + typical) / 2 / np.where(length > 0, length, 1))[:, None]
    share = np.where(is_aligned, pivot_share, 1.0)[:, None]
    return (share * spelt + (1 - share) * mean).astype(np.float32)
