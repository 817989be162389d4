"""What training data has beside the pairs: template pairs of one language, annotated utterances."""

import numpy as np
import pytest
from synthetic import vector_table, world

from disent_core.errors import TrainingError
from disent_core.targets.parallel_mates import ParallelMateConfig, parallel_mates
from disent_core.text import text_key
from disent_core.training.build_data import training_data
from disent_core.training.needs import SIDES

WORLD = world("en-de", "en-es")


def keys_of(data):
    return [key.decode() for language in data.languages for key in WORLD.vectors[language].keys]


def test_template_pairs_join_a_source_with_its_generated_text_in_one_language():
    data, keys = WORLD.data, keys_of(WORLD.data)
    assert set(data.template_pairs) == {"train", "dev"}
    for split, pairs in data.template_pairs.items():
        rows = zip(*(side.tolist() for side in (pairs.language["source"], *pairs.text.values())), strict=True)
        found = {(data.languages[label], keys[source], keys[target]) for label, source, target in rows}
        expected = {
            (row["language"], text_key(row["source_text"]), text_key(row["target_text"]))
            for table in WORLD.templates
            for row in table.to_pylist()
            if row["split"] == split
        }
        assert found == expected


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


def test_pairs_of_a_mixture_are_numbered_by_their_languages_and_template_pairs_are_of_one_number():
    dev = WORLD.data.splits["dev"]
    number_of = set(zip(dev.language["target"].tolist(), dev.language_pair.tolist(), strict=True))
    assert number_of == {(1, 0), (2, 1)}
    assert set(world("en-de").data.splits["dev"].language_pair.tolist()) == {0}
    templates = WORLD.data.template_pairs["dev"]
    assert len(set(templates.language["source"].tolist())) == 3
    assert set(templates.language_pair.tolist()) == {0}


def test_a_template_pair_whose_source_is_in_no_language_pair_is_left_out_and_no_pair_at_all_an_error():
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
        for language, utterances_of_language in data.utterances[split].items():
            assert all(text.split()[1] == language for text in utterances_of_language.texts)
            assert [keys[row] for row in utterances_of_language.rows.tolist()] == [
                text_key(text) for text in utterances_of_language.texts
            ]
            assert [" ".join(tokens) for tokens in utterances_of_language.tokens] == list(utterances_of_language.texts)
            assert utterances_of_language.intents[1] == f"intent_{int(utterances_of_language.ids[1]) % 3}"


def test_data_of_a_method_without_these_needs_has_neither():
    data = training_data(WORLD.aligned, WORLD.vectors, WORLD.states)
    assert not data.template_pairs
    assert not data.utterances


def test_mates_have_the_rows_of_their_texts_if_they_are_encoded():
    own = world("en-de", "en-es")
    by_language = {table["language"][0].as_py(): table for table in own.utterances}
    mates = [
        parallel_mates(pair, *(by_language[one] for one in pair.split("-")), ParallelMateConfig())
        for pair in ("en-de", "en-es")
    ]
    texts = {language: set(of) for language, of in own.texts.items()}
    for row in (row for table in mates for row in table.to_pylist()):
        texts[row["source_language"]].add(row["source_text"])
        texts[row["target_language"]].add(row["target_text"])
    tables = {language: vector_table(of) for language, of in texts.items()}
    data = training_data(own.aligned, tables, masked=False, mates=mates, encoded_mates=True)
    found = data.mates["train"]
    for name in SIDES:
        languages = [data.languages[int(label)] for label in data.splits["train"].language[name][found.pair]]
        expected = [
            tables[language].matrix[tables[language].rows([text_key(text)])[0]]
            for language, text in zip(languages, found.texts[name], strict=True)
        ]
        assert np.array_equal(data.vectors.take(found.rows[name]).numpy(), np.stack(expected))
    assert not data.mates["dev"].rows
