"""Shapes of a log: groups by cosine, wordings, patterns with slots, and what is new."""

import zlib
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import disent
from disent_core.shapes import compared, shapes, tokens_of, wordings

AXES = {"wake": 0, "weck": 0, "起こ": 0, "play": 1, "spiel": 1}


def encode(texts):
    """Return a vector of a text by the first word of `AXES` that it has."""
    vectors = np.zeros((len(texts), 8), dtype=np.float32)
    for row, text in enumerate(texts):
        vectors[row, next((axis for word, axis in AXES.items() if word in text), 2 + len(text) % 6)] = 1
    return vectors


def encode_values(texts):
    """Return vectors like `encode` that depend on the whole text too: two texts of a wording have cosine 0.65."""
    vectors = np.zeros((len(texts), 8 + 4096), dtype=np.float32)
    vectors[:, :8] = encode(texts) * 0.65**0.5
    for row, text in enumerate(texts):
        vectors[row, 8 + zlib.crc32(text.encode()) % 4096] = 0.35**0.5
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


def test_case_and_punctuation_make_no_slot_and_the_commonest_spelling_is_shown():
    log = ["Wake me up at nine!", "wake me up at Nine", "Wake me up at nine!", "wake me, up at six?", "WAKE ME UP AT 6"]
    ((wording,),) = (shape.wordings for shape in shapes(log, encode))
    assert wording.pattern == "wake me up at {1}"
    assert wording.slots == ({"nine": 3, "6": 1, "six": 1},)
    assert wording.texts == ("Wake me up at nine!", "WAKE ME UP AT 6", "wake me, up at six?")
    (known,) = shapes(["Play jazz."], encode, earlier=["play jazz"])
    assert (known.is_new, known.wordings[0].is_new, known.wordings[0].pattern) == (False, False, "play jazz")


def test_words_keep_punctuation_inside_and_a_text_of_punctuation_alone_stays():
    assert compared("  What's the\u00a0(real) cost - in €5.50?! ") == "what's the real cost in €5.50"
    assert compared("?!") == "?!"
    assert [shape.count for shape in shapes(["?!", "...", "?!"], encode)] == [2, 1]


def test_scripts_without_spaces_are_compared_by_their_characters():
    assert tokens_of("朝九時に wake") == ("朝", "九", "時", "に", "wake")
    (wording,) = wordings({"朝九時に起こして": 2, "朝十時に起こして": 1})
    assert wording.pattern == "朝 {1} 時に起こして"
    assert wording.slots == ({"九": 2, "十": 1},)


def test_words_of_few_texts_are_no_slot():
    (wording,) = wordings({"play some jazz": 1, "play some rock": 1, "please play some pop": 1})
    assert wording.pattern == "… play some {1}"
    assert wording.slots == ({"jazz": 1, "rock": 1, "pop": 1},)


def test_shapes_absent_from_an_earlier_log_are_new():
    alarm, music = shapes(LOG, encode, earlier=["weck mich um eins auf", "weck mich um eins auf", "what else"])
    assert (alarm.is_new, alarm.earlier) == (False, 2)
    assert (music.is_new, music.earlier) == (True, 0)
    assert [shape.is_new for shape in shapes(LOG, encode, earlier=[])] == [True, True]


def test_texts_with_the_same_wording_share_a_shape_at_any_threshold_also_with_earlier_ones():
    log = ["wake me up at nine", "wake me up at half past ten", "weck mich um acht auf", "weck mich um elf Uhr auf"]
    english, german = (encode_values([text for text in log if text.startswith(word)]) for word in ("wake", "weck"))
    assert max(english[0] @ english[1], german[0] @ german[1]) < 0.7
    for threshold in (0.7, 0.99):
        assert [shape.distinct for shape in shapes(log, encode_values, threshold=threshold)] == [2, 2]
    (music,) = shapes(["play jazz"], encode_values, earlier=["play rock"], threshold=0.99)
    assert (music.is_new, music.earlier, music.distinct) == (False, 1, 1)


