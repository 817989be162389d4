"""What methods need: fingerprints that see no more than is read, and the texts to encode."""

import pytest
from language_tables import SPLITS, aligned, language

from disent_core.storage.tables import rows_table
from disent_core.text import text_key
from disent_core.training.needs import Need, texts_to_encode, training_fingerprint

EVERYTHING = frozenset(Need)


# --- fingerprints -----------------------------------------------------------------------------------------


def with_value(table, row, column, value):
    rows = table.to_pylist()
    assert rows[row][column] != value
    rows[row][column] = value
    return rows_table(rows, "aligned_pairs")


NO_NEED = frozenset()
MASKED, POOL = frozenset({Need.MASKED_TARGETS}), frozenset({Need.NEGATIVE_POOL})


@pytest.mark.parametrize(
    ("column", "value", "read_by"),
    [
        ("source_key", "k", [NO_NEED, MASKED, POOL, EVERYTHING]),
        ("target_language", "fr", [NO_NEED, MASKED, POOL, EVERYTHING]),
        ("target_template_key", "k", [MASKED, EVERYTHING]),
        ("source_residual_key", "k", [MASKED, EVERYTHING]),
        ("source_is_negative", False, [POOL, EVERYTHING]),
    ],
)
def test_a_training_fingerprint_sees_the_columns_that_the_method_needs(column, value, read_by):
    before, after = aligned(), with_value(aligned(), 0, column, value)
    for needs in (NO_NEED, MASKED, POOL, EVERYTHING):
        same = training_fingerprint(before, needs) == training_fingerprint(after, needs)
        assert same == (needs not in read_by), needs


def test_a_training_fingerprint_with_masked_targets_is_blind_to_pairs_without_them():
    bare = with_value(with_value(aligned(), 0, "source_template_key", None), 0, "source_residual_key", None)
    assert training_fingerprint(bare, MASKED) == training_fingerprint(aligned().slice(1), MASKED)
    assert training_fingerprint(bare, NO_NEED) == training_fingerprint(aligned(), NO_NEED)


def test_a_training_fingerprint_does_not_see_whether_token_states_are_needed():
    assert training_fingerprint(aligned(), frozenset({Need.TOKEN_STATES})) == training_fingerprint(aligned(), NO_NEED)


@pytest.mark.parametrize("column", ["source_key", "target_residual_key", "source_template_key"])
def test_a_training_fingerprint_is_blind_to_test_rows(column):
    changed = with_value(aligned(), 3, column, "k")
    assert training_fingerprint(changed, EVERYTHING) == training_fingerprint(aligned(), EVERYTHING)
    assert training_fingerprint(aligned().slice(0, 3), EVERYTHING) == training_fingerprint(aligned(), EVERYTHING)


def test_a_training_fingerprint_sees_dev_rows():
    changed = with_value(aligned(), 2, "source_key", "k")
    assert training_fingerprint(changed, NO_NEED) != training_fingerprint(aligned(), NO_NEED)


# --- texts to encode --------------------------------------------------------------------------------------


def template_pairs(*texts):
    row = {"corpus": "toy", "language": "en", "split": "test", "source_utterance_id": "4", "replaced_slots": []}
    return rows_table(
        [row | {"target_index": i, "source_text": "en text 4", "target_text": text} for i, text in enumerate(texts)],
        "template_pairs",
    )


def plan(needs, pairs=()):
    tables = language("en")
    return texts_to_encode([tables.utterances, tables.utterances], [tables.masked, tables.masked], pairs, [], needs)


PLAIN = {f"en text {i}" for i in SPLITS}


def test_texts_are_distinct_and_under_their_own_key():
    found = plan(EVERYTHING, [template_pairs("a new text", "en text 1", "a new text")])
    assert all(key == text_key(text) for key, text in found.texts.items())
    assert set(found.texts.values()) == PLAIN | {"a new text", "en text <mask>", "en <mask> one", "en <mask> three"}


@pytest.mark.parametrize("needs", [NO_NEED, POOL, frozenset({Need.TOKEN_STATES})])
def test_masked_texts_are_encoded_only_where_a_method_needs_them(needs):
    assert set(plan(needs).texts.values()) == PLAIN


def test_masked_texts_of_the_test_split_are_never_encoded():
    assert "en <mask> four" not in plan(EVERYTHING).texts.values()


def test_states_are_asked_of_utterances_and_template_pairs_but_not_of_masked_texts():
    found = plan(EVERYTHING, [template_pairs("a new text")])
    assert {found.texts[key] for key in found.state_keys} == PLAIN | {"a new text"}


def test_states_are_asked_of_nothing_where_no_method_needs_them():
    assert plan(MASKED).state_keys == frozenset()


def test_nothing_to_encode_is_an_empty_plan():
    assert texts_to_encode([], [], [], [], EVERYTHING).texts == {}


def test_every_training_text_of_a_pair_is_planned():
    table = aligned()
    found = plan(EVERYTHING).texts
    rows = [row for row in table.to_pylist() if row["split"] != "test"]
    wanted = {row[f"source_{what}key"] for row in rows for what in ("", "template_", "residual_")} - {None}
    assert wanted <= set(found)
