"""Find the nearest text of each text by BLEU, exactly.

The search goes from the highest order down. A text is compared only with texts that share an n-gram of the order,
found in an inverted index with the rarest n-grams first, and only while an upper bound of the score can beat the best
so far (the prefix filter of similarity joins, Bayardo et al. 2007, https://doi.org/10.1145/1242572.1242591). Without
smoothing or effective order, only pairs that share an n-gram of the highest order score above 0.

Peak memory is at most 60 * order * tokens + 200 * (block_pairs + texts) bytes, however frequent an n-gram is: the
index while it is built, and one block with candidates for `block_pairs` pairs or for one text. The n-grams of
candidates are merged 4 * block_pairs tokens at a time.

With c_n clipped matches and t_n n-grams of order n in the hypothesis, of L tokens, and R in the reference,

    log BLEU = min(0, 1 - R / L) + (sum_n log p_n) / N,      p_n = c_n / t_n, smoothed

(Papineni et al. 2002, https://aclanthology.org/P02-1040; smoothing as sacrebleu, after Chen and Cherry 2014).
A shared n-gram implies shared shorter ones, so c_n > 0 up to some highest order k and c_n = 0 above. The
terms that depend on k and L alone are tabulated:

    log BLEU = min(0, 1 - R / L) + (base[k, L] + sum_{n <= k} log c_n) / N[L].
"""

import logging
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float64, Int64, Integer

from disent_core.negatives.config import BleuConfig
from disent_core.negatives.ngrams import NgramIndex, blocks, first_columns, matches
from disent_core.progress import Progress

_log = logging.getLogger(__name__)
_SLACK = 1e-9  # larger than rounding errors of bounds and scores
_SKIPPABLE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of frequent n-grams that the prefix filter tries to skip

Ids = Int64[np.ndarray, " rows"]
Pairs = Int64[np.ndarray, " pairs"]
Counts = Integer[np.ndarray, " pairs"]
Logs = Float64[np.ndarray, " pairs"]


@dataclass(frozen=True)
class Scorer:
    """Tables for texts of up to `longest` tokens; rows are orders, from 1."""

    direction: str  # of the comparison, as in `BleuConfig`
    # Terms of the sum of log p_n other than `log_matches`, by highest matched order and L.
    base: Float64[np.ndarray, "order lengths"]
    log_matches: Float64[np.ndarray, "order lengths"]  # log numerator of p_n, by n and c_n; 0 at c_n = 0
    # Sum of `log_matches` over orders below n if all n-grams of a text of L tokens match.
    most: Float64[np.ndarray, "order lengths"]
    orders: Integer[np.ndarray, " lengths"]  # N, the number of orders in the mean, by L

    def log_bleu(self, k: int, summed: Logs, utterance: Counts, other: Counts) -> Logs:
        """Return log BLEU (-inf for BLEU 0) of pairs with these lengths in tokens.

        Their highest order with a match is k, and `summed` is the sum over n <= k of `log_matches`.
        """
        if self.direction == "hypothesis":
            return self._one_way(k, summed, utterance, other)
        if self.direction == "reference":
            return self._one_way(k, summed, other, utterance)
        forward = self._one_way(k, summed, utterance, other)
        return np.maximum(forward, self._one_way(k, summed, other, utterance), out=forward)

    def _one_way(self, k: int, summed: Logs, hypothesis: Counts, reference: Counts) -> Logs:
        brevity = np.minimum(1 - reference / hypothesis, 0)
        return (self.base[k - 1][hypothesis] + summed) / self.orders[hypothesis] + brevity

    def log_bound(self, k: int, matched: Counts, utterance: Counts, other: Counts) -> Logs:
        """Bound log BLEU of pairs with these lengths, at most `matched` matches of order k, and none above."""
        shorter = np.minimum(utterance, other)
        matched = np.minimum(matched, np.maximum(shorter - k + 1, 0))
        summed = self.most[k - 1][shorter] + self.log_matches[k - 1][matched]
        return self.log_bleu(k, summed, utterance, other)

    def log_bleu_of_itself(self, lengths: Counts) -> Logs:
        """Return log BLEU of a text against its duplicate, by length."""
        highest = np.minimum(lengths, len(self.base))
        score = np.full(len(lengths), -np.inf)
        for k in range(1, len(self.base) + 1):
            selected = lengths[highest == k]
            score[highest == k] = self.log_bound(k, selected, selected, selected)
        return score


