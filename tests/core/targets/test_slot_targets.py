"""Masked utterances, template pairs and parallel mates: examples, loop twins, laws, and the published corpus."""

from itertools import product

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st

from disent_core.storage.tables import SCHEMAS, rows_table
from disent_core.targets import template_pairs as made_of
from disent_core.targets.masking import MaskingConfig, mask_utterances, write_masked
from disent_core.targets.parallel_mates import ParallelMateConfig, parallel_mates
from disent_core.targets.template_pairs import TemplatePairConfig, template_pairs
from disent_core.text import (
    HIDDEN_CLOSE,
    HIDDEN_OPEN,
    MASK,
    SUBWORD_MASK_CLOSE,
    SUBWORD_MASK_OPEN,
    text_key,
    token_spans,
    tokenize,
)


def utterance(text, tags, key="1", split="test", language="en", tokens=None):
    tokens = tokens or tokenize(text, language)
    return worlds.utterance(language, key, text, split=split, slot_tags=tags.split(), tokens=tokens, text_key="0")


def table(*rows):
    return rows_table(rows, "utterances")


def masked(text, tags, language="en", **config):
    (row,) = mask_utterances(table(utterance(text, tags, language=language)), MaskingConfig(**config)).to_pylist()
    return row["template_text"], row["residual_text"]


WAKE = "wake me at five  am today", "O O O B-time I-time B-date"


@pytest.mark.parametrize(
    ("mask", "template", "residual"),
    [
        ("word", f"wake me at {MASK}  {MASK} {MASK}", f"{MASK} {MASK} {MASK} five  am today"),
        ("span", f"wake me at {MASK}", f"{MASK} five  am today"),
        ("delete", "wake me at", "five  am today"),
        ("subword", "wake me at \ue000five  am today\ue001", "\ue000wake me at\ue001 five  am today"),
        ("attention", "wake me at \ue002five  am today\ue003", "\ue002wake me at\ue003 five  am today"),
    ],
)
def test_slots_are_masked_in_the_template_and_all_else_in_the_residual(mask, template, residual):
    assert masked(*WAKE, mask=mask) == (template, residual)


def test_characters_are_masked_in_a_script_without_spaces():
    assert masked("赤い灯", "B-c I-c O", language="ja") == (f"{MASK}{MASK}灯", f"赤い{MASK}")


@pytest.mark.parametrize(
    ("text", "tags", "template"),
    [
        ("dim the red lamp", "O O B-c O", "dim the lamp"),
        ("red lamp", "B-c O", "lamp"),
        ("all red", "O B-c", "all"),
        ("red", "B-c", MASK),
    ],
)
def test_deleting_leaves_one_gap_and_never_nothing(text, tags, template):
    assert masked(text, tags, mask="delete")[0] == template


def test_deleting_a_part_of_a_word_keeps_the_space_after_it():
    row = utterance("am kaltentag hier", "O O B-d O", tokens=["am", "kalten", "tag", "hier"])
    (masked,) = mask_utterances(table(row), MaskingConfig(mask="delete")).to_pylist()
    assert masked["template_text"] == "am kalten hier"


def test_without_slots_the_template_is_the_text_and_the_residual_empty():
    assert masked("good night", "O O") == ("good night", None)
    assert masked("good night", "O O", no_slot_residual="all_masked") == ("good night", f"{MASK} {MASK}")


def test_masked_rows_have_the_keys_of_their_texts_in_order():
    rows = [utterance("red lamp", "B-c O", key="b"), utterance("good night", "O O", key="a")]
    masked = mask_utterances(table(*rows), MaskingConfig())
    assert masked.schema == SCHEMAS["masked_utterances"]
    assert masked["utterance_id"].to_pylist() == ["b", "a"]
    assert masked["template_key"].to_pylist() == [text_key(f"{MASK} lamp"), text_key("good night")]
    assert masked["residual_key"].to_pylist() == [text_key(f"red {MASK}"), None]


few = settings(max_examples=25)
WORDS = st.lists(st.tuples(st.text("ab灯é", min_size=1, max_size=3), st.booleans()), min_size=1, max_size=7)
GAPS = st.lists(st.sampled_from([" ", "  ", "\u3000"]), min_size=8, max_size=8)


def spaced(words, gaps):
    text = "".join(gap + word for (word, _), gap in zip(words, ["", *gaps], strict=False))
    return text, token_spans(text, [word for word, _ in words]), [hidden for _, hidden in words]


