"""Shapes of a log: groups by cosine, wordings, patterns with slots, and what is new."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.shapes import grouped, shapes, tokens_of, wordings

AXES = {"wake": 0, "weck": 0, "起こ": 0, "play": 1, "spiel": 1}


def encode(texts):
    """Return a vector of a text by the first word of `AXES` that it has."""
    vectors = np.zeros((len(texts), 8), dtype=np.float32)
    for row, text in enumerate(texts):
        vectors[row, next((axis for word, axis in AXES.items() if word in text), 2 + len(text) % 6)] = 1
    return vectors


LOG = [
    *["wake me up at nine"] * 3, "wake me up at six", "wake me up at half past ten", "weck mich um acht auf",
    "weck mich um zehn auf", "play jazz", "play rock",
]  # fmt: skip


def test_texts_of_one_shape_are_a_group_with_a_pattern_for_each_wording():
    alarm, music = shapes(LOG, encode)
    assert (alarm.count, alarm.distinct, alarm.is_new, alarm.earlier) == (7, 5, None, None)
    english, german = alarm.wordings
    assert english.pattern == "wake me up at {1}"
    assert english.count == 5
    assert english.slots == ({"nine": 3, "six": 1, "half past ten": 1},)
    assert english.examples[0] == "wake me up at nine"
    assert (german.pattern, german.slots) == ("weck mich um {1} auf", ({"acht": 1, "zehn": 1},))
    assert [wording.pattern for wording in music.wordings] == ["play {1}"]


def test_scripts_without_spaces_are_compared_by_their_characters():
    assert tokens_of("朝九時に wake") == ("朝", "九", "時", "に", "wake")
    (wording,) = wordings({"朝九時に起こして": 2, "朝十時に起こして": 1})
    assert wording.pattern == "朝 {1} 時に起こして"
    assert wording.slots == ({"九": 2, "十": 1},)


def test_what_few_texts_have_between_the_words_is_no_slot():
    (wording,) = wordings({"play some jazz": 1, "play some rock": 1, "please play some pop": 1})
    assert wording.pattern == "… play some {1}"
    assert wording.slots == ({"jazz": 1, "rock": 1, "pop": 1},)


def test_shapes_that_an_earlier_log_lacks_are_new():
    alarm, music = shapes(LOG, encode, earlier=["weck mich um eins auf", "weck mich um eins auf", "what else"])
    assert (alarm.is_new, alarm.earlier) == (False, 2)
    assert (music.is_new, music.earlier) == (True, 0)
    assert [shape.is_new for shape in shapes(LOG, encode, earlier=[])] == [True, True]


def test_the_vector_with_most_texts_near_it_leads():
    angles = np.deg2rad([0, 20, 40, 90])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    near = np.cos(np.deg2rad(25))
    assert [group.tolist() for group in grouped(vectors, np.ones(4), near)] == [[1, 0, 2], [3]]
    assert [group.tolist() for group in grouped(vectors, np.array([1, 1, 1, 9]), near)] == [[3], [1, 0, 2]]


def test_an_empty_log_has_no_shapes_and_blank_lines_do_not_count():
    assert shapes([], encode) == []
    (shape,) = shapes(["", "  ", "play jazz", "play  jazz"], encode)
    assert (shape.count, shape.distinct) == (2, 1)


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(ValueError, match=f"the threshold is {threshold}; it must be above 0 and at most 1"):
        shapes(LOG, encode, threshold=threshold)


@given(st.dictionaries(st.text("ab c九", min_size=1).filter(str.strip), st.integers(1, 3), min_size=1, max_size=6))
def test_every_text_is_in_one_wording(texts):
    found = wordings(texts)
    assert sum(wording.count for wording in found) == sum(texts.values())
    assert all(wording.pattern for wording in found)
    assert all(wording.pattern.count("{") == len(wording.slots) for wording in found)
