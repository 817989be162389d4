"""Addresses of what a head trains on: every row has the right columns of both languages."""

from dataclasses import replace

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_tables import SPLITS, aligned, language
from table_loops import loop_aligned

from disent_core.errors import AlignmentError
from disent_core.storage.tables import SCHEMAS
from disent_core.targets.aligned_pairs import align, aligned_pairs

ORDERS = st.lists(st.sampled_from("1234"), unique=True).map("".join)


@given(ORDERS, ORDERS, ORDERS, ORDERS)
def test_aligned_pairs_equal_a_loop_over_shared_utterances(left, right, left_pool, right_pool):
    source, target = language("en", left, left_pool), language("de", right, right_pool)
    table = aligned_pairs("en-de", source, target, partial=True)
    assert table.to_pylist() == loop_aligned("en-de", source, target)
    assert table.schema.equals(SCHEMAS["aligned_pairs"])


ONE_SIDED = {
    "abcd ab": r"2 of 4 ids of en have no partner among the 2 of de, e.g. c, d",
    "a ax": r"1 of 2 ids of de have no partner among the 1 of en, e.g. x",
    "ab abb": r"de: 1 ids occur more than once, e.g. b",
}


def utterances(language, ids):
    names = ("corpus", "language", "utterance_id", "split")
    return pl.DataFrame([("toy", language, key, "test") for key in ids], schema=names, orient="row")


@pytest.mark.parametrize("ids", ONE_SIDED)
def test_one_sided_and_duplicate_ids_are_errors_with_counts(ids):
    left, right = ids.split()
    with pytest.raises(AlignmentError, match=f"corpus toy, .*{ONE_SIDED[ids]}"):
        align(utterances("en", left), utterances("de", right))


def test_a_partner_in_another_split_is_an_error():
    with pytest.raises(AlignmentError, match=r"1 of 4 ids are in different splits, e.g. 1"):
        aligned(splits=SPLITS | {"1": "dev"})


def test_no_utterances_have_no_pairs():
    nothing = {"corpus": pl.String, "language": pl.String, "utterance_id": pl.String, "split": pl.String}
    assert len(align(pl.DataFrame(schema=nothing), pl.DataFrame(schema=nothing))) == 0


def test_languages_with_mostly_different_intents_are_refused():
    source, target = language("en"), language("de")
    other = pa.array(["other"] * len(target.utterances), pa.string())
    position = target.utterances.column_names.index("intent")
    utterances = target.utterances.set_column(position, "intent", other)
    named = source.utterances.set_column(position, "intent", pa.array(["play"] * len(other), pa.string()))
    with pytest.raises(AlignmentError, match="toy, en-de: 4 of 4 rows"):
        aligned_pairs("en-de", replace(source, utterances=named), replace(target, utterances=utterances))
