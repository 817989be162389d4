"""Tests the linear probe against scikit-learn, and what it is trained and tested on."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler
from task_inputs import CONFIG, pair_inputs, problems, scored, utterance_inputs, utterances

from disent_core.errors import EncoderError
from disent_core.evaluation.metrics.probes import NEIGHBOURS, PENALTY, knn_probe, linear_probe, mlp_probe

NAME = "language_identification"


@given(st.integers(0, 999), st.integers(2, 5), st.integers(6, 40), st.integers(1, 30))
def test_the_probe_is_the_ridge_classifier_of_scikit_learn(seed, classes, n, dim):
    rng = np.random.default_rng(seed)
    names = np.array(["e", "d", "c", "b", "a"])
    labels = names[np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])]
    rows = rng.normal(size=(n + 20, dim)).astype(np.float32) * rng.uniform(0.01, 100, dim) + rng.normal(size=dim)
    rows[:, 0] = 0.1  # a constant dimension
    train, test = rows[:n], rows[n:]
    scaler = StandardScaler().fit(train)
    by_sklearn = RidgeClassifier(alpha=PENALTY).fit(scaler.transform(train), labels)
    predicted = linear_probe(train, labels, test)
    if dim > 1:
        assert predicted.tolist() == by_sklearn.predict(scaler.transform(test)).tolist()


def test_rows_that_are_not_finite_are_refused():
    with pytest.raises(EncoderError, match="probe, test: 1 of 2 rows"):
        linear_probe(np.eye(2), np.array(["a", "b"]), np.array([[0, 1], [np.nan, 1]]))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 999))
def test_neighbours_vote_as_a_loop_over_cosines_counts(seed):
    rng = np.random.default_rng(seed)
    train, test, labels = rng.normal(size=(60, 4)), rng.normal(size=(9, 4)), rng.choice(list("cab"), 60)
    expected = []
    for row in test:
        cosines = train @ row / np.linalg.norm(train, axis=1)
        votes = labels[np.argsort(-cosines)[:NEIGHBOURS]].tolist()
        expected.append(max(sorted(set(votes)), key=votes.count))
    assert knn_probe(train, labels, test).tolist() == expected


def test_neighbours_and_a_network_read_what_a_linear_map_does_not():
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    labels = np.where(rows[:, 0] * rows[:, 1] > 0, "en", "de")  # two opposite quadrants each

    def accuracy(probe):
        return (probe(rows[:1500], labels[:1500], rows[1500:]) == labels[1500:]).mean()

    assert accuracy(linear_probe) < 0.7
    assert accuracy(knn_probe) > 0.9
    assert accuracy(mlp_probe) > 0.9


@pytest.mark.parametrize("probe", ["knn", "mlp"])
def test_other_probes_of_the_language_have_the_texts_of_the_linear_one(probe):
    (linear,), (other,) = problems("language_leakage", both()), problems(f"language_leakage_{probe}", both())
    assert (other.task, other.settings["probe"]) == (f"language_leakage_{probe}", probe)
    assert {role: texts.keys for role, texts in other.texts.items()} == {
        role: texts.keys for role, texts in linear.texts.items()
    }


def rows_of(split, intents, start=0):
    return {f"{split}{start + place}": (intent, f"{split} {place}") for place, intent in enumerate(intents)}


def both(dev="abab", test="ba", name="dev"):
    tables = {
        language: pa.concat_tables(
            [utterances(language, rows_of("d", dev), name), utterances(language, rows_of("t", test))]
        )
        for language in ("en", "de")
    }
    return utterance_inputs(tables)


def test_it_learns_from_dev_and_is_measured_on_test_of_both_languages():
    (problem,) = problems(NAME, both())
    assert problem.evaluated_on == "en-de"
    train, test = ["d 0", "d 1", "d 2", "d 3"], ["t 0", "t 1"]
    expected = {"train en": train, "train de": train, "test en": test, "test de": test}
    assert {role: texts.texts for role, texts in problem.texts.items()} == expected
    assert problem.settings == {"split": "test", "learned_on": "dev", "probe": "ridge", "penalty": PENALTY}


def test_what_should_tell_the_language_and_what_should_not_are_two_tasks_with_one_probe():
    (asked,), (leaks,) = problems(NAME, both()), problems("language_leakage", both())
    assert (asked.task, asked.embeddings) == (NAME, ("language", "sentence"))
    assert (leaks.task, leaks.embeddings) == ("language_leakage", ("meaning", "template", "residual", "sentence"))
    assert {role: texts.keys for role, texts in leaks.texts.items()} == {
        role: texts.keys for role, texts in asked.texts.items()
    }
    known = matrices(asked, knows=False)
    assert scored(leaks, **known)["accuracy"].value == scored(asked, **known)["accuracy"].value


def matrices(problem, knows):
    """One dimension that encodes the label or, without `knows`, is noise."""
    noise = np.random.default_rng(0)
    names = sorted({label for labels in problem.labels.values() for label in labels})
    return {
        role: noise.normal(size=(len(labels), 1)) + 20 * knows * np.array([[names.index(label)] for label in labels])
        for role, labels in problem.labels.items()
    }


def intents_of(dev, test):
    table = pa.concat_tables([utterances("en", rows_of("d", dev), "dev"), utterances("en", rows_of("t", test))])
    return problems("intent_probe", utterance_inputs({"en": table}))


@pytest.mark.parametrize("knows", [True, False])
def test_a_language_or_intent_that_the_embedding_knows_is_found(knows):
    (of_language,), (of_intent,) = problems(NAME, both("abab" * 20, "ba" * 20)), intents_of("abab" * 20, "ba" * 20)
    assert (of_language.evaluated_on, of_intent.evaluated_on) == ("en-de", "en")
    for problem, texts in ((of_language, 80), (of_intent, 40)):
        accuracy = scored(problem, **matrices(problem, knows))["accuracy"]
        assert accuracy.n == texts
        assert (accuracy.value == 1) if knows else (accuracy.value < 0.75)


def test_utterances_without_intent_are_not_in_the_probe_of_intents():
    (problem,) = intents_of(["a", "b", None, None], ["b", None])
    assert {role: len(texts) for role, texts in problem.texts.items()} == {"train en": 2, "test en": 1}


@pytest.mark.parametrize(("dev", "test"), [([None] * 4, "ab"), ("aaaa", "ab"), ("ab", [None])])
def test_fewer_than_two_intents_to_learn_or_none_to_find_are_no_problem(dev, test):
    assert intents_of(dev, test) == []


def test_dev_is_measured_with_what_train_teaches():
    config = replace(CONFIG, split="dev")
    inputs = both(name="train")
    assert problems(NAME, inputs, config) == []
    dev = {key: pa.concat_tables([table, utterances(key[1], {"x": ("a", "x")}, "dev")]) for key, table in
           inputs.tables.items()}  # fmt: skip
    (problem,) = problems(NAME, replace(inputs, tables=dev), config)
    assert (problem.texts["test en"].texts, len(problem.texts["train en"])) == (["x"], 4)


def test_bitext_has_a_probe_of_the_language_alone_and_no_texts_to_learn_from_are_no_problem():
    assert problems(NAME, both("")) == []
    assert problems(NAME, pair_inputs(("de", "en"), {"2": ("zwei", "two")}, "bitext")) == []
    rows = {"1": ("eins", "one", {"split": "dev"}), "2": ("zwei", "two")}
    (problem,) = problems(NAME, pair_inputs(("de", "en"), rows, "bitext"))
    assert (problem.evaluated_on, problem.texts["train de"].texts) == ("de-en", ["eins"])
    measures = scored(problem, **{role: [[float(role.endswith("de"))]] for role in problem.texts})
    assert {metric: measured.value for metric, measured in measures.items()} == {"accuracy": 1}
