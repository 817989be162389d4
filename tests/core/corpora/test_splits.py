"""Splits that are drawn, and rows that are limited."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_loops import loop_bound, loop_limited, loop_split
from worlds import sentence_pairs, utterance

from disent_core.corpora.rows import draw_splits, limited
from disent_core.storage.tables import SCHEMAS, rows_table
from disent_core.text import text_key

SHARES = (0.9, 0.05, 0.05)
SOME = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


def pairs(sentences, split="test"):
    named = [(f"s{source}", f"t{target}") for source, target in sentences]
    return sentence_pairs(named, splits=[split] * len(named))


def utterances(language, ids):
    return rows_table([utterance(language, i, f"a {i}") for i in ids], "utterances")


def drawn(sentences, shares=(0.4, 0.3, 0.3), seed=0):
    return draw_splits(pairs(sentences), shares, seed)["split"].to_pylist()


@settings(deadline=None)
@given(SOME, st.integers(0, 3), st.sampled_from([(0.4, 0.3, 0.3), (0.9, 0.05, 0.05), (0.2, 0.3, 0.4)]))
def test_a_row_is_in_the_split_that_the_smallest_key_bound_to_it_draws(sentences, seed, shares):
    smallest = loop_bound([(text_key(f"s{source}"), text_key(f"t{target}")) for source, target in sentences])
    assert drawn(sentences, shares, seed) == [loop_split(key, shares, seed) for key in smallest]


@given(st.sets(st.text("ab1", max_size=3)), st.integers(0, 3))
def test_an_utterance_is_in_the_split_that_its_id_draws(ids, seed):
    table = draw_splits(utterances("en", sorted(ids)), (0.4, 0.3, 0.3), seed)
    assert table["split"].to_pylist() == [loop_split(key, (0.4, 0.3, 0.3), seed) for key in sorted(ids)]


def test_a_sentence_that_is_source_and_target_binds_too():
    table = sentence_pairs([("Tom!", "Ja."), ("So.", "Tom!")])
    for seed in range(30):
        assert len(set(draw_splits(table, (0.5, 0.0, 0.5), seed)["split"].to_pylist())) == 1


def test_the_shares_hold_on_average():
    counts = Counter(drawn([(i, i) for i in range(20_000)], SHARES))
    assert counts["train"] == pytest.approx(18_000, abs=200)
    assert counts["dev"] == pytest.approx(1_000, abs=150)
    assert counts["test"] == pytest.approx(1_000, abs=150)


def test_only_the_split_changes():
    table = pairs([(i, i) for i in range(9)])
    after = draw_splits(table, SHARES)
    assert after.schema == table.schema == SCHEMAS["sentence_pairs"]
    assert after.drop(["split"]) == table.drop(["split"])


def test_published_splits_are_kept():
    table = pairs([(i, i) for i in range(9)], split="dev")
    assert draw_splits(table, SHARES) == table


def test_an_empty_table_stays_empty():
    assert draw_splits(pairs([]), SHARES).num_rows == limited(pairs([]), 3).num_rows == 0


@settings(deadline=None)
@given(SOME, st.integers(1, 5))
def test_a_limit_keeps_the_first_rows_of_each_split(sentences, limit):
    table = draw_splits(pairs(sentences), (0.4, 0.3, 0.3))
    assert limited(table, limit).to_pylist() == list(loop_limited(table.to_pylist(), limit))
    assert limited(table, None) == table
