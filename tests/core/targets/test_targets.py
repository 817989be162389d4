"""Masked utterances and template pairs: examples, loop twins, laws, and the published corpus."""

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from places import needs_corpus, real_corpus, why_absent

from disent_core.corpora.annotation import tagged_slots
from disent_core.corpora.formats.massive import read_utterances
from disent_core.storage.tables import SCHEMAS, rows_table
from disent_core.targets import masking
from disent_core.targets.masking import (
    MaskingConfig,
    TemplatePairConfig,
    mask_utterances,
    template_pairs,
    write_masked,
)
from disent_core.text import (
    HIDDEN_CLOSE,
    HIDDEN_OPEN,
    MARKERS,
    MASK,
    SUBWORD_MASK_CLOSE,
    SUBWORD_MASK_OPEN,
    is_unspaced,
    normalise,
    text_key,
    token_spans,
    tokenize,
)

REAL = real_corpus("massive/amazon-massive-dataset-1.1.tar.gz")
needs_real = needs_corpus(REAL)


def utterance(text, tags, key="1", split="test", language="en", **changes):
    row = {"corpus": "toy", "language": language, "utterance_id": key, "split": split, "text": text}
    row |= {"domain": None, "intent": None, "slot_tags": tags.split(), "text_key": "0"}
    return row | {"tokens": changes.get("tokens") or tokenize(text, language)}


def table(*rows):
    return rows_table(rows, "utterances")


def masked(text, tags, language="en", **config):
    (row,) = mask_utterances(table(utterance(text, tags, language=language)), MaskingConfig(**config)).to_pylist()
    return row["template_text"], row["residual_text"]


# --- masking ---

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
    (made,) = mask_utterances(table(row), MaskingConfig(mask="delete")).to_pylist()
    assert made["template_text"] == "am kalten hier"


def test_without_slot_the_template_is_the_text_and_the_residual_is_none_or_all_masked():
    assert masked("good night", "O O") == ("good night", None)
    assert masked("good night", "O O", no_slot_residual="all_masked") == ("good night", f"{MASK} {MASK}")


def test_an_utterance_that_is_all_slot_is_masked_in_the_template_and_plain_in_the_residual():
    assert masked("red blue", "B-c B-c") == (f"{MASK} {MASK}", "red blue")


def test_keys_are_those_of_the_texts_and_rows_keep_their_order():
    rows = [utterance("red lamp", "B-c O", key="b"), utterance("good night", "O O", key="a")]
    made = mask_utterances(table(*rows), MaskingConfig())
    assert made.schema == SCHEMAS["masked_utterances"]
    assert made["utterance_id"].to_pylist() == ["b", "a"]
    assert made["template_key"].to_pylist() == [text_key(f"{MASK} lamp"), text_key("good night")]
    assert made["residual_key"].to_pylist() == [text_key(f"red {MASK}"), None]


WORDS = st.lists(st.tuples(st.text("ab灯é", min_size=1, max_size=3), st.booleans()), min_size=1, max_size=7)
GAPS = st.lists(st.sampled_from([" ", "  ", "\u3000"]), min_size=8, max_size=8)


def spaced(words, gaps):
    text = "".join(gap + word for (word, _), gap in zip(words, ["", *gaps], strict=False))
    return text, token_spans(text, [word for word, _ in words]), [hidden for _, hidden in words]


@given(WORDS, GAPS)
def test_template_and_residual_masks_partition_the_tokens(words, gaps):
    text, spans, hidden = spaced(words, gaps)
    template = write_masked(text, spans, hidden, "word").split()
    residual = write_masked(text, spans, [not flag for flag in hidden], "word").split()
    for (word, _), one, other in zip(words, template, residual, strict=True):
        assert sorted([one, other]) == sorted([word, MASK])


@given(WORDS, GAPS)
def test_masks_are_as_many_as_masked_words_or_runs(words, gaps):
    text, spans, hidden = spaced(words, gaps)
    assert write_masked(text, spans, hidden, "word").count(MASK) == sum(hidden)
    runs = sum(flag and not before for before, flag in zip([False, *hidden], hidden, strict=False))
    assert write_masked(text, spans, hidden, "span").count(MASK) == runs
    assert write_masked(text, spans, hidden, "subword").count(SUBWORD_MASK_OPEN) == runs


