"""What is wrong with the rows of a reader is found before anything is made from them."""

import pyarrow as pa
import pytest
from worlds import sentence_pairs

from disent_core.corpora.rows import check_rows
from disent_core.errors import CorpusError
from disent_core.text import text_keys

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


def test_good_rows_pass():
    check_rows(utterances(), "corpus lines, en", "")
    check_rows(pairs(), "corpus lines, en-de", "")


def test_the_message_names_corpus_language_row_and_remedy():
    table = utterances(split=["train", "validation", "test"])
    message = "corpus lines, en, utterance '7': split 'validation' is none of train, dev, test. Mend the reader \"r\""
    with pytest.raises(CorpusError) as raised:
        check_rows(table, "corpus lines, en", 'Mend the reader "r"')
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (utterances(utterance_id=["6", "7", "7"]), "utterance '7': utterance_id occurs twice"),
        (utterances(split=["train", None, "test"]), "utterance '7': split None is none of"),
        (utterances(text=["wake me", " ", "go on"]), "utterance '7': text is empty"),
        (utterances(text_key=["0", *text_keys(TEXTS[1:])]), "utterance '6': text_key '0' is not .* of its text"),
        (utterances(text_key=[None, *text_keys(TEXTS[1:])]), "utterance '6': text_key None is not .* of its text"),
        (pairs(pair_id=["6", "7", "7"]), "pair '7': pair_id occurs twice"),
        (pairs(splits=["train", "dev", "Test"]), "pair '2': split 'Test' is none of"),
        (pairs(targets=["los", "", "auf"]), "pair '1': target is empty"),
        (pairs(target_key=text_keys(TEXTS)), "pair '0': target_key '.*' is not .* of its target"),
    ],
)
def test_a_bad_row_is_named(table, problem):
    with pytest.raises(CorpusError, match=problem):
        check_rows(table, "corpus lines, en", "")


def test_columns_that_are_missing_or_of_another_type_are_left_to_the_check_of_the_schema():
    check_rows(utterances().drop_columns(["text_key", "utterance_id"]), "corpus lines, en", "")
    check_rows(utterances(split=[1, 2, 3], text_key=[1, 2, 3]), "corpus lines, en", "")
