"""Spans as items, their samples, and the pairs of the contrastive stage."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slot_sentences import tagged_sentences

from disent_core.errors import TrainingError
from disent_core.methods.families.tagger import Tagged, sample_sentences, slot_types
from disent_core.methods.twosl import TwoSlConfig
from disent_core.methods.twosl_head import contrastive_pairs, sample_nones, span_items
from disent_core.text import MASK, SUBWORD_MASK_CLOSE, SUBWORD_MASK_OPEN

WAKE = Tagged(["wake", "me", "at", "half", "past", "nine"], ["O", "O", "O", "B-time", "I-time", "I-time"])


def by_place(sentence, **changed):
    items = span_items([sentence], **({"max_span": 5, "mask": "word"} | changed))
    places = zip(items.start.tolist(), items.end.tolist(), strict=True)
    return dict(zip(places, zip(items.masked, items.texts, items.labels, strict=True), strict=True))


@given(st.integers(0, 12), st.integers(1, 6))
def test_every_span_up_to_the_longest_is_one_item(words, longest):
    items = span_items([Tagged(["w"] * words, ["O"] * words)], max_span=longest, mask="word")
    expected = {(i, j) for i, j in combinations(range(words + 1), 2) if j - i <= longest}
    assert sorted(zip(items.start.tolist(), items.end.tolist(), strict=True)) == sorted(expected)


def test_only_exact_slot_spans_are_typed_and_overlong_ones_dropped():
    items = by_place(WAKE)
    assert {place: label for place, (_, _, label) in items.items() if label} == {(3, 6): "time"}
    items = span_items([WAKE], max_span=2, mask="word")
    assert set(items.labels) == {None}


@pytest.mark.parametrize(
    ("mask", "hidden"),
    [
        ("word", f"{MASK} {MASK} {MASK}"),
        ("span", MASK),
        ("subword", f"{SUBWORD_MASK_OPEN}half past nine{SUBWORD_MASK_CLOSE}"),
    ],
)
def test_the_span_is_masked_in_its_sentence(mask, hidden):
    assert by_place(WAKE, mask=mask)[3, 6][:2] == (f"wake me at {hidden}", "half past nine")


def test_masking_adds_no_spaces_in_unspaced_languages():
    items = by_place(Tagged(list("九時に"), ["B-time", "I-time", "O"], "ja"))
    assert items[0, 2] == (f"{MASK}{MASK}に", "九時", "time")


def test_too_few_tags_and_a_sample_larger_than_the_corpus_are_refused():
    with pytest.raises(ValueError, match="2 words and 1 tags"):
        span_items([Tagged(["wake", "me"], ["O"])], max_span=5, mask="word")
    with pytest.raises(TrainingError, match="examples is 3, but there are 2"):
        sample_sentences([WAKE, WAKE], 3, 0, "random")


@given(st.integers(0, 1000), st.integers(1, 4))
def test_sampling_nones_keeps_all_slots_and_n_nones_per_sentence(seed, count):
    items = span_items(tagged_sentences(8), max_span=3, mask="word")
    kept = sample_nones(items, count, seed)
    assert [label for label in kept.labels if label] == [label for label in items.labels if label]
    for sentence in range(8):
        total, sampled = (
            sum(label is None for label, of in zip(some.labels, some.sentence, strict=True) if of == sentence)
            for some in (items, kept)
        )
        assert sampled == min(count, total)


@given(st.integers(0, 1000))
def test_a_type_covering_sample_has_all_slot_types(seed):
    sentences = tagged_sentences(60)
    chosen = sample_sentences(sentences, 5, seed, "cover_types")
    assert len(chosen) == 5
    assert slot_types(chosen) == slot_types(sentences) == ("city", "day", "music", "time")


def test_a_sample_depends_only_on_its_seed_and_has_distinct_sentences():
    sentences = [Tagged([str(number)], ["O"]) for number in range(50)]
    first, again, other = (sample_sentences(sentences, 20, seed, "random") for seed in (1, 1, 2))
    assert first == again != other
    assert len({sentence.tokens[0] for sentence in first}) == 20


LABELS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=4, max_size=30).filter(
    lambda labels: len(set(labels)) > 1 and any(labels.count(letter) > 1 for letter in "abc")
)


def drawn(labels, seed=0, **changed):
    usual = {"negatives_per_positive": 2, "max_positive_pairs": 10_000}
    return contrastive_pairs(labels, seed=seed, **(usual | changed))


@given(LABELS, st.sampled_from([1, 2, 4, 8]), st.integers(0, 99))
def test_all_same_type_pairs_are_positive_with_n_negatives_each(labels, ratio, seed):
    pairs = drawn(labels, seed, negatives_per_positive=ratio)
    rows = list(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.is_same.tolist(), strict=True))
    positive = {frozenset((i, j)) for i, j, same in rows if same}
    expected = {frozenset(p) for p in combinations(range(len(labels)), 2) if labels[p[0]] == labels[p[1]] is not None}
    assert positive == expected
    assert sum(not same for _, _, same in rows) == ratio * len(expected)
    assert all(labels[i] is not None and labels[i] != labels[j] for i, j, same in rows if not same)


@given(LABELS, st.sampled_from([2, 4]))
def test_each_item_of_a_positive_pair_gets_half_of_the_negatives(labels, ratio):
    pairs = drawn(labels, negatives_per_positive=ratio)
    ends = np.concatenate([pairs.first[pairs.is_same], pairs.second[pairs.is_same]])
    anchors = pairs.first[~pairs.is_same]
    assert sorted(anchors) == sorted(np.repeat(ends, ratio // 2))


def test_capped_positive_pairs_are_distinct_and_large_ranks_decode_correctly():
    pairs = drawn(["a"] * 40 + ["b"] * 30 + [None], max_positive_pairs=100)
    kept = {(i, j) for i, j, same in zip(pairs.first, pairs.second, pairs.is_same, strict=True) if same}
    assert (len(kept), len(pairs)) == (100, 300)
    pairs = contrastive_pairs(["a"] * 600 + [None], negatives_per_positive=1, max_positive_pairs=1_000_000, seed=0)
    first, second = pairs.first[pairs.is_same], pairs.second[pairs.is_same]
    assert len(np.unique(first * 600 + second)) == 600 * 599 // 2
    assert (first < second).all()
    assert second.max() == 599


def test_negatives_are_equally_likely():
    labels = ["a", "a", "b", None, None, None]
    pairs = drawn(labels * 40)
    negatives = [labels[place % 6] for place in pairs.second[~pairs.is_same] if pairs.is_same.any()]
    anchors = [labels[place % 6] for place in pairs.first[~pairs.is_same]]
    of_a = [negative for negative, anchor in zip(negatives, anchors, strict=True) if anchor == "a"]
    assert abs(of_a.count("b") / len(of_a) - 1 / 4) < 0.02


def test_spans_without_a_pair_or_a_negative_are_refused():
    with pytest.raises(TrainingError, match="no two training spans"):
        drawn(["a", "b", None, None])
    with pytest.raises(TrainingError, match="no negative"):
        drawn(["a", "a"])
    with pytest.raises(ValueError, match="negatives_per_positive must be 1 or even, not 3"):
        TwoSlConfig(negatives_per_positive=3)