def test_a_pattern_has_only_words_shared_by_all_its_texts():
    orders = {f"cancel my order {number}": 1 for number in (1, 2, 3)}
    listed = wordings({**orders, "cancel my subscription": 1})
    assert [(wording.pattern, *wording.slots) for wording in listed] == [
        ("cancel my order {1}", {"1": 1, "2": 1, "3": 1}),
        ("cancel my subscription",),
    ]


def test_a_wording_absent_from_earlier_texts_is_new():
    listed = wordings({"cancel my order 1": 2, "play some jazz": 1}, ["play some rock", "where is it"])
    assert [(wording.pattern, wording.slots, wording.is_new) for wording in listed] == [
        ("cancel my order 1", (), True),
        ("play some {1}", ({"jazz": 1},), False),
    ]


def test_texts_that_share_words_but_not_their_shape_are_not_joined():
    assert [shape.distinct for shape in shapes(["play jazz", "stop jazz"], encode)] == [1, 1]


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
    grouped = wordings(texts)
    assert sum(wording.count for wording in grouped) == sum(texts.values())
    assert all(wording.pattern for wording in grouped)
    assert all(wording.pattern.count("{") == len(wording.slots) for wording in grouped)


UTTERANCES = [
    *(f"wake me up at {time}" for time in ("nine", "six am", "half past ten")),
    *(f"set an alarm for {time}" for time in ("nine", "six am", "half past ten")),
    *(f"weck mich um {time} auf" for time in ("acht uhr", "sieben", "halb neun")), "wann klingelt mein wecker",
    *(f"play {music}" for music in ("jazz", "some rock music", "bob dylan", "my favorite playlist")),
    *(f"spiel {music}" for music in ("jazz", "etwas rockmusik", "helene fischer")),
    *(f"what is the weather in {place}" for place in ("berlin", "new york", "paris this week")),
    *(f"wie ist das wetter in {place}" for place in ("hamburg", "münchen am montag")), "will it rain tomorrow",
    "wird es morgen regnen", "add milk to my shopping list", "add cereal to my grocery list", "turn off the lights",
    "füge milch zur einkaufsliste hinzu", "mach das licht im bad aus", "turn the lights off in the kitchen", "hallo",
]  # fmt: skip


@cache
def vector_of(text):
    return disent.load().encode(text, "template")


def encode_shapes(texts):
    return np.stack([vector_of(text) for text in texts])


@given(st.permutations(UTTERANCES), st.floats(0.3, 1.0))
@settings(max_examples=8)
def test_shapes_do_not_depend_on_the_order_of_the_lines(log, threshold):
    assert shapes(log, encode_shapes, threshold=threshold) == shapes(UTTERANCES, encode_shapes, threshold=threshold)


@given(st.lists(st.sampled_from(UTTERANCES), min_size=1), st.floats(0.05, 1), st.floats(0.05, 1))
@settings(max_examples=25)
def test_there_are_never_more_shapes_with_a_looser_threshold(log, threshold, other):
    looser, stricter = (len(shapes(log, encode_shapes, threshold=level)) for level in sorted((threshold, other)))
    assert looser <= stricter


@given(st.lists(st.sampled_from(UTTERANCES), min_size=1))
@settings(max_examples=25)
def test_repeated_lines_change_no_group(log):
    once = shapes(list(dict.fromkeys(log)), encode_shapes)
    assert sorted(shape.distinct for shape in once) == sorted(shape.distinct for shape in shapes(log, encode_shapes))


def test_requests_of_two_languages_are_grouped_by_what_they_ask():
    grouped = shapes(UTTERANCES, encode_shapes)
    firsts = [{text.split()[0] for wording in shape.wordings for text in wording.examples} for shape in grouped]
    assert {"play", "spiel"} in firsts
    assert {"what", "wie"} in firsts
    assert any({"wake", "weck"} <= words for words in firsts)