def scorer(config: BleuConfig, longest: int) -> Scorer:
    """Tabulate scores for texts of up to `longest` tokens, in O(order * longest) time and memory."""
    lengths, n = np.arange(longest + 1), np.arange(1, config.order + 1)[:, None]
    added = np.where(n > 1, config.smoothing_term, 0.0) if config.smoothing == "add-k" else np.zeros(n.shape)
    counts_always = config.smoothing == "add-k" or (config.smoothing == "nltk-floor" and not config.effective_order)
    counted = (n <= lengths) | counts_always  # whether a hypothesis of each length has a precision of order n
    floor = 1 if config.smoothing == "nltk-floor" else 0
    totals = np.maximum(lengths - n + 1, floor) + added
    log_totals = np.log(np.where(counted & (totals > 0), totals, 1))
    # Row k - 1: smoothed numerators of the orders above k, which have no match, over the totals of all orders.
    base = np.stack(
        [
            np.where(counted, np.where(n > k, _log_missing(config, n - k), 0) - log_totals, 0).sum(axis=0)
            for k in range(1, config.order + 1)
        ]
    )
    orders = np.full(len(lengths), config.order)
    if config.effective_order:
        orders = np.maximum(counted.sum(axis=0), 1)
    else:
        base[:, ~counted.all(axis=0)] = -np.inf
    log_matches = np.log(np.where(lengths > 0, lengths + added, 1))
    fullest = np.take_along_axis(log_matches, np.maximum(lengths - n + 1, 0), axis=1)
    return Scorer(config.direction, base, log_matches, np.cumsum(fullest, axis=0) - fullest, orders)


def _log_missing(config: BleuConfig, above: Integer[np.ndarray, "order 1"]) -> Float64[np.ndarray, "order 1"]:
    """Return the log numerator of p_n without matches, for n this many orders above the highest match."""
    if config.smoothing == "none":
        return np.full(above.shape, -np.inf)
    if config.smoothing == "exp":
        return -above * np.log(2)
    return np.full(above.shape, np.log(config.smoothing_term))


@dataclass(frozen=True)
class Search:
    """Best score and witness of each text; `run` updates them in place."""

    index: NgramIndex  # the texts
    scorer: Scorer  # tables for texts of their lengths
    best: Float64[np.ndarray, " texts"]  # log BLEU with the witness so far, -inf without one
    # The witness, the lowest index of equal scores; the number of texts if there is none.
    nearest: Int64[np.ndarray, " texts"]
    block_pairs: int  # candidates in memory at once

    def run(self, rows: Ids, targets: Int64[np.ndarray, " targets"]) -> None:
        """Compare each text of `rows` with all others of `targets` (both ascending)."""
        for order in range(len(self.index.orders), 0, -1):
            _Stage(self, order, targets).run(rows)

    def update_best(self, rows: Pairs, others: Pairs, score: Float64[np.ndarray, " pairs"]) -> None:
        """Store scores that are higher, or equal with a lower witness. Equal `rows` must be adjacent."""
        starts, sizes = _runs(rows)
        if not len(starts):
            return
        top = np.maximum.reduceat(score, starts)
        tied = np.where(score == np.repeat(top, sizes), others, len(self.best))
        first, row = np.minimum.reduceat(tied, starts), rows[starts]
        is_better = (top > self.best[row]) | ((top == self.best[row]) & (first < self.nearest[row]))
        is_better &= top > -np.inf
        self.best[row[is_better]], self.nearest[row[is_better]] = top[is_better], first[is_better]

    def improve(self, order: int, rows: Pairs, others: Pairs) -> None:
        """Score pairs whose highest shared order is `order`, and update the best of `rows`.

        Pairs that share a higher order get too low a score, but the stage of that order has already scored them.
        """
        lengths = self.index.lengths
        for block in blocks(lengths[rows] + lengths[others], 4 * self.block_pairs):
            self._improve_block(order, rows[block], others[block])

    def _improve_block(self, order: int, rows: Pairs, others: Pairs) -> None:
        summed = np.zeros(len(rows))
        for n in range(order, 0, -1):
            counts = matches(self.index.orders[n - 1], rows, others)
            summed += self.scorer.log_matches[n - 1][counts]
            length, other = self.index.lengths[rows], self.index.lengths[others]
            # An upper bound that assumes that all shorter n-grams match; at n = 1 it is the score itself.
            most = summed + self.scorer.most[n - 1][np.minimum(length, other)]
            score = self.scorer.log_bleu(order, most, length, other)
            if n > 1:
                able = self.is_able(score, rows)
                rows, others, summed = rows[able], others[able], summed[able]
            else:
                self.update_best(rows, others, score)

    def is_able(self, bound: Float64[np.ndarray, " pairs"], rows: Pairs) -> Bool[np.ndarray, " pairs"]:
        """Return whether a score of at most `bound` could still be the best of its row, or tie with it."""
        return (bound > -np.inf) & (bound + _SLACK >= self.best[rows])


