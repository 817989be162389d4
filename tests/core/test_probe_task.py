"""The linear probe against scikit-learn, and what it is trained and tested on."""

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
from disent_core.evaluation.language_identification import PENALTY, linear_probe

NAME = "language_identification"


@settings(deadline=None)
@given(st.integers(0, 999), st.integers(2, 5), st.integers(6, 40), st.integers(1, 30))
def test_the_probe_is_the_ridge_classifier_of_scikit_learn(seed, classes, n, dim):
    rng = np.random.default_rng(seed)
    names = np.array(["e", "d", "c", "b", "a"])
    labels = names[np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])]
    rows = rng.normal(size=(n + 20, dim)).astype(np.float32) * rng.uniform(0.01, 100, dim) + rng.normal(size=dim)
    rows[:, 0] = 0.1  # tells nothing
    train, test = rows[:n], rows[n:]
    scaler = StandardScaler().fit(train)
    by_sklearn = RidgeClassifier(alpha=PENALTY).fit(scaler.transform(train), labels)
    found = linear_probe(train, labels, test)
    if dim > 1:
        assert found.tolist() == by_sklearn.predict(scaler.transform(test)).tolist()


def test_the_probe_is_blind_to_scale_and_place_of_a_dimension():
    rng = np.random.default_rng(0)
    train, test, labels = rng.normal(size=(50, 4)), rng.normal(size=(30, 4)), rng.integers(0, 3, 50)
    scale, place = rng.uniform(0.1, 10, 4), rng.normal(size=4)
    assert (
        linear_probe(train * scale + place, labels, test * scale + place).tolist()
        == linear_probe(train, labels, test).tolist()
    )


def test_rows_that_are_not_finite_are_refused():
    with pytest.raises(EncoderError, match="probe, test: 1 of 2 rows"):
        linear_probe(np.eye(2), np.array(["a", "b"]), np.array([[0, 1], [np.nan, 1]]))


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
    assert {role: texts.texts for role, texts in problem.texts.items()} == {
        "train en": ["d 0", "d 1", "d 2", "d 3"],
        "train de": ["d 0", "d 1", "d 2", "d 3"],
        "test en": ["t 0", "t 1"],
        "test de": ["t 0", "t 1"],
    }
    assert problem.settings == {"split": "test", "learned_on": "dev", "probe": "ridge", "penalty": PENALTY}


def matrices(language, intent):
    """Dimensions of which the first knows the language, the second the intent, if they are to."""
    noise = np.random.default_rng(0)
    found = {}
    for side, sign in (("en", 1.0), ("de", -1.0)):
        for part, intents in (("train", "abab" * 20), ("test", "ba" * 20)):
            rows = noise.normal(size=(len(intents), 2))
            rows[:, 0] += 20 * sign * language
            rows[:, 1] += 20 * intent * (np.array(list(intents)) == "a")
            found[f"{part} {side}"] = rows
    return found


@pytest.mark.parametrize(("language", "intent"), [(True, False), (False, True), (True, True)])
def test_what_the_embedding_knows_is_found_and_nothing_else(language, intent):
    (problem,) = problems(NAME, both("abab" * 20, "ba" * 20))
    found = scored(problem, **matrices(language, intent))
    for metric, is_known in (("accuracy", language), ("intent_accuracy", intent)):
        assert found[metric].n == 80
        assert (found[metric].value == 1) if is_known else (found[metric].value < 0.75)


def test_utterances_without_intent_are_in_the_probe_of_the_language_alone():
    (problem,) = problems(NAME, both(["a", "b", None, None], ["b", None]))
    found = scored(problem, **{role: np.eye(4)[: len(texts)] for role, texts in problem.texts.items()})
    assert (found["accuracy"].n, found["intent_accuracy"].n) == (4, 2)


@pytest.mark.parametrize("intents", [[None] * 4, ["a"] * 4])
def test_fewer_than_two_intents_to_learn_have_no_intent_accuracy(intents):
    (problem,) = problems(NAME, both(intents))
    found = scored(problem, **{role: np.eye(4)[: len(texts)] for role, texts in problem.texts.items()})
    assert set(found) == {"accuracy"}


def test_dev_is_measured_with_what_train_teaches():
    config = replace(CONFIG, split="dev")
    inputs = both(name="train")
    assert problems(NAME, inputs, config) == []
    dev = {key: pa.concat_tables([table, utterances(key[1], {"x": ("a", "x")}, "dev")]) for key, table in
           inputs.tables.items()}  # fmt: skip
    (problem,) = problems(NAME, replace(inputs, tables=dev), config)
    assert (problem.texts["test en"].texts, len(problem.texts["train en"])) == (["x"], 4)


def test_bitext_has_a_probe_of_the_language_alone():
    rows = {"1": ("eins", "one", {"split": "dev"}), "2": ("zwei", "two")}
    (problem,) = problems(NAME, pair_inputs(("de", "en"), rows, "bitext"))
    assert (problem.evaluated_on, problem.texts["train de"].texts) == ("de-en", ["eins"])
    found = scored(problem, **{role: [[float(role.endswith("de"))]] for role in problem.texts})
    assert {metric: each.value for metric, each in found.items()} == {"accuracy": 1}


def test_no_texts_to_learn_from_are_no_problem():
    assert problems(NAME, both("")) == []
    assert problems(NAME, pair_inputs(("de", "en"), {"2": ("zwei", "two")}, "bitext")) == []
