"""What training data has beside the pairs, what methods need of it, and the texts to encode."""

import numpy as np
import pytest
from language_tables import SPLITS, aligned, language
from synthetic import mates_of, vector_table, world

from disent_core.errors import TrainingError
from disent_core.lineage.embeddings import texts_to_encode
from disent_core.storage.tables import rows_table
from disent_core.targets.parallel_mates import ParallelMateConfig
from disent_core.text import text_key
from disent_core.training.build_data import training_data
from disent_core.training.needs import SIDES, Need, training_fingerprint

WORLD = world("en-de", "en-es")


def keys_of(data):
    return [key.decode() for language in data.languages for key in WORLD.vectors[language].keys]


def test_template_pairs_join_a_source_with_its_generated_text_in_one_language():
    data, keys = WORLD.data, keys_of(WORLD.data)
    assert set(data.template_pairs) == {"train", "dev"}
    for split, pairs in data.template_pairs.items():
        rows = zip(*(side.tolist() for side in (pairs.language["source"], *pairs.text.values())), strict=True)
        actual = {(data.languages[label], keys[source], keys[target]) for label, source, target in rows}
        expected = {
            (row["language"], text_key(row["source_text"]), text_key(row["target_text"]))
            for table in WORLD.templates
            for row in table.to_pylist()
            if row["split"] == split
        }
        assert actual == expected


def test_template_pairs_have_the_template_target_of_their_source_and_no_residual():
    data, keys = WORLD.data, keys_of(WORLD.data)
    pairs = data.template_pairs["train"]
    targets = {
        (row[f"{side}_language"], row[f"{side}_key"]): row[f"{side}_template_key"]
        for table in WORLD.aligned
        for row in table.to_pylist()
        for side in SIDES
    }
    for i in range(len(pairs)):
        source = data.languages[int(pairs.language["source"][i])], keys[int(pairs.text["source"][i])]
        for side in SIDES:
            assert keys[int(pairs.template[side][i])] == targets[source]
            assert pairs.residual[side][i] == -1
    assert text_key("toy de 1 <mask>") in targets.values()


def test_mixture_pairs_are_numbered_by_language_pair_and_template_pairs_are_not():
    dev = WORLD.data.splits["dev"]
    number_of = set(zip(dev.language["target"].tolist(), dev.language_pair.tolist(), strict=True))
    assert number_of == {(1, 0), (2, 1)}
    assert set(world("en-de").data.splits["dev"].language_pair.tolist()) == {0}
    templates = WORLD.data.template_pairs["dev"]
    assert len(set(templates.language["source"].tolist())) == 3
    assert set(templates.language_pair.tolist()) == {0}


def test_template_pairs_without_a_paired_source_are_dropped_and_none_is_an_error():
    few = [table.filter([True] * 3 + [False] * (len(table) - 3)) for table in WORLD.aligned]
    aligned = [*few, *(table.slice(12) for table in WORLD.aligned)]
    data = training_data(aligned, WORLD.vectors, WORLD.states, templates=WORLD.templates)
    assert len(data.template_pairs["train"]) == 2 * 3  # utterances 1 and 2 of three languages
    empty = [table.slice(0, 0) for table in WORLD.templates]
    with pytest.raises(TrainingError, match="no template pair in train"):
        training_data(WORLD.aligned, WORLD.vectors, WORLD.states, templates=empty)


def test_utterances_come_by_split_and_language_with_the_rows_of_their_texts():
    data, keys = WORLD.data, keys_of(WORLD.data)
    for split in ("train", "dev"):
        assert set(data.utterances[split]) == {"en", "de", "es"}
        for code, utterances_of_language in data.utterances[split].items():
            assert all(text.split()[1] == code for text in utterances_of_language.texts)
            assert [keys[row] for row in utterances_of_language.rows.tolist()] == [
                text_key(text) for text in utterances_of_language.texts
            ]
            assert [" ".join(tokens) for tokens in utterances_of_language.tokens] == list(utterances_of_language.texts)
            assert utterances_of_language.intents[1] == f"intent_{int(utterances_of_language.ids[1]) % 3}"


