"""Addresses of what a head trains on: the right columns, and fingerprints that see no more than is read."""

import pytest

from disent_core.errors import AlignmentError
from disent_core.heads.contract import Need
from disent_core.storage.tables import SCHEMAS, rows_table
from disent_core.targets.aligned_pairs import LanguageTables, aligned_pairs, texts_to_encode, training_fingerprint
from disent_core.text import text_key

EVERYTHING = frozenset(Need)
SPLITS = {"1": "train", "2": "train", "3": "dev", "4": "test"}
RESIDUALS = {"1": "<mask> one", "2": None, "3": "<mask> three", "4": "<mask> four"}


def language(name, order="1234", pool="13", splits=SPLITS):
    """Utterances of one language, in an order of their own."""
    base = {"corpus": "toy", "language": name}
    utterances = [
        base
        | {"utterance_id": i, "split": splits[i], "domain": None, "intent": None, "text": f"{name} text {i}"}
        | {"tokens": [name, "text", i], "slot_tags": ["O"] * 3, "text_key": text_key(f"{name} text {i}")}
        for i in order
    ]
    masked = []
    for i in sorted(order, reverse=True):  # in another order than the utterances
        template, residual = f"{name} text <mask>", RESIDUALS[i] and f"{name} {RESIDUALS[i]}"
        template = f"{name} text {i}" if residual is None else template
        masked.append(
            base
            | {"utterance_id": i, "template_text": template, "template_key": text_key(template)}
            | {"residual_text": residual, "residual_key": residual and text_key(residual)}
        )
    negatives = [base | {"utterance_id": i, "max_bleu": 0.0, "nearest_utterance_id": None} for i in pool]
    return LanguageTables(
        rows_table(utterances, "utterances"),
        rows_table(masked, "masked_utterances"),
        rows_table(negatives, "negative_pool"),
    )


def aligned(**changes):
    return aligned_pairs("en-de", language("en"), language("de", **{"order": "4213", "pool": "2"} | changes))


def test_each_row_addresses_one_utterance_in_both_languages():
    expected = []
    for i, split in SPLITS.items():
        row = {"corpus": "toy", "pair": "en-de", "utterance_id": i, "split": split}
        for side, name, pool in (("source", "en", "13"), ("target", "de", "2")):
            residual = RESIDUALS[i] and text_key(f"{name} {RESIDUALS[i]}")
            template = f"{name} text {i}" if residual is None else f"{name} text <mask>"
            row |= {
                f"{side}_language": name,
                f"{side}_key": text_key(f"{name} text {i}"),
                f"{side}_template_key": text_key(template),
                f"{side}_residual_key": residual,
                f"{side}_is_negative": i in pool,
            }
        expected.append(row)
    assert aligned().to_pylist() == expected
    assert aligned().schema.equals(SCHEMAS["aligned_pairs"])


def test_rows_keep_the_order_of_the_source():
    table = aligned_pairs("de-en", language("de", order="4213"), language("en"))
    assert table["utterance_id"].to_pylist() == list("4213")


def test_an_utterance_without_partner_is_an_error():
    with pytest.raises(AlignmentError, match="1 of 4 ids of en have no partner"):
        aligned(order="123")


def test_a_partner_in_another_split_is_an_error():
    with pytest.raises(AlignmentError, match="another split"):
        aligned(splits=SPLITS | {"1": "dev"})


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
    own = language("en")
    return texts_to_encode([own.utterances, own.utterances], [own.masked, own.masked], pairs, [], needs)


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
