"""Masked utterances: examples, laws, and the published corpus."""

import pytest
from annotated import table, utterance
from hypothesis import given
from hypothesis import strategies as st

from disent_core.storage.tables import SCHEMAS
from disent_core.targets.masking import MaskingConfig, mask_utterances, write_masked
from disent_core.text import (
    HIDDEN_CLOSE,
    HIDDEN_OPEN,
    MASK,
    SUBWORD_MASK_CLOSE,
    SUBWORD_MASK_OPEN,
    is_unspaced,
    text_key,
    token_spans,
)


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
    (masked,) = mask_utterances(table(row), MaskingConfig(mask="delete")).to_pylist()
    assert masked["template_text"] == "am kalten hier"


def test_without_slot_the_template_is_the_text_and_the_residual_is_none_or_all_masked():
    assert masked("good night", "O O") == ("good night", None)
    assert masked("good night", "O O", no_slot_residual="all_masked") == ("good night", f"{MASK} {MASK}")


def test_keys_are_those_of_the_texts_and_rows_keep_their_order():
    rows = [utterance("red lamp", "B-c O", key="b"), utterance("good night", "O O", key="a")]
    masked = mask_utterances(table(*rows), MaskingConfig())
    assert masked.schema == SCHEMAS["masked_utterances"]
    assert masked["utterance_id"].to_pylist() == ["b", "a"]
    assert masked["template_key"].to_pylist() == [text_key(f"{MASK} lamp"), text_key("good night")]
    assert masked["residual_key"].to_pylist() == [text_key(f"red {MASK}"), None]


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
    for (word, _), in_template, in_residual in zip(words, template, residual, strict=True):
        assert sorted([in_template, in_residual]) == sorted([word, MASK])


MARKS = {"subword": (SUBWORD_MASK_OPEN, SUBWORD_MASK_CLOSE), "attention": (HIDDEN_OPEN, HIDDEN_CLOSE)}


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


@given(WORDS, GAPS)
def test_deleting_equals_a_loop_over_words(words, gaps):
    text, spans, hidden = spaced(words, gaps)
    kept = [word for word, flag in words if not flag]
    assert write_masked(text, spans, hidden, "delete").split() == (kept or [MASK])


# --- the published corpus ---


def test_published_utterances_are_masked_token_by_token(published):
    language, utterances = published
    masked = mask_utterances(utterances, MaskingConfig())
    for row, out in zip(utterances.to_pylist(), masked.to_pylist(), strict=True):
        masks = sum(tag != "O" for tag in row["slot_tags"])
        assert out["template_text"].count(MASK) == masks
        assert (out["residual_text"] is None) == (masks == 0)
        if out["residual_text"] is not None:
            assert out["residual_text"].count(MASK) == len(row["tokens"]) - masks
        if not is_unspaced(language):
            assert len(out["template_text"].split(" ")) == len(row["text"].split(" "))
