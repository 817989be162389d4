"""Addresses of what a head trains on: every row has the right columns of both languages."""

from dataclasses import replace

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from language_tables import RESIDUALS, SPLITS, aligned, language
from table_loops import loop_aligned

from disent_core.errors import AlignmentError
from disent_core.storage.tables import SCHEMAS
from disent_core.targets.aligned_pairs import align, aligned_pairs
from disent_core.text import text_key


def test_each_row_addresses_one_utterance_in_both_languages():
    expected = []
    for i, split in SPLITS.items():
        row = {"corpus": "toy", "pair": "en-de", "utterance_id": i, "split": split}
        for side, name, pool in (("source", "en", "13"), ("target", "de", "2")):
            residual = RESIDUALS[i] and text_key(f"{name} {RESIDUALS[i]}")
            template = f"{name} text {i}" if residual is None else f"{name} text <mask>"
            row |= {
                f"{side}_language": name,
                f"{side}_key": text_key(f"{name} text {i}"),
                f"{side}_template_key": text_key(template),
                f"{side}_residual_key": residual,
                f"{side}_is_negative": i in pool,
            }
        expected.append(row)
    assert aligned().to_pylist() == expected
    assert aligned().schema.equals(SCHEMAS["aligned_pairs"])


def test_rows_keep_the_order_of_the_source():
    table = aligned_pairs("de-en", language("de", order="4213"), language("en"))
    assert table["utterance_id"].to_pylist() == list("4213")


ORDERS = st.lists(st.sampled_from("1234"), unique=True).map("".join)


@settings(deadline=None)
@given(ORDERS, ORDERS, ORDERS, ORDERS)
def test_rows_are_those_of_loops_over_the_utterances_that_both_sides_have(left, right, one_pool, other_pool):
    source, target = language("en", left, one_pool), language("de", right, other_pool)
    assert aligned_pairs("en-de", source, target, partial=True).to_pylist() == loop_aligned("en-de", source, target)


ONE_SIDED = {
    "abcd ab": r"2 of 4 ids of en have no partner among the 2 of de, e.g. \['c', 'd'\]",
    "a ax": r"1 of 2 ids of de have no partner among the 1 of en, e.g. \['x'\]",
    "ab abb": r"de: 1 ids occur more than once, e.g. \['b'\]",
}


def utterances(language, ids):
    names = ("corpus", "language", "utterance_id", "split")
    return pl.DataFrame([("toy", language, key, "test") for key in ids], schema=names, orient="row")


@pytest.mark.parametrize("ids", ONE_SIDED)
def test_ids_of_one_side_or_given_twice_are_counted_and_shown(ids):
    left, right = ids.split()
    with pytest.raises(AlignmentError, match=f"corpus toy, .*{ONE_SIDED[ids]}"):
        align(utterances("en", left), utterances("de", right))


def test_a_partner_in_another_split_is_an_error():
    with pytest.raises(AlignmentError, match=r"1 of 4 ids are in another split, e.g. \['1'\]"):
        aligned(splits=SPLITS | {"1": "dev"})


def test_no_utterances_have_no_pairs():
    nothing = {"corpus": pl.String, "language": pl.String, "utterance_id": pl.String, "split": pl.String}
    assert len(align(pl.DataFrame(schema=nothing), pl.DataFrame(schema=nothing))) == 0


def test_languages_that_mostly_differ_in_intent_are_not_trained_on():
    source, target = language("en"), language("de")
    other = pa.array(["other"] * len(target.utterances), pa.string())
    position = target.utterances.column_names.index("intent")
    utterances = target.utterances.set_column(position, "intent", other)
    named = source.utterances.set_column(position, "intent", pa.array(["play"] * len(other), pa.string()))
    with pytest.raises(AlignmentError, match="toy, en-de: 4 of 4 rows"):
        aligned_pairs("en-de", replace(source, utterances=named), replace(target, utterances=utterances))
