"""Rows of readers: what is checked, faults that are read around, splits that are drawn, translations that agree."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_loops import loop_bound, loop_limited, loop_split
from worlds import sentence_pairs, utterance

from disent_core.corpora.row_errors import RowError, RowErrors, row_errors_of
from disent_core.corpora.rows import check_rows, draw_splits, limited
from disent_core.corpora.translations import MOST_OTHER_INTENTS, check_intents
from disent_core.errors import AlignmentError, CorpusError
from disent_core.evaluation.tasks.parallel import same_order
from disent_core.storage.tables import SCHEMAS, read_info, rows_table, write_table
from disent_core.text import text_key, text_keys

TEXTS = ["wake me", "stop", "go on"]


def utterances(**columns):
    good = {
        "utterance_id": ["6", "7", "8"],
        "split": ["train", "dev", "test"],
        "text": TEXTS,
        "text_key": text_keys(TEXTS),
    }
    return pa.table(good | columns)


def pairs(splits=("train", "dev", "test"), targets=("los", "halt", "auf"), **columns):
    table = sentence_pairs(list(zip(TEXTS, targets, strict=True)), splits=splits)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, [values])
    return table


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (utterances(utterance_id=["6", "7", "7"]), "utterance '7': utterance_id occurs twice"),
        (utterances(split=["train", None, "test"]), "utterance '7': split None is not one of"),
        (utterances(text=["wake me", " ", "go on"]), "utterance '7': text is empty"),
        (utterances(text_key=["0", *text_keys(TEXTS[1:])]), "utterance '6': text_key '0' is not .* of its text"),
        (utterances(text_key=[None, *text_keys(TEXTS[1:])]), "utterance '6': text_key None is not .* of its text"),
        (pairs(pair_id=["6", "7", "7"]), "pair '7': pair_id occurs twice"),
        (pairs(splits=["train", "dev", "Test"]), "pair '2': split 'Test' is not one of"),
        (pairs(targets=["los", "", "auf"]), "pair '1': target is empty"),
        (pairs(target_key=text_keys(TEXTS)), "pair '0': target_key '.*' is not .* of its target"),
    ],
)
def test_a_bad_row_is_named_with_its_corpus_and_language_and_the_remedy(table, problem):
    with pytest.raises(CorpusError, match=f"^corpus lines, en, {problem}.* Fix the reader"):
        check_rows(table, "corpus lines, en", "Fix the reader")


def test_good_rows_pass_and_schema_errors_are_left_to_the_schema():
    check_rows(utterances(), "corpus lines, en", "")
    check_rows(pairs(), "corpus lines, en-de", "")
    check_rows(utterances().drop_columns(["text_key", "utterance_id"]), "corpus lines, en", "")
    check_rows(utterances(split=[1, 2, 3], text_key=[1, 2, 3]), "corpus lines, en", "")


def test_the_first_row_of_an_id_keeps_it_and_the_others_get_one_that_is_free():
    rows = [((Path("f"), line), key, line) for line, key in enumerate(["7", "7", "7-2", "7", "7-2", "a"])]
    assert [key for key, _ in RowErrors().distinct(rows)] == ["7", "7-3", "7-2", "7-4", "7-2-2", "a"]


def test_the_counts_are_stored_with_the_rows_and_change_neither_content_nor_schema(tmp_path):
    row_errors, table = RowErrors(), pa.table({"text": ["a"]})
    row_errors.leave_out(Path("lt.valid.conll"), 4, RowError("problem", "a row is left out"))
    plain = write_table(tmp_path / "plain.parquet", table, table.schema, inputs="i")
    noted = write_table(tmp_path / "noted.parquet", row_errors.noted(table), table.schema, inputs="i")
    assert (plain.content_hash, plain.notes) == (noted.content_hash, "")
    stored = read_info(tmp_path / "noted.parquet")
    assert stored == noted
    assert row_errors_of(stored) == [
        {"file": "lt.valid.conll", "fault": "a row is left out", "count": 1, "first_line": 4}
    ]


SOME = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


def named(sentences):
    """Texts of pairs; those of even numbers are on both sides."""
    return [(f"s{source}", f"{'t' if target % 2 else 's'}{target}") for source, target in sentences]


def numbered_pairs(sentences, split="test"):
    return sentence_pairs(named(sentences), splits=[split] * len(sentences))


def named_utterances(language, ids):
    return rows_table([utterance(language, i, f"a {i}") for i in ids], "utterances")


def drawn(sentences, shares=(0.4, 0.3, 0.3), seed=0):
    return draw_splits(numbered_pairs(sentences), shares, seed)["split"].to_pylist()


@given(SOME, st.integers(0, 3), st.sampled_from([(0.4, 0.3, 0.3), (0.9, 0.05, 0.05), (0.2, 0.3, 0.4)]))
def test_a_row_is_in_the_split_that_the_smallest_key_bound_to_it_draws(sentences, seed, shares):
    smallest = loop_bound([tuple(map(text_key, pair)) for pair in named(sentences)])
    assert drawn(sentences, shares, seed) == [loop_split(key, shares, seed) for key in smallest]


@given(st.sets(st.text("ab1", max_size=3)), st.integers(0, 3))
def test_an_utterance_is_in_the_split_that_its_id_draws(ids, seed):
    table = draw_splits(named_utterances("en", sorted(ids)), (0.4, 0.3, 0.3), seed)
    assert table["split"].to_pylist() == [loop_split(key, (0.4, 0.3, 0.3), seed) for key in sorted(ids)]


def test_only_the_split_changes_and_published_splits_are_kept():
    table = numbered_pairs([(i, i) for i in range(9)])
    after = draw_splits(table, (0.9, 0.05, 0.05))
    assert after.schema == table.schema == SCHEMAS["sentence_pairs"]
    assert after.drop(["split"]) == table.drop(["split"])
    table = numbered_pairs([(i, i) for i in range(9)], split="dev")
    assert draw_splits(table, (0.9, 0.05, 0.05)) == table


@given(SOME, st.integers(1, 5))
def test_a_limit_keeps_the_first_rows_of_each_split(sentences, limit):
    table = draw_splits(numbered_pairs(sentences), (0.4, 0.3, 0.3))
    assert limited(table, limit).to_pylist() == list(loop_limited(table.to_pylist(), limit))
    assert limited(table, None) == table


TEN = pa.chunked_array([[f"test-{number}" for number in range(10)]])


def intents(*others, missing=()):
    names = [None if row in missing else "x" if row in others else "play" for row in range(10)]
    return pa.chunked_array([pa.array(names, pa.string())])


def test_languages_with_other_intents_above_the_share_are_refused_with_the_share_an_example_and_a_remedy():
    assert pytest.approx(0.2) == MOST_OTHER_INTENTS
    check_intents(TEN, intents(), intents(3, 7), "toy en-lt test")
    with pytest.raises(AlignmentError, match=r"toy en-lt test: 3 of 10 .*30%.* e.g. 'test-3': 'play' and 'x'.*leave"):
        check_intents(TEN, intents(), intents(3, 7, 8), "toy en-lt test")


def test_rows_without_intent_are_not_compared():
    check_intents(TEN, intents(missing=range(10)), intents(3, 7, 8), "toy")
    with pytest.raises(AlignmentError, match="3 of 5 rows"):
        check_intents(TEN, intents(missing=range(5)), intents(6, 7, 8), "toy")


def test_texts_of_a_task_are_compared_by_their_joined_rows():
    def table(ids, names):
        return pa.table({"utterance_id": TEN.take(ids), "intent": names.take(ids)})

    right, wrong = table([9, 5, 1], intents()), table([5, 9, 2], intents(5))
    with pytest.raises(AlignmentError, match="toy: 1 of 2 rows"):
        same_order([right, wrong], "toy", "some")