@few
@given(WORDS, GAPS)
def test_template_and_residual_masks_partition_the_tokens(words, gaps):
    text, spans, hidden = spaced(words, gaps)
    template = write_masked(text, spans, hidden, "word").split()
    residual = write_masked(text, spans, [not flag for flag in hidden], "word").split()
    for (word, _), in_template, in_residual in zip(words, template, residual, strict=True):
        assert sorted([in_template, in_residual]) == sorted([word, MASK])


MARKS = {"subword": (SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE), "attention": (HIDDEN_OPEN, HIDDEN_CLOSE)}


@few
@given(WORDS, GAPS, st.sampled_from(list(MARKS)))
def test_markers_enclose_each_run_of_masked_words_and_change_nothing_else(words, gaps, mask):
    text, spans, hidden = spaced(words, gaps)
    masked = write_masked(text, spans, hidden, mask)
    before, after = MARKS[mask]
    pieces = masked.replace(after, before).split(before)
    assert " ".join(pieces[1::2]).split() == [word for word, flag in words if flag]
    assert "".join(pieces) == text
    runs = sum(flag and not previous for previous, flag in zip([False, *hidden], hidden, strict=False))
    assert masked.count(before) == masked.count(after) == runs == write_masked(text, spans, hidden, "span").count(MASK)


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


def test_sources_without_slots_or_other_values_are_dropped():
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


@few
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


@few
@given(corpora(), st.integers(1, 30))
def test_if_targets_are_scarce_all_possible_ones_are_generated(rows, n_targets):
    made = pairs(rows, n_targets=n_targets, values="all", dedup=False)
    values = {"B-x": set(), "B-y": set()}
    for row in rows:
        for word, tag in zip(row["tokens"], row["slot_tags"], strict=True):
            values.get(tag, set()).add(word)
    for row in (row for row in rows if row["split"] == "test"):
        slots = [(w, t) for w, t in zip(row["tokens"], row["slot_tags"], strict=True) if t != "O"]
        possible = len(list(product(*(values[tag] - {word} for word, tag in slots))))
        count = sum(pair["source_utterance_id"] == row["utterance_id"] for pair in made)
        assert count == min(possible, n_targets)


@few
@given(corpora(), corpora(), st.data())
def test_an_edit_changes_only_its_targets_and_draws_of_changed_values(rows, others, data):
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
    twin = [["cab"[i], "yx"[j], "pqr"[k]] for i, j, k in ranks]
    assert list(made_of._drawn(choices, orders)) == twin


HASHES = st.integers(0, 5) | st.integers(0, 2**64 - 1)


@given(st.lists(HASHES, min_size=1, max_size=60), st.none() | st.integers(0, 59))
def test_an_order_is_that_of_all_hashes_however_few_are_sorted(hashes, old):
    order = made_of._Order(np.array(hashes, dtype=np.uint64), old if (old or 0) < len(hashes) else None)
    twin = [place for place in sorted(range(len(hashes)), key=hashes.__getitem__) if place != order._old]
    assert [order[rank] for rank in range(len(order))] == twin


def test_two_languages_at_once_are_rejected():
    rows = [utterance("red", "B-c"), utterance("rot", "B-c", language="de")]
    with pytest.raises(ValueError, match=r"one language at a time, found en, de"):
        pairs(rows)


CITIES = [("berlin", "Berlin"), ("munich", "München"), ("cologne", "Köln"), ("vienna", "Wien")]


def weather(cities, *, split="train"):
    """An utterance for each pair of names, in English and in German."""
    english = [
        utterance(f"weather in {city} now", "O O B-city B-time", key=f"{split}{i}", split=split, language="en")
        for i, (city, _) in enumerate(cities)
    ]
    german = [
        utterance(f"jetzt wetter in {city}", "B-time O O B-city", key=f"{split}{i}", split=split, language="de")
        for i, (_, city) in enumerate(cities)
    ]
    return english, german


def mates(source, target, **config):
    return parallel_mates("en-de", table(*source), table(*target), ParallelMateConfig(**config)).to_pylist()


def test_mates_swap_in_values_aligned_in_both_languages():
    first, second = mates(*weather(CITIES[:2]), n_mates=1)
    slot = {"source_old": "berlin", "source_new": "munich", "target_old": "Berlin", "target_new": "München"}
    names = {"corpus": "toy", "pair": "en-de", "split": "train", "utterance_id": "train0", "mate_index": 0}
    source = {"source_language": "en", "source_text": "weather in munich now"}
    target = {"target_language": "de", "target_text": "jetzt wetter in München"}
    assert first == names | source | target | {"replaced_slots": [{"slot": "city"} | slot]}
    assert second["target_text"] == "jetzt wetter in Berlin"


