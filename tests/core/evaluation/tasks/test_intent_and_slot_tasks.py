"""Tests nearest neighbours by intent and slot labelling against loops and counts by hand."""

from datetime import UTC, datetime

import numpy as np
import pytest
import task_inputs
from hypothesis import given
from hypothesis import strategies as st
from task_inputs import CONFIG, utterance_inputs, utterances

from disent_core.evaluation.metrics.statistics import f1
from disent_core.evaluation.runner import evaluate
from disent_core.text import text_key


def problems(name, tables):
    return task_inputs.problems(name, utterance_inputs(tables))


def with_intents(language, intents):
    rows = {str(i): (intent, f"{language} {i}", "O O") for i, intent in enumerate(intents)}
    return utterances(language, rows)


# --- intents ----------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=9), st.integers(0, 99))
def test_intent_accuracy_equals_a_loop_over_queries_that_leaves_out_the_own_index(labels, seed):
    both = {language: with_intents(language, labels) for language in ("en", "de")}
    forth, back = problems("intent_knn", both)
    assert (forth.evaluated_on, back.evaluated_on) == ("en-de", "de-en")
    rng = np.random.default_rng(seed)
    query, pool = rng.normal(size=(2, len(labels), 5))
    right = 0
    for i in range(len(labels)):
        cosines = {
            j: pool[j] @ query[i] / np.linalg.norm(pool[j]) / np.linalg.norm(query[i])
            for j in range(len(labels))
            if j != i
        }
        right += labels[max(cosines, key=cosines.__getitem__)] == labels[i]
    (measured,) = forth.score({"query": query, "pool": pool})
    assert measured.value == pytest.approx(right / len(labels))
    assert measured.n == len(labels)


def test_one_language_is_searched_in_itself_without_the_query():
    (problem,) = problems("intent_knn", {"en": with_intents("en", "aab")})
    assert problem.evaluated_on == "en"
    same = np.array([[1, 0], [1, 0.1], [0, 1]])  # the first two are each other's nearest
    (measured,) = problem.score({"query": same, "pool": same})
    assert measured.items.tolist() == [1.0, 1.0, 0.0]


def test_translations_are_brought_into_one_order_before_intents_are_compared():
    english = utterances("en", {"1": ("a", "x", "O"), "2": ("b", "y", "O")})
    german = utterances("de", {"2": ("b", "y", "O"), "1": ("a", "x", "O")})
    forth, _ = problems("intent_knn", {"en": english, "de": german})
    assert forth.texts["pool"].texts == ["x", "y"]
    assert forth.texts["pool"].keys == [text_key("x"), text_key("y")]


@pytest.mark.parametrize("labels", [[], ["a"], [None, None, "a"]])
def test_fewer_than_two_utterances_with_an_intent_are_no_problem(labels):
    assert problems("intent_knn", {"en": with_intents("en", labels)}) == []


# --- slots ------------------------------------------------------------------------------------------------

GOLD = {"1": ("a", "wake me at nine", "O O O B-time"), "2": ("a", "in new york", "O B-place I-place")}


def test_slot_labelling_counts_words_and_spans():
    (problem,) = problems("slot_labelling", {"en": utterances("en", GOLD)})
    measures = {
        measured.metric: measured for measured in problem.score([["O", "O", "O", "B-time"], ["O", "B-place", "O"]])
    }
    assert measures["micro_f1"].value == pytest.approx(2 * 2 / (2 + 3))
    assert measures["span_f1"].value == pytest.approx(2 * 1 / (2 + 2))
    assert measures["micro_f1"].n == 2


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=6))
def test_f1_of_a_sample_is_that_of_its_summed_counts(counts):
    items = np.array([(right, right + wrong, right + missed) for right, wrong, missed in counts], dtype=float)
    correct, predicted, gold = items.sum(axis=0)
    expected = 2 * correct / (predicted + gold) if predicted + gold else 0.0
    assert f1(items[None])[0] == pytest.approx(expected)


def test_a_language_without_slots_is_no_problem():
    assert problems("slot_labelling", {"en": utterances("en", {"1": ("a", "stop", "O")})}) == []


# --- the runner -------------------------------------------------------------------------------------------


def run(task_problems, embed, label, seeds=(0, 1)):
    return evaluate(
        task_problems,
        embed,
        label,
        method="m",
        encoder="e",
        trained_on="en-de",
        seeds=seeds,
        config=CONFIG,
        fingerprint="f",
        created_at=datetime(2024, 5, 1, tzinfo=UTC),
    ).metrics.to_pylist()


def test_a_labeller_has_rows_of_every_seed_for_sentences_and_none_for_embeddings():
    table = utterances("en", GOLD)
    task_problems = [*problems("slot_labelling", {"en": table}), *problems("intent_knn", {"en": table})]
    tags = {0: [["O"] * 4, ["O"] * 3], 1: [row[2].split() for row in GOLD.values()]}
    rows = run(task_problems, None, lambda problem, seed: tags[seed])
    assert {row["task"] for row in rows} == {"slot_labelling"}
    values = {(row["metric"], row["seed"]): row["value"] for row in rows}
    assert values["micro_f1", 0] == 0
    assert values["micro_f1", 1] == 1
    assert values["micro_f1", None] == 0.5


def test_an_embedding_method_has_no_row_of_slot_labelling():
    table = utterances("en", GOLD)
    task_problems = [*problems("slot_labelling", {"en": table}), *problems("intent_knn", {"en": table})]
    rows = run(task_problems, lambda texts, seed: {"meaning": np.eye(len(texts))}, None)
    assert {row["task"] for row in rows} == {"intent_knn"}


def test_a_language_that_a_labeller_was_not_trained_for_is_left_out():
    task_problems = problems("slot_labelling", {"en": utterances("en", GOLD)})
    assert run(task_problems, None, lambda problem, seed: None) == []
