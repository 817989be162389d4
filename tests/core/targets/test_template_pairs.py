"""Template pairs: examples, loop twins, laws, and the published corpus."""

from itertools import product

import numpy as np
import pytest
from annotated import REAL, needs_real, read, table, utterance
from hypothesis import given
from hypothesis import strategies as st

from disent_core.corpora.annotation import tagged_slots
from disent_core.targets import template_pairs as made_of
from disent_core.targets.template_pairs import TemplatePairConfig, template_pairs
from disent_core.text import normalise


def lamps(*colours, split="test", start=0):
    return [
        utterance(f"dim the {colour} lamp", "O O B-color O", key=f"{split}{start + i}", split=split)
        for i, colour in enumerate(colours)
    ]


def pairs(rows, **config):
    return template_pairs(table(*rows), TemplatePairConfig(**config)).to_pylist()


def test_every_slot_value_is_replaced_by_another_of_its_type():
    rows = [
        utterance("dim red lamp now", "O B-color O B-time", key="1"),
        utterance("dim blue lamp today", "O B-color O B-time", key="2"),
    ]
    first, second = pairs(rows, n_targets=1)
    source = {"corpus": "toy", "language": "en", "split": "test", "source_utterance_id": "1", "target_index": 0}
    slots = [{"slot": "color", "old": "red", "new": "blue"}, {"slot": "time", "old": "now", "new": "today"}]
    texts = {"source_text": "dim red lamp now", "target_text": "dim blue lamp today"}
    assert first == source | texts | {"replaced_slots": slots}
    assert second["target_text"] == "dim red lamp now"


def test_characters_are_replaced_without_spaces_in_a_script_without_them():
    rows = [
        utterance("赤い灯", "B-c I-c O", key="1", language="ja"),
        utterance("青灯", "B-c O", key="2", language="ja"),
    ]
    assert [row["target_text"] for row in pairs(rows)] == ["青灯", "赤い灯"]


def test_a_target_text_is_used_once_with_dedup():
    rows = pairs(lamps("red", "blue", "green", "pink"), n_targets=2)
    texts = [row["target_text"] for row in rows]
    assert len(set(texts)) == len(texts) == 4
    assert len(pairs(lamps("red", "blue", "green", "pink"), n_targets=2, dedup=False)) == 8


def test_a_source_without_other_values_is_dropped_and_one_without_slot_is_no_source():
    assert pairs([*lamps("red", "Red"), utterance("good night", "O O", key="n")]) == []


def test_values_differ_in_more_than_case_and_spacing():
    rows = [*lamps("red", "RED"), *lamps("blue", start=2)]
    assert [row["replaced_slots"][0]["new"] for row in pairs(rows, dedup=False)][:2] == ["blue", "blue"]


def test_test_values_come_first_for_test_and_train_pairs_never_draw_one():
    train = lamps("green", split="train")
    assert {row["replaced_slots"][0]["new"] for row in pairs([*lamps("red", "blue"), *train])} == {"red", "blue"}
    assert [row["replaced_slots"][0]["new"] for row in pairs([*lamps("red"), *train])] == ["green"]
    rows = [*lamps("red", "blue"), *lamps("green", "pink", split="train")]
    made = pairs(rows, splits=("train",), values="train")
    assert {row["replaced_slots"][0]["new"] for row in made} == {"green", "pink"}
    assert {row["split"] for row in made} == {"train"}
    assert pairs([*lamps("red"), *lamps("green", split="train")], splits=("train",), values="train") == []


@st.composite
def corpora(draw):
    """Utterances of one or two slots; ids tell them apart, values repeat."""
    rows = []
    for number in range(draw(st.integers(1, 7))):
        values = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=2))
        text, tags = "go " + " or ".join(values), "O " + " O ".join(["B-x", "B-y"][: len(values)])
        split = draw(st.sampled_from(["test", "train"]))
        rows.append(utterance(text, tags, key=str(number), split=split, tokens=text.split()))
    return rows


@given(corpora(), st.integers(0, 3), st.integers(1, 4))
def test_targets_differ_from_their_source_and_from_each_other(rows, seed, n_targets):
    made = pairs(rows, seed=seed, n_targets=n_targets)
    texts = [row["target_text"] for row in made]
    assert len(set(texts)) == len(texts)
    assert all(slot["old"] != slot["new"] for row in made for slot in row["replaced_slots"])
    for row in made:
        news = iter(slot["new"] for slot in row["replaced_slots"])
        words = row["source_text"].split()
        twin = [words[0], *(word if place % 2 else next(news) for place, word in enumerate(words[1:]))]
        assert row["target_text"].split() == twin