def test_mates_of_an_utterance_differ_and_are_as_many_as_asked_or_as_its_values_allow():
    made = mates(*weather(CITIES), n_mates=2)
    assert [row["mate_index"] for row in made] == [0, 1] * 4
    assert len({(row["utterance_id"], row["target_text"]) for row in made}) == 8
    assert len(mates(*weather(CITIES), n_mates=50)) == 4 * 3


def test_the_values_are_those_of_train_and_test_has_no_mates():
    parts = [weather(CITIES[:2]), weather(CITIES[2:3], split="dev"), weather(CITIES[3:], split="test")]
    source, target = ([row for part in parts for row in part[side]] for side in range(2))
    made = mates(source, target, n_mates=9)
    assert {row["split"] for row in made} == {"train", "dev"}
    assert {slot["source_new"] for row in made for slot in row["replaced_slots"]} == {"berlin", "munich"}


def test_ambiguous_or_one_sided_slot_values_are_neither_replaced_nor_drawn():
    english, german = weather(CITIES[:2])
    english += [utterance("from rome to paris now", "O B-city O B-city B-time", key="2", split="train")]
    german += [utterance("von rom nach paris jetzt", "O B-city O B-city B-time", key="2", split="train", language="de")]
    assert "2" not in {row["utterance_id"] for row in mates(english, german)}
    assert "Rom" not in str(mates(english, german))
    english, german = weather([("berlin", "Berlin"), ("Berlin ", "Bärlin"), ("munich", "München")])
    assert mates(english, german, n_mates=1)[0]["target_text"] == "jetzt wetter in München"
    english, german = weather(CITIES[:3])
    assert {row["utterance_id"] for row in mates(english, german[:2])} == {"train0", "train1"}


CITY_PAIRS = st.lists(st.sampled_from([(a, b.upper()) for a, b in product("abcd", "vwxy")]), min_size=1, max_size=8)


@few
@given(CITY_PAIRS, st.integers(0, 2), st.integers(1, 4))
def test_mates_are_translations_of_train_in_every_slot(pairs, seed, n_mates):
    for row in mates(*weather(pairs), seed=seed, n_mates=n_mates):
        old = pairs[int(row["utterance_id"].removeprefix("train"))]
        new = (row["source_text"].split()[2], row["target_text"].split()[3])
        assert new in pairs
        assert new[0] != old[0]
        assert new[1] != old[1]


@few
@given(CITY_PAIRS, st.integers(0, 2))
def test_another_utterance_changes_only_the_mates_that_draw_its_values(pairs, seed):
    new = ("newtown", "Neustadt")
    before = {row["utterance_id"]: row for row in mates(*weather(pairs), seed=seed, n_mates=1)}
    for row in mates(*weather([*pairs, new]), seed=seed, n_mates=1):
        if row["utterance_id"] in before and row["replaced_slots"][0]["source_new"] != "newtown":
            assert row == before[row["utterance_id"]]


def test_mates_drawn_by_the_source_are_translations_of_each_other_in_every_language():
    english, german = weather(CITIES)
    to_french = {city: name for (city, _), name in zip(CITIES, ("Berlin", "Munich", "Cologne", "Vienne"), strict=True)}
    french = [
        utterance(f"meteo a {to_french[city]}", "O O B-city", key=f"train{i}", split="train", language="fr")
        for i, (city, _) in enumerate(CITIES)
    ]
    of_german = mates(english, german, draw="by_source")
    of_french = parallel_mates(
        "en-fr", table(*english), table(*french), ParallelMateConfig(draw="by_source")
    ).to_pylist()
    texts = {(row["utterance_id"], row["mate_index"]): row["source_text"] for row in of_german}
    assert len(texts) == 8
    assert texts == {(row["utterance_id"], row["mate_index"]): row["source_text"] for row in of_french}
    german_of = dict(CITIES)
    for row in of_german:
        assert german_of[row["source_text"].split()[2]] in row["target_text"]


def test_a_missing_target_slot_drops_only_its_mates():
    english, german = weather(CITIES)
    everything = mates(english, german, draw="by_source")
    german[1] = utterance("jetzt wetter", "B-time O", key="train1", split="train", language="de")
    fewer = mates(english, german, draw="by_source")
    has_lost = {(row["utterance_id"], row["mate_index"]) for row in everything if row not in fewer}
    assert has_lost == {
        (row["utterance_id"], row["mate_index"])
        for row in everything
        if row["utterance_id"] == "train1" or "munich" in row["source_text"]
    }
    assert all(row in everything for row in fewer)


def test_the_default_mate_draw_is_not_in_the_fingerprint():
    assert "draw" not in repr(ParallelMateConfig())
