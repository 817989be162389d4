"""Largest BLEU of each utterance against every other, and its exact update."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from disent_core.negatives.config import BleuConfig
from disent_core.negatives.ngrams import blocks, index_ngrams, matches
from disent_core.negatives.scoring import scorer
from disent_core.negatives.search import Search

_log = logging.getLogger(__name__)

Tokens = Sequence[Sequence[str]]
Scores = Float64[np.ndarray, " utterances"]
Witnesses = Int64[np.ndarray, " utterances"]


def max_bleu(tokens: Tokens, config: BleuConfig) -> tuple[Scores, Witnesses]:
    """Largest sentence BLEU of each utterance against every other one.

    Equals sacrebleu's `sentence_bleu(...).score / 100` over all pairs to 1e-9. An equal utterance elsewhere in
    the list is another one: it scores as computed, which without smoothing or effective order is 0 below
    `order` tokens and else 1.

    Args:
        tokens: of each utterance, lower-cased already where case does not count.
        config: order, smoothing, effective order and direction count here.

    Returns:
        The score in [0, 1], and the index of the utterance that it is reached with: the lowest of several, -1
        where the score is 0.
    """
    nobody = np.zeros(len(tokens), np.bool_)
    return update_max_bleu(tokens, config, known=nobody, nearest=np.full(len(tokens), -1))


def update_max_bleu(
    tokens: Tokens, config: BleuConfig, *, known: Bool[np.ndarray, " utterances"], nearest: Witnesses
) -> tuple[Scores, Witnesses]:
    """`max_bleu` of the utterances as they are now, from a result for the utterances as they were.

    Exactly what recomputation gives, witnesses included. Only texts that are new, or whose witness went, are
    held against all others; the rest only against new texts.

    Args:
        tokens: of each utterance now.
        config: as before.
        known: utterances that were there before, unchanged and in the same order among each other.
        nearest: for each known one, where its witness is now: an index, -1 if its score was 0, -2 if the
            witness is gone or changed.

    Raises:
        ValueError: if `known` or `nearest` do not fit the tokens.
    """
    if not len(known) == len(nearest) == len(tokens):
        raise ValueError(f"{len(tokens)} utterances, {len(known)} known, {len(nearest)} witnesses")
    if len(nearest) and not -2 <= nearest.min() <= nearest.max() < len(tokens):
        raise ValueError(f"witnesses are {nearest.min()} to {nearest.max()} of {len(tokens)} utterances")
    if not len(tokens):
        return np.empty(0), np.empty(0, np.int64)
    texts = _distinct(tokens)
    search = _search(texts, [tokens[int(i)] for i in texts.first], config, known, nearest)
    return _by_utterance(texts, search)


@dataclass(frozen=True)
class _Texts:
    """Distinct token lists, in the order in which they first occur.

    Attributes:
        of: text of each utterance.
        first: its first utterance.
        second: its second one, or the number of utterances.
    """

    of: Int64[np.ndarray, " utterances"]
    first: Int64[np.ndarray, " texts"]
    second: Int64[np.ndarray, " texts"]


def _distinct(tokens: Tokens) -> _Texts:
    numbers: dict[tuple[str, ...], int] = {}
    of = np.array([numbers.setdefault(tuple(text), len(numbers)) for text in tokens], np.int64)
    _, first = np.unique(of, return_index=True)
    second = np.full(len(first), len(tokens))
    again = np.flatnonzero(first[of] != np.arange(len(of)))
    np.minimum.at(second, of[again], again)
    return _Texts(of, first, second)


def _search(
    texts: _Texts,
    tokens: list[Sequence[str]],
    config: BleuConfig,
    known: Bool[np.ndarray, " utterances"],
    nearest: Witnesses,
) -> Search:
    """Best of each text among the other texts, starting from known witnesses."""
    index = index_ngrams(tokens, config.order)
    count = len(tokens)
    best, near = np.full(count, -np.inf), np.full(count, count)
    search = Search(index, scorer(config, int(index.lengths.max())), best, near, config.block_pairs)
    has_known, lost = np.zeros((2, count), np.bool_)
    has_known[texts.of[known]] = True
    lost[texts.of[known & (nearest == -2)]] = True
    stale = lost | ~has_known
    _recall(search, texts, np.flatnonzero(known & (nearest >= 0) & ~stale[texts.of]), nearest)
    rescored, everything = np.flatnonzero(stale), np.arange(count)
    _log.info("BLEU of %d of %d distinct texts is taken against all", len(rescored), count)
    search.run(rescored, everything)
    # A known text that now comes earlier, in a new utterance, may win a tie that it lost.
    search.run(np.flatnonzero(~stale), np.flatnonzero(~known[texts.first]))
    return search


def _recall(search: Search, texts: _Texts, utterances: Int64[np.ndarray, " some"], nearest: Witnesses) -> None:
    """Score again with known witnesses; those of the same text need none."""
    pairs = np.stack([texts.of[utterances], texts.of[nearest[utterances]]], axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    for block in blocks(search.index.lengths[pairs].sum(axis=1), search.block_pairs):
        rows, others = pairs[block].T
        for order in range(len(search.index.orders), 0, -1):
            shared = matches(search.index.orders[order - 1], rows, others) > 0
            search.improve(order, rows[shared], others[shared])
            rows, others = rows[~shared], others[~shared]


def _by_utterance(texts: _Texts, search: Search) -> tuple[Scores, Witnesses]:
    """Of the nearest other text and, where a text occurs again, itself, the better or else the earlier."""
    total = len(texts.of)
    score = search.best[texts.of]
    near = np.append(texts.first, total)[search.nearest][texts.of]
    own = search.scorer.log_bleu_of_itself(search.index.lengths)[texts.of]
    first, second = texts.first[texts.of], texts.second[texts.of]
    twin = np.where(first == np.arange(total), second, first)
    better = (twin < total) & (own > -np.inf) & ((own > score) | ((own == score) & (twin < near)))
    score, near = np.where(better, own, score), np.where(better, twin, near)
    return np.exp(score), np.where(near < total, near, -1)