@given(corpora(), st.integers(1, 30))
def test_targets_are_all_that_exist_where_fewer_are_made(rows, n_targets):
    made = pairs(rows, n_targets=n_targets, values="all", dedup=False)
    values = {"B-x": set(), "B-y": set()}
    for row in rows:
        for word, tag in zip(row["tokens"], row["slot_tags"], strict=True):
            values.get(tag, set()).add(word)
    for row in (row for row in rows if row["split"] == "test"):
        slots = [(w, t) for w, t in zip(row["tokens"], row["slot_tags"], strict=True) if t != "O"]
        possible = len(list(product(*(values[tag] - {word} for word, tag in slots))))
        found = sum(pair["source_utterance_id"] == row["utterance_id"] for pair in made)
        assert found == min(possible, n_targets)


@given(corpora(), corpora(), st.data())
def test_an_edit_changes_only_targets_of_the_edited_and_draws_of_gone_or_new_values(rows, others, data):
    place = data.draw(st.integers(0, len(rows) - 1))
    new = data.draw(st.sampled_from(others)) | {"utterance_id": str(place)}
    edited = [new if number == place else row for number, row in enumerate(rows)]
    moved = _values(rows) ^ _values(edited)
    before, after = (_by_source(pairs(some, dedup=False, values="all")) for some in (rows, edited))
    for key in {row["utterance_id"] for row in rows} - {str(place)}:
        made = [*before.get(key, []), *after.get(key, [])]
        drawn = {(slot["slot"], slot["new"]) for row in made for slot in row["replaced_slots"]}
        assert before.get(key) == after.get(key) or drawn & moved


def _values(rows):
    return {(tag[2:], w) for row in rows for w, tag in zip(row["tokens"], row["slot_tags"], strict=True) if tag != "O"}


def _by_source(rows):
    by_source = {}
    for row in rows:
        by_source.setdefault(row["source_utterance_id"], []).append(row)
    return by_source


def test_draws_spread_evenly_depend_on_the_seed_and_are_the_same_in_every_version():
    rows = lamps(*(f"colour{number}" for number in range(20)))
    assert pairs(rows, seed=0) != pairs(rows, seed=1)
    rows = pairs(lamps("red", "blue", "green", "pink", "grey"), n_targets=2)
    assert [row["replaced_slots"][0]["new"] for row in rows[:4]] == ["blue", "grey", "green", "pink"]
    rows = lamps(*(f"colour{number}" for number in range(200)))
    new = [row["replaced_slots"][0]["new"] for row in pairs(rows, n_targets=1, dedup=False)]
    assert len(set(new)) == pytest.approx(200 * (1 - 1 / 2.718), abs=20)


def test_combinations_are_drawn_by_the_sum_of_their_ranks():
    choices = [(made_of._Values.of(set(values)), None) for values in ("abc", "xy", "pqr")]
    places = ([2, 0, 1], [1, 0], [0, 1, 2])
    orders = [made_of._Order(np.argsort(some).astype(np.uint64), None) for some in places]
    ranks = sorted(product(range(3), range(2), range(3)), key=lambda some: (sum(some), some))
    twin = [["cab"[one], "yx"[two], "pqr"[three]] for one, two, three in ranks]
    assert list(made_of._drawn(choices, orders)) == twin


HASHES = st.integers(0, 5) | st.integers(0, 2**64 - 1)


@given(st.lists(HASHES, min_size=1, max_size=60), st.none() | st.integers(0, 59))
def test_an_order_is_that_of_all_hashes_however_few_are_sorted(hashes, old):
    order = made_of._Order(np.array(hashes, dtype=np.uint64), old if (old or 0) < len(hashes) else None)
    twin = [place for place in sorted(range(len(hashes)), key=hashes.__getitem__) if place != order._old]
    assert [order[rank] for rank in range(len(order))] == twin


def test_two_languages_at_once_are_rejected():
    rows = [utterance("red", "B-c"), utterance("rot", "B-c", language="de")]
    with pytest.raises(ValueError, match=r"one language at a time, found \['en', 'de'\]"):
        pairs(rows)


# --- the published corpus ---


SOURCES = {"en": 1_979, "de": 1_978, "ja": 1_967}


def test_published_template_pairs_are_complete_and_distinct(published):
    language, utterances = published
    rows = template_pairs(utterances, TemplatePairConfig())
    texts = rows["target_text"].to_pylist()
    assert len(set(texts)) == len(texts)
    assert rows["target_index"].to_pylist().count(0) == SOURCES[language]
    assert all(text == normalise(text) for text in texts)


@needs_real
def test_a_single_edit_of_the_published_corpus_changes_few_targets():
    rows = [row for row in read(REAL, "en-US").to_pylist() if row["split"] == "test"]
    place = next(number for number, row in enumerate(rows) if tagged_slots(row["slot_tags"]))
    new = utterance("x", "B-date", key=rows[place]["utterance_id"]) | {"corpus": "massive"}
    edited = [*rows[:place], new, *rows[place + 1 :]]
    before, after = (_by_source(pairs(some)) for some in (rows, edited))
    changed = sum(before[key] != after.get(key) for key in before)
    assert 1 <= changed < 40
