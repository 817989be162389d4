"""Addresses of what a head trains on: every row has the right columns of both languages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from language_tables import RESIDUALS, SPLITS, aligned, language
from table_loops import loop_aligned

from disent_core.errors import AlignmentError
from disent_core.storage.tables import SCHEMAS
from disent_core.targets.aligned_pairs import aligned_pairs
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


def test_an_utterance_without_partner_is_an_error():
    with pytest.raises(AlignmentError, match="1 of 4 ids of en have no partner"):
        aligned(order="123")


def test_a_partner_in_another_split_is_an_error():
    with pytest.raises(AlignmentError, match="another split"):
        aligned(splits=SPLITS | {"1": "dev"})