class _Stage:
    def __init__(self, search: Search, order: int, targets: Int64[np.ndarray, " targets"]) -> None:
        self.search, self.order, self.targets = search, order, targets
        self.grams = search.index.orders[order - 1]
        self.sizes = np.diff(self.grams.indptr)
        lengths = np.unique(search.index.lengths[targets])
        self.target_lengths = lengths[lengths >= order]

    def run(self, rows: Ids) -> None:
        """Search with the rarest n-gram of each text, then with as many as could still improve its best score."""
        rows = self._open(rows[self.sizes[rows] > 0])
        if not len(rows):
            return
        postings = self.grams[self.targets].T.tocsr()
        self._scan(rows, np.ones(len(rows), np.int64), postings)
        rows = self._open(rows[self.sizes[rows] > 1])
        skipped = np.zeros(len(rows), np.int64)
        for count in _SKIPPABLE:
            skipped[~self.search.is_able(self._ceiling(rows, count), rows)] = count
        kept = self.sizes[rows] - skipped
        self._scan(rows[kept > 0], kept[kept > 0], postings)

    def _open(self, rows: Ids) -> Int64[np.ndarray, " open"]:
        """Keep the rows that could find a better match."""
        if not len(rows) or not len(self.target_lengths):
            return rows[:0]
        longest = len(self.search.scorer.orders)
        return rows[self.search.is_able(self._ceiling(rows, longest), rows)]

    def _ceiling(self, rows: Ids, matched: int) -> Float64[np.ndarray, " rows"]:
        """Return an upper bound of each row's score with at most `matched` matches of the order."""
        lengths, inverse = np.unique(self.search.index.lengths[rows], return_inverse=True)
        others = self.target_lengths
        count = np.full(len(others), matched)
        bound = self.search.scorer.log_bound
        top = [bound(self.order, count, np.full(len(others), n), others).max() for n in lengths]
        return np.array(top, np.float64)[inverse]

    def _scan(self, rows: Ids, kept: Integer[np.ndarray, " rows"], postings: sp.csr_array) -> None:
        """Compare each row with the targets that share one of its `kept` rarest n-grams."""
        if not len(rows):
            return
        grams = first_columns(self.grams[rows], kept)
        frequency = np.diff(postings.indptr).astype(np.int64)
        costs = np.add.reduceat(frequency[grams.indices], grams.indptr[:-1])
        left_out = self.sizes[rows] - kept
        progress = Progress(_log, len(rows), "texts", what=f"order {self.order}")
        for block in blocks(costs, self.search.block_pairs):
            self._scan_block(rows[block], left_out[block], grams[block] @ postings)
            progress.advance(block.stop)

    def _scan_block(self, rows: Ids, left_out: Integer[np.ndarray, " rows"], counts: sp.csr_array) -> None:
        candidates = np.diff(counts.indptr)
        pairs, others = np.repeat(rows, candidates), self.targets[counts.indices]
        # Skipped n-grams may all match too, so they count in the bound.
        lengths, matched = self.search.index.lengths, counts.data + np.repeat(left_out, candidates)
        bound = self.search.scorer.log_bound(self.order, matched, lengths[pairs], lengths[others])
        is_able = self.search.is_able(bound, pairs) & (pairs != others)
        pairs, others, bound = pairs[is_able], others[is_able], bound[is_able]
        # Score the pair with the highest bound of each row first: its score rules out most other pairs.
        leaders = _leaders(pairs, bound)
        self.search.improve(self.order, pairs[leaders], others[leaders])
        is_able = self.search.is_able(bound, pairs)
        self.search.improve(self.order, pairs[is_able], others[is_able])


def _runs(values: Pairs) -> tuple[Int64[np.ndarray, " runs"], Int64[np.ndarray, " runs"]]:
    """Return start and size of each run of equal adjacent values."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return starts, np.diff(starts, append=len(values))


def _leaders(rows: Pairs, bound: Float64[np.ndarray, " pairs"]) -> Int64[np.ndarray, " runs"]:
    """Return the position of the first pair with the largest bound, of each run of equal rows."""
    starts, sizes = _runs(rows)
    if not len(starts):
        return starts
    leading = np.flatnonzero(bound == np.repeat(np.maximum.reduceat(bound, starts), sizes))
    return leading[_runs(rows[leading])[0]]