@given(WORDS, GAPS, st.sampled_from(["subword", "attention"]))
def test_without_its_markers_a_marked_text_is_the_original(words, gaps, mask):
    text, spans, hidden = spaced(words, gaps)
    made = write_masked(text, spans, hidden, mask)
    assert "".join(character for character in made if character not in MARKERS) == text


@given(WORDS, GAPS)
def test_markers_enclose_the_masked_words_and_no_other(words, gaps):
    text, spans, hidden = spaced(words, gaps)
    pieces = write_masked(text, spans, hidden, "attention").replace(HIDDEN_CLOSE, HIDDEN_OPEN).split(HIDDEN_OPEN)
    assert " ".join(pieces[1::2]).split() == [word for word, flag in words if flag]
    made = write_masked(text, spans, hidden, "subword")
    assert made.count(SUBWORD_MASK_OPEN) == made.count(SUBWORD_MASK_CLOSE)


@given(WORDS, GAPS)
def test_deleting_equals_a_loop_over_words(words, gaps):
    text, spans, hidden = spaced(words, gaps)
    kept = [word for word, flag in words if not flag]
    assert write_masked(text, spans, hidden, "delete").split() == (kept or [MASK])


@pytest.mark.parametrize("wrong", [{"mask": "token"}, {"no_slot_residual": "none"}])
def test_masking_rejects_unknown_choices(wrong):
    with pytest.raises((ValueError, TypeCheckError), match=r"must be one of .*found|Type-check"):
        MaskingConfig(**wrong)


# --- template pairs ---


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
    assert first == {
        "corpus": "toy",
        "language": "en",
        "split": "test",
        "source_utterance_id": "1",
        "target_index": 0,
        "source_text": "dim red lamp now",
        "target_text": "dim blue lamp today",
        "replaced_slots": [
            {"slot": "color", "old": "red", "new": "blue"},
            {"slot": "time", "old": "now", "new": "today"},
        ],
    }
    assert second["target_text"] == "dim red lamp now"


def test_characters_are_replaced_without_spaces_in_a_script_without_them():
    rows = [
        utterance("赤い灯", "B-c I-c O", key="1", language="ja"),
        utterance("青灯", "B-c O", key="2", language="ja"),
    ]
    assert [row["target_text"] for row in pairs(rows)] == ["青灯", "赤い灯"]


def test_a_source_has_as_many_targets_as_asked_or_as_its_values_allow():
    rows = lamps("red", "blue", "green")
    made = pairs(rows, n_targets=5, dedup=False)
    assert [row["target_index"] for row in made] == [0, 1] * 3
    assert len(pairs(rows, n_targets=1)) == 3


def test_a_target_text_is_used_once_with_dedup():
    made = pairs(lamps("red", "blue", "green", "pink"), n_targets=2)
    texts = [row["target_text"] for row in made]
    assert len(set(texts)) == len(texts) == 4
    assert len(pairs(lamps("red", "blue", "green", "pink"), n_targets=2, dedup=False)) == 8


def test_a_source_without_other_values_is_dropped_and_one_without_slot_is_no_source():
    assert pairs([*lamps("red", "Red"), utterance("good night", "O O", key="n")]) == []


def test_values_differ_in_more_than_case_and_spacing():
    rows = [*lamps("red", "RED"), *lamps("blue", start=2)]
    assert [row["replaced_slots"][0]["new"] for row in pairs(rows, dedup=False)][:2] == ["blue", "blue"]


def test_test_values_come_first_and_train_values_where_there_is_no_other():
    train = lamps("green", split="train")
    assert {row["replaced_slots"][0]["new"] for row in pairs([*lamps("red", "blue"), *train])} == {"red", "blue"}
    assert [row["replaced_slots"][0]["new"] for row in pairs([*lamps("red"), *train])] == ["green"]


def test_train_pairs_never_draw_a_test_value():
    rows = [*lamps("red", "blue"), *lamps("green", "pink", split="train")]
    made = pairs(rows, splits=("train",), values="train")
    assert {row["replaced_slots"][0]["new"] for row in made} == {"green", "pink"}
    assert {row["split"] for row in made} == {"train"}
    assert pairs([*lamps("red"), *lamps("green", split="train")], splits=("train",), values="train") == []


