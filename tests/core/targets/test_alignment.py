"""Two languages of one corpus, side by side."""

import pytest

from disent_core.errors import AlignmentError
from disent_core.storage.tables import rows_table
from disent_core.targets.alignment import align


def utterances(language, ids, split="test"):
    row = {"corpus": "toy", "language": language, "domain": None, "intent": None, "text": "a"}
    row |= {"tokens": ["a"], "slot_tags": ["O"], "text_key": "0", "split": split}
    return rows_table([row | {"utterance_id": key} for key in ids], "utterances")


def test_rows_meet_by_id_in_the_order_of_the_left():
    aligned = align(utterances("en", "cab"), utterances("de", "abc"))
    assert aligned.to_pydict() == {
        "utterance_id": ["c", "a", "b"],
        "split": ["test"] * 3,
        "left_row": [0, 1, 2],
        "right_row": [2, 0, 1],
    }


def test_nothing_meets_nothing():
    assert align(utterances("en", ""), utterances("de", "")).num_rows == 0


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ("abcd", "ab", r"2 of 4 ids of en have no partner among the 2 of de, e.g. \['c', 'd'\]"),
        ("a", "ax", r"1 of 2 ids of de have no partner among the 1 of en, e.g. \['x'\]"),
    ],
)
def test_ids_of_one_side_only_are_counted_and_shown(left, right, found):
    with pytest.raises(AlignmentError, match=f"corpus toy, .*{found}"):
        align(utterances("en", left), utterances("de", right))


def test_an_id_in_two_splits_is_an_error():
    with pytest.raises(AlignmentError, match=r"en and de: 2 of 2 ids are in another split, e.g. \['a', 'b'\]"):
        align(utterances("en", "ab"), utterances("de", "ba", split="train"))


def test_an_id_that_occurs_twice_is_an_error():
    with pytest.raises(AlignmentError, match=r"corpus toy, de: 1 ids occur more than once, e.g. \['b'\]"):
        align(utterances("en", "ab"), utterances("de", "abb"))
