"""Tests silhouettes against scikit-learn, and which labels are clustered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_samples, silhouette_score
from task_inputs import problems, scored, utterance_inputs, utterances

from disent_core.errors import EncoderError
from disent_core.evaluation.tasks import clustering


def intents(labels):
    return utterances("en", {str(place): (intent, f"text {place}") for place, intent in enumerate(labels)})


def in_one_language(labels):
    return problems("clustering", utterance_inputs({"en": intents(labels)}))


@given(st.lists(st.sampled_from("abcd"), min_size=3, max_size=30), st.integers(0, 99), st.booleans())
def test_silhouettes_are_those_of_scikit_learn_with_copies_zeros_and_labels_of_one_item(labels, seed, is_far):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 3))[rng.integers(0, 6, len(labels))] + 1e3 * is_far
    rows[0] = 0
    if not 2 <= len(set(labels)) < len(labels):
        assert in_one_language(labels) == []
        return
    (problem,) = in_one_language(labels)
    measures = scored(problem, en=rows)
    for metric in ("cosine", "euclidean"):
        measured = measures[f"silhouette_{metric}"]
        # In scikit-learn the cosine distance of copies is rounding error, and so is their silhouette.
        if metric == "cosine" and not _is_clear(rows, labels):
            continue
        assert measured.value == pytest.approx(silhouette_score(rows, labels, metric=metric), abs=1e-4)
        assert measured.n == len(labels)


def _is_clear(rows, labels):
    distances = 1 - (unit := rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)) @ unit.T
    means = [[distances[row, np.asarray(labels) == label].mean() for label in set(labels)] for row in range(len(rows))]
    return np.min(means) > 1e-3


@pytest.mark.parametrize("block", [7, 64, 1024])
def test_blocks_do_not_change_the_sums(monkeypatch, block):
    monkeypatch.setattr(clustering, "_BLOCK", block)
    rng = np.random.default_rng(3)
    rows, labels = rng.normal(size=(150, 8)).astype(np.float32), rng.integers(0, 5, 150)
    silhouettes = clustering.silhouettes(clustering.euclidean_sums(rows, labels), labels)
    assert silhouettes == pytest.approx(silhouette_samples(rows.astype(float), labels), abs=1e-9)
    silhouettes = clustering.silhouettes(clustering.cosine_sums(rows, labels), labels)
    assert silhouettes == pytest.approx(silhouette_samples(rows, labels, metric="cosine"), abs=1e-6)


def test_a_language_is_clustered_by_intent_and_a_pair_by_language():
    english = intents("aab")
    german = utterances("de", {"7": (None, "hallo"), "8": ("a", "halt")})
    (of_pair,) = problems("clustering", utterance_inputs({"en": english, "de": german}))
    assert (of_pair.evaluated_on, of_pair.settings["labels"]) == ("en-de", "language")
    assert of_pair.labels.tolist() == ["en", "en", "en", "de", "de"]
    measures = scored(of_pair, de=np.array([[0.0, 1], [0, 2]]), en=np.array([[1.0, 0], [1, 0], [2, 0]]))
    assert measures["silhouette_cosine"].value == pytest.approx(1)
    (of_language,) = in_one_language("aab")
    assert (of_language.evaluated_on, of_language.settings) == ("en", {"split": "test", "labels": "intent"})


def test_utterances_without_intent_are_in_no_cluster_and_rows_that_are_not_finite_are_refused():
    (problem,) = in_one_language(["a", None, "b", "b"])
    assert (problem.texts["en"].texts, problem.labels.tolist()) == (["text 0", "text 2", "text 3"], ["a", "b", "b"])
    with pytest.raises(EncoderError, match="embedding: 1 of 3 rows"):
        scored(problem, en=[[1.0], [np.nan], [0.0]])