def test_all_values_are_drawn_from_every_split():
    rows = [*lamps("red"), *lamps("green", split="train"), *lamps("pink", split="dev")]
    assert {row["replaced_slots"][0]["new"] for row in pairs(rows, values="all")} == {"green", "pink"}


COLOURS = st.lists(st.sampled_from(["red", "blue", "Blue", "green", "pink"]), min_size=1, max_size=6)


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


def _by_source(made):
    by_source = {}
    for row in made:
        by_source.setdefault(row["source_utterance_id"], []).append(row)
    return by_source


@given(corpora())
def test_equal_seeds_give_equal_pairs(rows):
    assert pairs(rows, seed=3) == pairs(rows, seed=3)


def test_other_seeds_give_other_pairs():
    rows = lamps(*(f"colour{number}" for number in range(20)))
    assert pairs(rows, seed=0) != pairs(rows, seed=1)


def test_draws_are_the_same_in_every_version():
    made = pairs(lamps("red", "blue", "green", "pink", "grey"), n_targets=2)
    assert [row["replaced_slots"][0]["new"] for row in made[:4]] == ["blue", "grey", "green", "pink"]


def test_draws_spread_over_the_values_evenly():
    rows = lamps(*(f"colour{number}" for number in range(200)))
    new = [row["replaced_slots"][0]["new"] for row in pairs(rows, n_targets=1, dedup=False)]
    assert len(set(new)) == pytest.approx(200 * (1 - 1 / 2.718), abs=20)


def test_combinations_are_drawn_by_the_sum_of_their_ranks():
    choices = [(masking._Values.of(set(values)), None) for values in ("abc", "xy", "pqr")]
    orders = [np.array(places) for places in ([2, 0, 1], [1, 0], [0, 1, 2])]
    ranks = sorted(product(range(3), range(2), range(3)), key=lambda some: (sum(some), some))
    twin = [["cab"[one], "yx"[two], "pqr"[three]] for one, two, three in ranks]
    assert list(masking._drawn(choices, orders)) == twin


def test_two_languages_at_once_are_rejected():
    rows = [utterance("red", "B-c"), utterance("rot", "B-c", language="de")]
    with pytest.raises(ValueError, match=r"one language at a time, found \['en', 'de'\]"):
        pairs(rows)


@pytest.mark.parametrize("wrong", [{"values": "dev"}, {"n_targets": 0}, {"splits": ()}])
def test_pair_config_rejects_values_out_of_range(wrong):
    with pytest.raises((ValueError, TypeCheckError), match=r"found|Type-check"):
        TemplatePairConfig(**wrong)


# --- the published corpus ---


def read(path, locale):
    return read_utterances(path, locale, corpus="massive", language=locale[:2])


@pytest.fixture(scope="module", params=["en-US", "de-DE", "ja-JP"])
def published(request):
    if not REAL.is_file():
        pytest.skip(why_absent(REAL))
    language = request.param[:2]
    return language, read(REAL, request.param)


def test_published_utterances_are_masked_token_by_token(published):
    language, utterances = published
    made = mask_utterances(utterances, MaskingConfig())
    for row, out in zip(utterances.to_pylist(), made.to_pylist(), strict=True):
        masks = sum(tag != "O" for tag in row["slot_tags"])
        assert out["template_text"].count(MASK) == masks
        assert (out["residual_text"] is None) == (masks == 0)
        if out["residual_text"] is not None:
            assert out["residual_text"].count(MASK) == len(row["tokens"]) - masks
        if not is_unspaced(language):
            assert len(out["template_text"].split(" ")) == len(row["text"].split(" "))


SOURCES = {"en": 1_979, "de": 1_978, "ja": 1_967}


def test_published_template_pairs_are_complete_distinct_and_quick(published):
    language, utterances = published
    began = time.monotonic()
    made = template_pairs(utterances, TemplatePairConfig())
    assert time.monotonic() - began < 6
    texts = made["target_text"].to_pylist()
    assert len(set(texts)) == len(texts)
    assert made["target_index"].to_pylist().count(0) == SOURCES[language]
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
