"""From spans to tags, and how tags are scored."""

from itertools import groupby
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.corpora.annotation import Slot, tagged_slots
from disent_core.evaluation.metrics.statistics import f1
from disent_core.evaluation.tasks.slot_labelling import agreement, tagged_words
from disent_core.methods.twosl_head import Prediction, decode

TAG = st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"])
TWO_TAGGINGS = st.lists(st.lists(st.tuples(TAG, TAG), max_size=8), max_size=6)
SPANS = st.lists(
    st.builds(
        lambda kind, start, size, probability: Prediction(kind, start, start + size, probability),
        st.sampled_from("xy"), st.integers(0, 5), st.integers(1, 3), st.floats(0, 1),
    ),
    max_size=8,
)  # fmt: skip


@given(SPANS)
def test_greedy_slots_are_predicted_and_what_was_dropped_met_one_at_least_as_probable(spans):
    written = tagged_slots(decode(8, spans, overlap="greedy"))
    kept = [span for span in spans if Slot(*span[:3]) in written]
    assert {Slot(*span[:3]) for span in kept} == set(written)
    for span in spans:
        assert span in kept or any(
            other.probability >= span.probability and other.start < span.end and span.start < other.end
            for other in kept
        )


def test_of_equally_probable_spans_the_leftmost_stays_and_overwriting_goes_from_left_to_right_and_short_to_long():
    spans = [Prediction("y", 1, 3, 0.5), Prediction("x", 0, 2, 0.5)]
    assert decode(3, spans, overlap="greedy") == ["B-x", "I-x", "O"]
    spans = [Prediction("y", 1, 2, 0.1), Prediction("x", 0, 3, 0.2), Prediction("z", 0, 1, 0.9)]
    assert decode(4, spans, overlap="overwrite") == ["B-x", "B-y", "I-x", "O"]


# --- F1 ---------------------------------------------------------------------------------------------------


def taggings(pairs):
    return [[gold for gold, _ in words] for words in pairs], [[guess for _, guess in words] for words in pairs]


@given(TWO_TAGGINGS)
def test_token_f1_equals_a_loop_over_words(pairs):
    words = [word for sentence in pairs for word in sentence]
    hits = sum(gold == guess != "O" for gold, guess in words)
    errors = sum(gold != guess and guess != "O" for gold, guess in words)
    missed = sum(gold != guess and gold != "O" for gold, guess in words)
    counts = agreement(*taggings(pairs), tagged_words)
    assert isclose(float(f1(counts[None])[0]), 2 * hits / (2 * hits + errors + missed) if hits else 0.0)


def chunks(tags):
    """As seqeval reads chunks, written another way: a chunk is a run of one key."""
    key, count = [], 0
    for index, tag in enumerate(tags):
        previous = tags[index - 1] if index else "O"
        count += tag[0] == "B" or (tag[0] == "I" and tag[2:] != previous[2:])
        key.append((tag[2:], count) if tag != "O" else None)
    runs = groupby(range(len(tags)), key=lambda index: key[index])
    return {(what[0], indices[0], indices[-1]) for what, group in runs if what for indices in [list(group)]}


@given(TWO_TAGGINGS)
def test_span_f1_equals_a_loop_over_chunks(pairs):
    gold, guess = taggings(pairs)
    hits = sum(len(chunks(tags) & chunks(guessed)) for tags, guessed in zip(gold, guess, strict=True))
    predicted, expected = (sum(len(chunks(tags)) for tags in side) for side in (guess, gold))
    assert agreement(gold, guess, tagged_slots).sum(axis=0).tolist() == [hits, predicted, expected]


def test_sentences_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="sentence 0 has 2 gold tags and 1"):
        agreement([["O", "O"]], [["O"]], tagged_words)
    with pytest.raises(ValueError, match="1 sentences have gold tags and 0"):
        agreement([["O"]], [], tagged_words)
