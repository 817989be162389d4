"""Two languages of one corpus, side by side."""

import polars as pl
import pytest

from disent_core.errors import AlignmentError
from disent_core.targets.alignment import align


def utterances(language, ids, split="test"):
    row = {"corpus": "toy", "language": language, "split": split}
    rows = [row | {"utterance_id": key, "line": line} for line, key in enumerate(ids)]
    return pl.DataFrame(rows, schema=dict.fromkeys(row, pl.String) | {"utterance_id": pl.String, "line": pl.Int64})


def test_rows_meet_by_id_in_the_order_of_the_source():
    aligned = align(utterances("en", "cab"), utterances("de", "abc"))
    assert aligned.to_dict(as_series=False) == {
        "source_corpus": ["toy"] * 3,
        "source_language": ["en"] * 3,
        "source_split": ["test"] * 3,
        "utterance_id": ["c", "a", "b"],
        "source_line": [0, 1, 2],
        "target_corpus": ["toy"] * 3,
        "target_language": ["de"] * 3,
        "target_split": ["test"] * 3,
        "target_line": [2, 0, 1],
    }


def test_nothing_meets_nothing():
    assert len(align(utterances("en", ""), utterances("de", ""))) == 0


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("abcd", "ab", r"2 of 4 ids of en have no partner among the 2 of de, e.g. \['c', 'd'\]"),
        ("a", "ax", r"1 of 2 ids of de have no partner among the 1 of en, e.g. \['x'\]"),
    ],
)
def test_ids_of_one_side_only_are_counted_and_shown(left, right, message):
    with pytest.raises(AlignmentError, match=f"corpus toy, .*{message}"):
        align(utterances("en", left), utterances("de", right))


def test_an_id_in_two_splits_is_an_error():
    with pytest.raises(AlignmentError, match=r"en and de: 2 of 2 ids are in another split, e.g. \['a', 'b'\]"):
        align(utterances("en", "ab"), utterances("de", "ba", split="train"))


def test_an_id_that_occurs_twice_is_an_error():
    with pytest.raises(AlignmentError, match=r"corpus toy, de: 1 ids occur more than once, e.g. \['b'\]"):
        align(utterances("en", "ab"), utterances("de", "abb"))
