"""What methods need: fingerprints that see no more than is read, and the texts to encode."""

import pytest
from language_tables import SPLITS, aligned, language

from disent_core.lineage.embeddings import texts_to_encode
from disent_core.storage.tables import rows_table
from disent_core.text import text_key
from disent_core.training.needs import Need, training_fingerprint

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


def test_a_training_fingerprint_is_blind_to_pairs_without_masked_targets_where_they_are_needed_and_to_states():
    bare = with_value(with_value(aligned(), 0, "source_template_key", None), 0, "source_residual_key", None)
    assert training_fingerprint(bare, MASKED) == training_fingerprint(aligned().slice(1), MASKED)
    assert training_fingerprint(bare, NO_NEED) == training_fingerprint(aligned(), NO_NEED)
    assert training_fingerprint(aligned(), frozenset({Need.TOKEN_STATES})) == training_fingerprint(aligned(), NO_NEED)


@pytest.mark.parametrize("column", ["source_key", "target_residual_key", "source_template_key"])
def test_a_training_fingerprint_sees_dev_rows_and_is_blind_to_test_rows(column):
    changed = with_value(aligned(), 3, column, "k")
    assert training_fingerprint(changed, EVERYTHING) == training_fingerprint(aligned(), EVERYTHING)
    assert training_fingerprint(aligned().slice(0, 3), EVERYTHING) == training_fingerprint(aligned(), EVERYTHING)
    of_dev = with_value(aligned(), 2, column, "k")
    assert training_fingerprint(of_dev, EVERYTHING) != training_fingerprint(aligned(), EVERYTHING)


# --- texts to encode --------------------------------------------------------------------------------------


def template_pairs(*texts):
    row = {"corpus": "toy", "language": "en", "split": "test", "source_utterance_id": "4", "replaced_slots": []}
    return rows_table(
        [row | {"target_index": i, "source_text": "en text 4", "target_text": text} for i, text in enumerate(texts)],
        "template_pairs",
    )


def plan(needs, pairs=()):
    """Texts by key, and which of them need states."""
    tables = language("en")
    found = texts_to_encode([tables.utterances, tables.utterances], [tables.masked, tables.masked], pairs, [], needs)
    texts = dict(zip(found.keys.astype(str).tolist(), found.column.to_pylist(), strict=True))
    return texts, {texts[key] for key in found.keys[found.with_states].astype(str).tolist()}


PLAIN = {f"en text {i}" for i in SPLITS}


def test_texts_are_distinct_and_under_their_own_key():
    found, _ = plan(EVERYTHING, [template_pairs("a new text", "en text 1", "a new text")])
    assert all(key == text_key(text) for key, text in found.items())
    assert set(found.values()) == PLAIN | {"a new text", "en text <mask>", "en <mask> one", "en <mask> three"}


@pytest.mark.parametrize("needs", [NO_NEED, POOL, frozenset({Need.TOKEN_STATES})])
def test_masked_texts_are_encoded_only_where_a_method_needs_them(needs):
    assert set(plan(needs)[0].values()) == PLAIN


def test_states_are_asked_of_utterances_and_template_pairs_but_not_of_masked_texts():
    assert plan(EVERYTHING, [template_pairs("a new text")])[1] == PLAIN | {"a new text"}
    assert plan(MASKED)[1] == set()


def test_every_training_text_of_a_pair_is_planned_and_of_nothing_none():
    assert len(texts_to_encode([], [], [], [], EVERYTHING)) == 0
    table = aligned()
    found, _ = plan(EVERYTHING)
    rows = [row for row in table.to_pylist() if row["split"] != "test"]
    wanted = {row[f"source_{what}key"] for row in rows for what in ("", "template_", "residual_")} - {None}
    assert wanted <= set(found)