def test_mates_have_the_rows_of_their_texts_if_they_are_encoded():
    mates, texts = mates_of(WORLD, ParallelMateConfig()), {language: set(of) for language, of in WORLD.texts.items()}
    for row in (row for table in mates for row in table.to_pylist()):
        texts[row["source_language"]].add(row["source_text"])
        texts[row["target_language"]].add(row["target_text"])
    tables = {language: vector_table(of) for language, of in texts.items()}
    data = training_data(WORLD.aligned, tables, masked=False, mates=mates, encoded_mates=True)
    stored = data.mates["train"]
    for name in SIDES:
        languages = [data.languages[int(label)] for label in data.splits["train"].language[name][stored.pair]]
        expected = [
            tables[language].matrix[tables[language].rows([text_key(text)])[0]]
            for language, text in zip(languages, stored.texts[name], strict=True)
        ]
        assert np.array_equal(data.vectors.take(stored.rows[name]).numpy(), np.stack(expected))
    assert not data.mates["dev"].rows


EVERYTHING = frozenset(Need)


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
def test_a_training_fingerprint_covers_the_columns_that_the_method_needs(column, value, read_by):
    before, after = aligned(), with_value(aligned(), 0, column, value)
    for needs in (NO_NEED, MASKED, POOL, EVERYTHING):
        same = training_fingerprint(before, needs) == training_fingerprint(after, needs)
        assert same == (needs not in read_by), needs


def test_a_training_fingerprint_ignores_unusable_pairs_and_states():
    bare = with_value(with_value(aligned(), 0, "source_template_key", None), 0, "source_residual_key", None)
    assert training_fingerprint(bare, MASKED) == training_fingerprint(aligned().slice(1), MASKED)
    assert training_fingerprint(bare, NO_NEED) == training_fingerprint(aligned(), NO_NEED)
    assert training_fingerprint(aligned(), frozenset({Need.TOKEN_STATES})) == training_fingerprint(aligned(), NO_NEED)


@pytest.mark.parametrize("column", ["source_key", "target_residual_key", "source_template_key"])
def test_a_training_fingerprint_covers_dev_rows_and_ignores_test_rows(column):
    changed = with_value(aligned(), 3, column, "k")
    assert training_fingerprint(changed, EVERYTHING) == training_fingerprint(aligned(), EVERYTHING)
    assert training_fingerprint(aligned().slice(0, 3), EVERYTHING) == training_fingerprint(aligned(), EVERYTHING)
    of_dev = with_value(aligned(), 2, column, "k")
    assert training_fingerprint(of_dev, EVERYTHING) != training_fingerprint(aligned(), EVERYTHING)


def template_pairs(*texts):
    row = {"corpus": "toy", "language": "en", "split": "test", "source_utterance_id": "4", "replaced_slots": []}
    return rows_table(
        [row | {"target_index": i, "source_text": "en text 4", "target_text": text} for i, text in enumerate(texts)],
        "template_pairs",
    )


def plan(needs, pairs=()):
    """Texts by key, and which of them need states."""
    tables = language("en")
    planned = texts_to_encode([tables.utterances, tables.utterances], [tables.masked, tables.masked], pairs, [], needs)
    texts = dict(zip(planned.keys.astype(str).tolist(), planned.column.to_pylist(), strict=True))
    return texts, {texts[key] for key in planned.keys[planned.with_states].astype(str).tolist()}


PLAIN = {f"en text {i}" for i in SPLITS}


def test_planned_texts_are_distinct_and_keyed_by_their_text_key():
    texts, _ = plan(EVERYTHING, [template_pairs("a new text", "en text 1", "a new text")])
    assert all(key == text_key(text) for key, text in texts.items())
    assert set(texts.values()) == PLAIN | {"a new text", "en text <mask>", "en <mask> one", "en <mask> three"}


@pytest.mark.parametrize("needs", [NO_NEED, POOL, frozenset({Need.TOKEN_STATES})])
def test_masked_texts_are_encoded_only_where_a_method_needs_them(needs):
    assert set(plan(needs)[0].values()) == PLAIN


def test_states_are_planned_for_utterances_and_template_pairs_but_not_masked_texts():
    assert plan(EVERYTHING, [template_pairs("a new text")])[1] == PLAIN | {"a new text"}
    assert plan(MASKED)[1] == set()


def test_every_training_text_is_planned_and_no_tables_give_no_texts():
    assert len(texts_to_encode([], [], [], [], EVERYTHING)) == 0
    table = aligned()
    texts, _ = plan(EVERYTHING)
    rows = [row for row in table.to_pylist() if row["split"] != "test"]
    wanted = {row[f"source_{what}key"] for row in rows for what in ("", "template_", "residual_")} - {None}
    assert wanted <= set(texts)
