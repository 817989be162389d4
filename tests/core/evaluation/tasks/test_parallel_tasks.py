"""Tests retrieval of translations: utterances that share some of their ids, test sets of pairs, held-out bitext."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_inputs import CONFIG, pair_inputs, pair_table, problems, scored, utterance_inputs, utterances

from disent_core.errors import AlignmentError, ConfigError
from disent_core.evaluation.contract import hubness_of
from disent_core.evaluation.tasks import translation_retrieval
from disent_core.text import text_key

ENGLISH = {"1": ("a", "one"), "2": ("b", "two"), "3": ("a", "three"), "4": ("b", "four")}
JAPANESE = {"9": ("b", "nine"), "3": ("a", "san"), "1": ("a", "ichi")}


def japanese_inputs(parallel="some"):
    tables = {"en": utterances("en", ENGLISH), "ja": utterances("ja", JAPANESE)}
    return utterance_inputs(tables, parallel=parallel)


def test_retrieval_uses_shared_ids_only():
    assert problems("crosslingual_retrieval", japanese_inputs("none")) == []
    forth, back = problems("crosslingual_retrieval", japanese_inputs())
    assert forth.texts["query"].texts == ["one", "three"]
    assert forth.texts["pool"].texts == ["ichi", "san"]
    assert forth.candidate_ids.to_pylist() == ["1", "3"]
    assert (forth.settings["pool_size"], back.evaluated_on) == (2, "ja-en")


@pytest.mark.parametrize("name", ["crosslingual_retrieval", "intent_knn"])
def test_a_missing_translation_in_a_parallel_corpus_is_an_error(name):
    with pytest.raises(AlignmentError, match=r"toy en-ja test: 3 of 7 utterances .* e\.g\. 2, 4, 9\. "):
        problems(name, japanese_inputs("all"))


@pytest.mark.parametrize("name", ["crosslingual_retrieval", "intent_knn"])
@pytest.mark.parametrize("parallel", ["all", "some", "none"])
def test_a_duplicate_id_is_an_error_in_every_kind_of_corpus(name, parallel):
    inputs = japanese_inputs(parallel)
    tables = {key: table.take([0, 0]) for key, table in inputs.tables.items()}
    with pytest.raises(AlignmentError, match="toy en-ja test: 1 of 2 utterance ids repeat an earlier one"):
        problems(name, replace(inputs, tables=tables))


HUBNESS = replace(CONFIG, hubness=("none", "train_bias", "csls", "dual_softmax"))


def trained_inputs():
    tables = {
        language: pa.concat_tables([utterances(language, test), utterances(language, train, "train")])
        for language, test, train in (
            ("en", ENGLISH, {"7": ("a", "seven")}),
            ("ja", JAPANESE, {"7": ("a", "shichi"), "8": ("a", "hachi")}),
        )
    }
    return utterance_inputs(tables, parallel="some")


def corrections(name, inputs):
    return [problem.settings.get("hubness") for problem in problems(name, inputs, HUBNESS)]


def test_each_hubness_correction_is_a_separate_problem():
    forth = problems("crosslingual_retrieval", trained_inputs(), HUBNESS)[:4]
    assert {problem.evaluated_on for problem in forth} == {"en-ja"}
    assert [problem.settings.get("hubness", "none") for problem in forth] == list(HUBNESS.hubness)
    marks = [hubness_of(json.dumps(problem.settings)) for problem in forth]
    assert marks == ["none", "train_bias", "csls (transductive)", "dual_softmax (transductive)"]
    assert ["bank" in problem.texts for problem in forth] == [False, True, False, False]


def test_the_bank_of_a_direction_has_the_training_texts_of_its_query_if_there_are_any():
    assert corrections("crosslingual_retrieval", japanese_inputs()) == [None, "csls", "dual_softmax"] * 2
    both = problems("crosslingual_retrieval", trained_inputs(), HUBNESS)
    _, back = (problem for problem in both if "bank" in problem.texts)
    assert (back.evaluated_on, back.texts["bank"].texts) == ("ja-en", ["shichi", "hachi"])


def test_held_out_pairs_have_a_bias_from_the_training_pairs_if_their_corpus_trains():
    rows = {"1": ("eins", "one"), "2": ("zwei", "two"), "3": ("drei", "three", {"split": "train"})}
    inputs = pair_inputs(("de", "en"), rows, "bitext")
    banks = [problem.texts.get("bank") for problem in problems("heldout_retrieval", inputs, HUBNESS)]
    assert [bank.texts for bank in banks if bank] == [["drei"], ["three"]]
    assert "train_bias" not in corrections("heldout_retrieval", replace(inputs, trains=False))


def test_a_hubness_correction_leaves_plain_settings_unchanged_and_has_no_ranking():
    plain, corrected, *_ = problems("crosslingual_retrieval", trained_inputs(), HUBNESS)
    (default,) = problems("crosslingual_retrieval", trained_inputs())[:1]
    assert plain.settings == default.settings
    matrices = {"query": np.eye(2), "pool": np.eye(2), "bank": np.eye(2)[:1]}
    (of_plain,), (of_corrected,) = plain.score(matrices), corrected.score(matrices)
    assert (of_plain.ranking is None, of_corrected.ranking is None) == (False, True)


@pytest.mark.parametrize("hubness", [("csls",), ("none", "csls", "csls")])
def test_hubness_without_plain_retrieval_or_with_a_repetition_is_refused(hubness):
    with pytest.raises(ValueError, match="hubness must"):
        replace(CONFIG, hubness=hubness)


def by_loop(query, pool, queries, candidates, *, skip_translation):
    right = []
    for (query_id, (intent, _)), row in zip(queries.items(), query, strict=True):
        cosines = {
            place: row @ candidate / np.linalg.norm(row) / np.linalg.norm(candidate)
            for place, (name, candidate) in enumerate(zip(candidates, pool, strict=True))
            if not (skip_translation and name == query_id)
        }
        best = max(cosines, key=cosines.__getitem__)
        right.append(float(list(candidates.values())[best][0] == intent))
    return right


@pytest.mark.parametrize("parallel", ["some", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_intent_search_skips_only_the_translation(parallel, seed):
    forth, back = problems("intent_knn", japanese_inputs(parallel))
    english, japanese = (np.random.default_rng([seed, size]).normal(size=(size, 3)) for size in (4, 3))
    is_skipped = parallel == "some"
    items = scored(forth, query=english, pool=japanese)["accuracy_at_1"].items
    assert items.tolist() == by_loop(english, japanese, ENGLISH, JAPANESE, skip_translation=is_skipped)
    items = scored(back, query=japanese, pool=english)["accuracy_at_1"].items
    assert items.tolist() == by_loop(japanese, english, JAPANESE, ENGLISH, skip_translation=is_skipped)


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=9), st.integers(0, 99))
def test_intents_of_parallel_utterances_are_aligned_by_id_and_searched_in_both_directions(labels, seed):
    rows = {str(number): (label, f"text {number}") for number, label in enumerate(labels)}
    tables = {"en": utterances("en", rows), "de": utterances("de", dict(reversed(rows.items())))}
    directions = problems("intent_knn", utterance_inputs(tables))
    assert [problem.evaluated_on for problem in directions] == ["en-de", "de-en"]
    assert directions[0].texts["pool"].texts == [text for _, text in rows.values()]
    query, pool = np.random.default_rng(seed).normal(size=(2, len(labels), 5))
    measured = scored(directions[0], query=query, pool=pool)["accuracy_at_1"]
    assert measured.items.tolist() == by_loop(query, pool, rows, rows, skip_translation=True)


@pytest.mark.parametrize("parallel", ["all", "some", "none"])
def test_one_language_is_searched_in_itself_without_the_query(parallel):
    rows = {str(number): (label, f"text {number}") for number, label in enumerate("aab")}
    (problem,) = problems("intent_knn", utterance_inputs({"en": utterances("en", rows)}, parallel=parallel))
    assert problem.evaluated_on == "en"
    same = np.array([[1, 0], [1, 0.1], [0, 1]])  # the first two are each other's nearest
    assert scored(problem, query=same, pool=same)["accuracy_at_1"].items.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("labels", [[], ["a"], [None, None, "a"]])
def test_fewer_than_two_utterances_with_an_intent_give_no_task(labels):
    rows = {str(number): (label, f"text {number}") for number, label in enumerate(labels)}
    assert problems("intent_knn", utterance_inputs({"en": utterances("en", rows)})) == []


PAIRS = {"1": ("eins", "one"), "2": ("zwei", "two"), "3": ("drei", "three", {"split": "dev"})}


@pytest.mark.parametrize(("name", "kind"), [("tatoeba_retrieval", "translations"), ("heldout_retrieval", "bitext")])
def test_translations_are_retrieved_in_both_directions_by_strict_id(name, kind):
    assert problems(name, pair_inputs(("de", "en"), {}, kind)) == []
    forth, back = problems(name, pair_inputs(("de", "en"), PAIRS, kind))
    assert (forth.evaluated_on, back.evaluated_on) == ("de-en", "en-de")
    assert forth.texts["query"].texts == ["eins", "zwei"]
    assert forth.texts["pool"].keys == [text_key("one"), text_key("two")]
    assert forth.texts["pool"] is back.texts["query"]
    accuracy = scored(forth, query=np.eye(2), pool=np.array([[1.0, 0], [2, 1]]))["accuracy_at_1"]
    assert accuracy.items.tolist() == [1.0, 1.0]
    assert scored(back, query=np.eye(2), pool=np.array([[0.0, 1], [1, 2]]))["accuracy_at_1"].value == 0
    assert {"split": "test", "ties": "lowest", "pool_size": 2}.items() <= forth.settings.items()


def test_held_out_retrieval_always_uses_the_test_split():
    inputs, config = pair_inputs(("de", "en"), PAIRS, "bitext"), replace(CONFIG, split="dev")
    (forth, _) = problems("heldout_retrieval", inputs, config)
    assert (forth.texts["query"].texts, forth.settings["split"]) == (["eins", "zwei"], "test")
    (forth, _) = problems("tatoeba_retrieval", inputs, config)
    assert (forth.texts["query"].texts, forth.settings["split"]) == (["drei"], "dev")


def test_faiss_may_search_held_out_pairs_and_the_settings_say_so(monkeypatch):
    pytest.importorskip("faiss")
    inputs, config = pair_inputs(("de", "en"), PAIRS, "bitext"), replace(CONFIG, heldout_search="ivf")
    (forth, _), (exact, _) = (problems("heldout_retrieval", inputs, chosen) for chosen in (config, CONFIG))
    assert forth.settings.items() - exact.settings.items() == {
        ("search", "ivf"), ("search_recall_at_10", "at least 0.95")}  # fmt: skip
    assert scored(forth, query=np.eye(2), pool=np.array([[1.0, 0], [2, 1]]))["accuracy_at_1"].value == 1
    assert "search" not in problems("tatoeba_retrieval", inputs, config)[0].settings
    monkeypatch.setattr(translation_retrieval, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"heldout_search = 'ivf' needs faiss: pip install 'disent-embeddings\[faiss\]'"
    ):
        problems("heldout_retrieval", inputs, config)


def test_a_duplicate_pair_id_is_an_error():
    inputs = pair_inputs(("de", "en"), PAIRS, "translations")
    twice = {("sentence_pairs", "de-en"): pair_table("de-en", PAIRS).take([0, 0, 1])}
    with pytest.raises(AlignmentError, match="toy de-en test: 1 of 3 pair ids repeat an earlier one"):
        problems("tatoeba_retrieval", replace(inputs, tables=twice))
