"""Compute the largest BLEU of each utterance against all others, update it exactly, and select the pool by it."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64

from disent_core.errors import commas
from disent_core.negatives.config import BleuConfig
from disent_core.negatives.ngrams import Numbered, blocks, index_ngrams, matches, numbered
from disent_core.negatives.search import Ids, Search, scorer
from disent_core.shards.backend import Arrays, map_kept, ranges
from disent_core.storage.schemas import schema
from disent_core.storage.tables import SCHEMAS, conform, rows_of

log = logging.getLogger(__name__)

ROWS_OF_SHARD = 100_000  # texts compared with all others in one shard
READ = ["corpus", "language", "utterance_id", "split", "text", "text_key"]  # columns of `utterances` that are read
BLEU_STATE_SCHEMA = schema("corpus, language, utterance_id, text_key, max_bleu float64, nearest_utterance_id?")
"""Schema of the BLEU state: one row per train utterance, ordered by id."""

Tokens = Iterable[Sequence[str]]
Scores = Float64[np.ndarray, " utterances"]
Witnesses = Int64[np.ndarray, " utterances"]
Known = Bool[np.ndarray, " utterances"]


def max_bleu(
    tokens: Tokens, config: BleuConfig, known: Known | None = None, nearest: Witnesses | None = None
) -> tuple[Scores, Witnesses]:
    """Compute the largest sentence BLEU of each utterance against all others.

    It equals sacrebleu's `sentence_bleu(...).score / 100` over all pairs to 1e-9. A repeated utterance counts as
    another one and is scored like any pair: without smoothing or effective order, 0 below `order` tokens, else 1.

    Tokens must already be lower-cased if case is ignored. Returns the score in [0, 1] and its witness: the lowest
    index of an utterance with that score, -1 if the score is 0.

    After an edit, the same result is computed from the earlier one: only texts that are new or lost their witness are
    compared with all others, the rest with new texts only. `known` marks utterances that existed before, unchanged and
    in the same relative order. `nearest` is the current index of the witness of each of them; -1 if its score was 0, -2
    if the witness is gone or changed.
    """
    utterances = numbered(tokens)
    count = len(utterances)
    if known is None or nearest is None:
        known, nearest = np.zeros(count, np.bool_), np.full(count, -1)
    if not len(known) == len(nearest) == count:
        raise ValueError(f"lengths differ: {count} utterances, {len(known)} known, {len(nearest)} witnesses")
    if len(nearest) and not -2 <= nearest.min() <= nearest.max() < count:
        raise ValueError(f"witnesses {nearest.min()} to {nearest.max()} are out of range for {count} utterances")
    if not count:
        return np.empty(0), np.empty(0, np.int64)
    texts = _distinct(utterances)
    return _by_utterance(texts, _search(texts, utterances.take(texts.first), config, known, nearest))


@dataclass(frozen=True)
class _Texts:
    of: Int64[np.ndarray, " utterances"]  # index of the distinct text of each utterance
    first: Int64[np.ndarray, " texts"]  # first utterance of each text
    second: Int64[np.ndarray, " texts"]  # second utterance of each text; the number of utterances if there is none


def _distinct(utterances: Numbered) -> _Texts:
    ends = np.cumsum(utterances.lengths) * utterances.tokens.itemsize
    buffers = [None, pa.py_buffer(np.concatenate([[0], ends])), pa.py_buffer(utterances.tokens)]
    texts = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(utterances), buffers)
    of = texts.dictionary_encode().indices.to_numpy().astype(np.int64)  # in order of first occurrence
    _, first = np.unique(of, return_index=True)
    second = np.full(len(first), len(utterances))
    repeats = np.flatnonzero(first[of] != np.arange(len(of)))
    np.minimum.at(second, of[repeats], repeats)
    return _Texts(of, first, second)


def _search(texts: _Texts, tokens: Numbered, config: BleuConfig, known: Known, nearest: Witnesses) -> Search:
    """Find the best match of each distinct text among the other texts, starting from known witnesses."""
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
    log.info("computing BLEU of %d of %d distinct texts against all others", len(rescored), count)
    _compare(search, rescored, everything, "all")
    # A known text that now occurs earlier, in a new utterance, may win a tie that it lost before.
    _compare(search, np.flatnonzero(~stale), np.flatnonzero(~known[texts.first]), "new")
    return search


def _compare(search: Search, rows: Ids, targets: Int64[np.ndarray, " targets"], name: str) -> None:
    """Compare each text of `rows` with all others of `targets`, in shards of rows, whose results are independent."""
    if not len(rows) or not len(targets):
        return
    shards = ranges(len(rows), ROWS_OF_SHARD)
    compared = map_kept(partial(_compare_shard, search, rows, targets), shards, name)
    for shard, result in zip(shards, compared, strict=True):
        rows_of_shard = rows[shard.start : shard.stop]
        search.best[rows_of_shard], search.nearest[rows_of_shard] = result["best"], result["nearest"]


def _compare_shard(search: Search, rows: Ids, targets: Int64[np.ndarray, " targets"], shard: range) -> Arrays:
    """Compare a range of `rows` with `targets` without changing the search."""
    rows = rows[shard.start : shard.stop]
    search = replace(search, best=search.best.copy(), nearest=search.nearest.copy())
    search.run(rows, targets)
    return {"best": search.best[rows], "nearest": search.nearest[rows]}


def _recall(search: Search, texts: _Texts, utterances: Int64[np.ndarray, " some"], nearest: Witnesses) -> None:
    """Score texts against their known witnesses again; a witness that repeats the text needs no score."""
    # One (text, witness) pair of distinct texts per row, shape (pairs, 2).
    pairs = np.stack([texts.of[utterances], texts.of[nearest[utterances]]], axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    for block in blocks(search.index.lengths[pairs].sum(axis=1), search.block_pairs):
        rows, witnesses = pairs[block].T
        for order in range(len(search.index.orders), 0, -1):
            shared = matches(search.index.orders[order - 1], rows, witnesses) > 0
            search.improve(order, rows[shared], witnesses[shared])
            rows, witnesses = rows[~shared], witnesses[~shared]


def _by_utterance(texts: _Texts, search: Search) -> tuple[Scores, Witnesses]:
    """Map results of distinct texts to utterances; a repeated text may score best with its duplicate.

    If scores are equal, the earlier witness counts.
    """
    total = len(texts.of)
    score = search.best[texts.of]
    # Witness of each utterance: the first utterance of the nearest text; `total` stands for none.
    near = np.append(texts.first, total)[search.nearest][texts.of]
    duplicate_score = search.scorer.log_bleu_of_itself(search.index.lengths)[texts.of]
    first, second = texts.first[texts.of], texts.second[texts.of]
    duplicate = np.where(first == np.arange(total), second, first)
    better = (
        (duplicate < total)
        & (duplicate_score > -np.inf)
        & ((duplicate_score > score) | ((duplicate_score == score) & (duplicate < near)))
    )
    score, near = np.where(better, duplicate_score, score), np.where(better, duplicate, near)
    return np.exp(score), np.where(near < total, near, -1)


# --- the pool ---------------------------------------------------------------------------------------------


def pool(state: pa.Table, config: BleuConfig) -> pa.Table:
    below = state.filter(pc.field("max_bleu") < config.threshold)
    return conform(below.drop_columns(["text_key"]), SCHEMAS["negative_pool"], "negative_pool")


def bleu_state(utterances: pa.Table, config: BleuConfig, previous: pa.Table | None = None) -> pa.Table:
    """Compute the largest BLEU and its witness (in a tie the lowest id, as text) of every train utterance.

    The utterances are of one corpus and language. With a `previous` state, made with the same `config` except for the
    threshold, only changes are computed, and the result equals a full computation exactly.
    """
    train = utterances.select(READ).filter(pc.field("split") == "train").sort_by("utterance_id")
    for column in ("corpus", "language"):
        if len(values := train[column].unique()) > 1:
            raise ValueError(f"utterances of one {column} are expected, found {commas(values.to_pylist()[:3])}")
    if repeated := train.num_rows - len(train["utterance_id"].unique()):
        raise ValueError(f"{repeated} of {train.num_rows} utterance ids are repeated")
    tokens = (config.tokens(row["text"], row["language"]) for row in rows_of(train.select(["text", "language"])))
    known, nearest = _previous_witnesses(train, previous)
    score, witness = max_bleu(tokens, config, known, nearest)
    columns = {
        **{name: train[name] for name in ("corpus", "language", "utterance_id", "text_key")},
        "max_bleu": pa.array(score),
        "nearest_utterance_id": train["utterance_id"].take(pa.array(witness, mask=witness < 0)),
    }
    return conform(pa.table(columns), BLEU_STATE_SCHEMA, "bleu_state")


def _previous_witnesses(train: pa.Table, previous: pa.Table | None) -> tuple[np.ndarray, Witnesses]:
    """Return whether each utterance is unchanged, and the current index of its witness: -1 for none, -2 if gone."""
    known, nearest = np.zeros(len(train), np.bool_), np.full(len(train), -1)
    if previous is None:
        return known, nearest
    before = pl.DataFrame(previous.select(["utterance_id", "text_key", "nearest_utterance_id"]))
    now = pl.DataFrame(train.select(["utterance_id", "text_key"])).with_columns(row=pl.int_range(pl.len()))
    kept = now.join(before, on=["utterance_id", "text_key"])
    kept = kept.join(kept, left_on="nearest_utterance_id", right_on="utterance_id", how="left")
    has_none = pl.col("nearest_utterance_id").is_null()
    witness = pl.when(has_none).then(-1).otherwise(pl.col("row_right").fill_null(-2))
    known[kept["row"]] = True
    nearest[kept["row"]] = kept.select(witness).to_series()
    log.info(
        "%d utterances new or changed, %d gone, %d witnesses gone",
        *(len(train) - len(kept), len(before) - len(kept), int((nearest == -2).sum())),
    )
    return known, nearest
