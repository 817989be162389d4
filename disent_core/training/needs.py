"""List the data that methods may need, and derive from it the rows that a head trains on."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.errors import TrainingError
from disent_core.storage.tables import content_fingerprint, fingerprint

SIDES = ("source", "target")
TRAINING_SPLITS = ("train", "dev")


Draw = Literal["partner", "negative", "slot_swap", "other_pair", "second_half", "next_in_batch"]
"""Random texts that a method reads in addition to a pair; `sampling.PairSampler` describes each."""


class Need(StrEnum):
    """Data that a method reads besides the sentence vectors of utterances; stages make only what a method needs."""

    TOKEN_STATES = "token_states"
    MASKED_TARGETS = "masked_targets"
    NEGATIVE_POOL = "negative_pool"
    TEMPLATE_PAIRS = "template_pairs"
    """Training utterances with other slot values: `TrainingData.template_pairs`."""
    PARALLEL_MATES = "parallel_mates"
    """Translation pairs with other slot values: `TrainingData.mates`, without their vectors."""
    MATE_STATES = "mate_states"
    """Vectors of the training mates and, with `TOKEN_STATES`, their token states: `ParallelMates.rows`."""
    UTTERANCES = "utterances"
    """Texts, tokens, slot tags and intents: `TrainingData.utterances`; and texts of sentence pairs: `.texts`."""
    ENCODER = "encoder"
    """The encoder itself, to fine-tune it or to encode other texts; then `TextFeatures.texts` is set."""


_ALWAYS = ("corpus", "pair", "utterance_id", "split", "language", "key")
_NEEDED = {Need.MASKED_TARGETS: ("template_key", "residual_key"), Need.NEGATIVE_POOL: ("is_negative",)}


def training_rows(aligned: pa.Table, *, masked: bool) -> pa.Table:
    """Select the rows of `aligned_pairs` that heads train on; if `masked`, only those with template targets.

    Sentence pairs have no template targets because their slots are unknown.
    """
    rows = in_training_splits(aligned)
    if not masked:
        return rows
    source, target = (rows[f"{side}_template_key"].is_valid() for side in SIDES)
    chosen = rows.filter(pc.and_(source, target))
    if len(rows) and not len(chosen):
        raise TrainingError(
            f"none of {len(rows)} training pairs has masked texts, which this method has as targets. "
            "Give its languages a corpus of utterances with slots"
        )
    return chosen


def training_fingerprint(
    aligned: pa.Table,
    needs: frozenset[Need],
    templates: Sequence[pa.Table] = (),
    utterances: Sequence[pa.Table] = (),
) -> str:
    """Return the fingerprint of the data that a method with these needs trains on, not of other splits and columns."""
    rows = training_rows(aligned, masked=Need.MASKED_TARGETS in needs)
    columns = {*_ALWAYS, *(column for need in needs for column in _NEEDED.get(need, ()))}
    names = [name for name in rows.column_names if name.removeprefix("source_").removeprefix("target_") in columns]
    pairs = content_fingerprint(rows.select(names))
    table_hashes = [content_fingerprint(in_training_splits(table)) for table in (*templates, *utterances)]
    return fingerprint(pairs, table_hashes) if table_hashes else pairs


def in_training_splits(table: pa.Table) -> pa.Table:
    """Return the rows of a table with a column `split` that heads train on or select an epoch by."""
    return table.filter(pc.is_in(table["split"], value_set=pa.array(TRAINING_SPLITS)))
