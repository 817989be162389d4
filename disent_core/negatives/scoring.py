"""Compute log BLEU of pairs from their matches, and upper bounds from partial matches.

With c_n clipped matches and t_n n-grams of order n in the hypothesis, of L tokens, and R in the reference,

    log BLEU = min(0, 1 - R / L) + (sum_n log p_n) / N,      p_n = c_n / t_n, smoothed

(Papineni et al. 2002, https://aclanthology.org/P02-1040; smoothing as sacrebleu, after Chen and Cherry 2014).
A shared n-gram implies shared shorter ones, so c_n > 0 up to some highest order k and c_n = 0 above. The
terms that depend on k and L alone are tabulated:

    log BLEU = min(0, 1 - R / L) + (base[k, L] + sum_{n <= k} log c_n) / N[L].
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Integer

from disent_core.negatives.config import BleuConfig

Counts = Integer[np.ndarray, " pairs"]
Logs = Float64[np.ndarray, " pairs"]


@dataclass(frozen=True)
class Scorer:
    """Tables for texts of up to `longest` tokens; rows are orders, from 1.

    Attributes:
        direction: of the comparison, as in `BleuConfig`.
        base: terms of the sum of log p_n other than `log_matches`, by highest matched order and L.
        log_matches: log numerator of p_n, by n and c_n; 0 at c_n = 0.
        most: sum of `log_matches` over orders below n if all n-grams of a text of L tokens match.
        orders: N, the number of orders in the mean, by L.
    """

    direction: str
    base: Float64[np.ndarray, "order lengths"]
    log_matches: Float64[np.ndarray, "order lengths"]
    most: Float64[np.ndarray, "order lengths"]
    orders: Integer[np.ndarray, " lengths"]

    def log_bleu(self, k: int, summed: Logs, utterance: Counts, other: Counts) -> Logs:
        """Log BLEU; -inf is BLEU 0.

        Args:
            k: highest order with a match.
            summed: sum over n <= k of `log_matches`.
            utterance: tokens of the utterance.
            other: tokens of the utterance that it is compared with.
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
        """Upper bound of log BLEU of pairs with these lengths, at most `matched` matches of order k and none above."""
        shorter = np.minimum(utterance, other)
        matched = np.minimum(matched, np.maximum(shorter - k + 1, 0))
        summed = self.most[k - 1][shorter] + self.log_matches[k - 1][matched]
        return self.log_bleu(k, summed, utterance, other)

    def log_bleu_of_itself(self, lengths: Counts) -> Logs:
        """Log BLEU of a text with its duplicate, by length."""
        highest = np.minimum(lengths, len(self.base))
        score = np.full(len(lengths), -np.inf)
        for k in range(1, len(self.base) + 1):
            selected = lengths[highest == k]
            score[highest == k] = self.log_bound(k, selected, selected, selected)
        return score


def scorer(config: BleuConfig, longest: int) -> Scorer:
    """Tabulate for texts of up to `longest` tokens: O(order * longest) time and memory."""
    lengths, n = np.arange(longest + 1), np.arange(1, config.order + 1)[:, None]
    added = np.where(n > 1, config.smoothing_term, 0.0) if config.smoothing == "add-k" else np.zeros(n.shape)
    counted = _counted(config, n, lengths)
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


def _counted(
    config: BleuConfig, n: Integer[np.ndarray, "order 1"], lengths: Integer[np.ndarray, " lengths"]
) -> Bool[np.ndarray, "order lengths"]:
    """Whether a hypothesis of each length has a precision of order n."""
    counts_always = config.smoothing == "add-k" or (config.smoothing == "nltk-floor" and not config.effective_order)
    return (n <= lengths) | counts_always


def _log_missing(config: BleuConfig, above: Integer[np.ndarray, "order 1"]) -> Float64[np.ndarray, "order 1"]:
    """Log numerator of p_n without matches, for n this many orders above the highest with a match."""
    if config.smoothing == "none":
        return np.full(above.shape, -np.inf)
    if config.smoothing == "exp":
        return -above * np.log(2)
    return np.full(above.shape, np.log(config.smoothing_term))
