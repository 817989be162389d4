"""Make the table of the negative pool, and the BLEU state from which it is updated."""

import logging

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.negatives.config import BleuConfig
from disent_core.negatives.nearest import Witnesses, update_max_bleu
from disent_core.storage.schemas import schema
from disent_core.storage.tables import SCHEMAS, conform, rows_of

_log = logging.getLogger(__name__)

BLEU_STATE_SCHEMA = schema("corpus, language, utterance_id, text_key, max_bleu float64, nearest_utterance_id?")
"""Schema of the BLEU state: one row per train utterance, ordered by id."""


READ = ["corpus", "language", "utterance_id", "split", "text", "text_key"]  # columns of `utterances` that are read


def negative_pool(utterances: pa.Table, config: BleuConfig) -> pa.Table:
    """Select train utterances that are unlike every other one of their corpus and language, for `negative_pool`.

    Rows are ordered by id; neither they nor their witnesses depend on the order of `utterances`.
    """
    return pool(bleu_state(utterances, config), config)


def pool(state: pa.Table, config: BleuConfig) -> pa.Table:
    """Select the utterances of a state with a largest BLEU below the threshold."""
    below = state.filter(pc.field("max_bleu") < config.threshold)
    return conform(below.drop_columns(["text_key"]), SCHEMAS["negative_pool"], "negative_pool")


def bleu_state(utterances: pa.Table, config: BleuConfig, previous: pa.Table | None = None) -> pa.Table:
    """Compute largest BLEU and witness (of equal scores the lowest id, as text) of every train utterance.

    The utterances are of one corpus and language. With a `previous` state, made with an equal `config`, threshold
    apart, only changes are computed, and the result equals a full computation exactly.
    """
    train = utterances.select(READ).filter(pc.field("split") == "train").sort_by("utterance_id")
    _check(train)
    tokens = (config.tokens(row["text"], row["language"]) for row in rows_of(train.select(["text", "language"])))
    known, nearest = _previous_witnesses(train, previous)
    score, witness = update_max_bleu(tokens, config, known=known, nearest=nearest)
    columns = {
        **{name: train[name] for name in ("corpus", "language", "utterance_id", "text_key")},
        "max_bleu": pa.array(score),
        "nearest_utterance_id": train["utterance_id"].take(pa.array(witness, mask=witness < 0)),
    }
    return conform(pa.table(columns), BLEU_STATE_SCHEMA, "bleu_state")


def _check(train: pa.Table) -> None:
    for column in ("corpus", "language"):
        if len(values := train[column].unique()) > 1:
            raise ValueError(f"utterances of one {column} are expected, found {values.to_pylist()[:3]}")
    if repeated := train.num_rows - len(train["utterance_id"].unique()):
        raise ValueError(f"{repeated} of {train.num_rows} utterance ids occur before")


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
    _log.info(
        "%d utterances new or changed, %d gone, %d witnesses gone",
        *(len(train) - len(kept), len(before) - len(kept), int((nearest == -2).sum())),
    )
    return known, nearest
