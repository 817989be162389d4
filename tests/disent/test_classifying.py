"""`disent.Classifier`: labels in any language, scikit-learn's tools, files, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted
from static_models import static_model

from disent import Classifier, load
from disent_core.classifier import FewExamplesWarning
from disent_core.encoders.kinds.words import WordsConfig
from disent_core.errors import DamagedError, EncoderError, TrainingError
from disent_core.search.noise import made_up

TEXTS = [f"{verb} at {time}" for time in ("six", "seven", "eight", "nine", "ten") for verb in ("wake me", "call bob")]
TEXTS += [f"play {music} now" for music in ("jazz", "rock", "blues", "soul", "funk")]
LABELS = ["alarm", "call"] * 5 + ["música 🎵"] * 5


class Words:
    """Hashed words as a model: `encode` and, as a head has them, a fingerprint and a seed."""

    def __init__(self, seed: int = 0, fingerprint: str | None = None) -> None:
        self.encoder = WordsConfig(name="words", dim=64, seed=seed).load(Path(), "", "cpu")
        self.fingerprint, self.seen = fingerprint, []

    def encode(self, texts, embedding="meaning"):
        self.seen.append((len(texts), embedding))
        return np.concatenate([batch.vectors for batch in self.encoder.encode(texts, states=False)])


@pytest.fixture
def fitted() -> Classifier:
    return Classifier(Words()).fit(TEXTS, LABELS)


def test_new_texts_get_the_label_of_texts_like_them(fitted):
    assert fitted.predict(["wake me at noon", "play some jazz"]).tolist() == ["alarm", "música 🎵"]
    probabilities = fitted.predict_proba(["wake me at noon"])
    assert fitted.classes_[probabilities[0].argmax()] == "alarm"
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert fitted.score(TEXTS, LABELS) == 1


SHAPES = {
    "wake me up at {}": ("alarm", ("six", "seven", "nine", "noon")),
    "turn {} the lights": ("lights", ("on", "off", "down", "up")),
    "play {} for me": ("music", ("jazz", "rock", "blues", "soul")),
}


def test_a_dozen_examples_suffice_to_refuse_nonsense_and_keep_similar_requests():
    examples = [(shape.format(value), label) for shape, (label, values) in SHAPES.items() for value in values]
    with pytest.warns(FewExamplesWarning, match="12 texts of 3 labels"):
        classifier = Classifier(load(), unknown="other").fit(*zip(*examples, strict=True))
    assert (classifier.predict(made_up()) == "other").mean() > 0.9
    like_them = ["wake me up at ten", "turn the lights off", "play funk for me"]
    assert classifier.predict(like_them).tolist() == ["alarm", "lights", "music"]


def test_outliers_get_the_unknown_label_only_if_one_is_set():
    odd = ["quantum chromodynamics lecture", "wake me at six"]
    known = Classifier(Words(), unknown="none of them", refused=0.2).fit(TEXTS, LABELS)
    assert known.predict(odd).tolist() == ["none of them", "alarm"]
    assert "none of them" not in known.classes_
    assert Classifier(Words()).fit(TEXTS, LABELS).predict(odd)[0] in LABELS
    with pytest.raises(ValueError, match="unknown is 'alarm', which is already a label of the texts"):
        Classifier(Words(), unknown="alarm").fit(TEXTS, LABELS)


@pytest.mark.parametrize("model", [Words(), Words().encode, lambda texts: Words().encode(texts).astype(np.float16)])
def test_any_callable_or_encoder_of_texts_is_a_model(model):
    assert Classifier(model).fit(tuple(TEXTS), np.array(LABELS)).predict(np.array(["call bob now"]))[0] == "call"


def test_an_embedding_is_named_to_the_model():
    model = Words()
    Classifier(model, embedding="template").fit(TEXTS, LABELS).predict(iter(["wake me"]))
    assert model.seen == [(len(TEXTS), "template"), (1, "template")]


def test_labels_may_be_any_str_or_int_and_are_unchanged():
    names = ["a", "a\0", "\ud800"]
    labels = [names[number % 3] for number in range(15)]
    assert Classifier(Words(), C=1e6).fit(TEXTS, labels).predict(TEXTS).tolist() == labels
    numbers = [number % 3 for number in range(15)]
    assert Classifier(Words(), C=1e6).fit(TEXTS, numbers).predict(TEXTS).tolist() == numbers


def test_no_texts_have_no_labels(fitted):
    assert fitted.predict([]).shape == (0,)
    assert fitted.predict_proba([]).shape == (0, 3)


MISTAKES = {
    "one label": (lambda new: new.fit(TEXTS, ["alarm"] * 15), "every text has the label 'alarm'"),
    "no texts": (lambda new: new.fit([], []), "there are no texts"),
    "None": (lambda new: new.fit([*TEXTS[:2], None], LABELS[:3]), "text 3 is None"),
    "no str": (lambda new: new.fit([*TEXTS[:2], 3], LABELS[:3]), "text 3 is int"),
    "a str": (lambda new: new.fit("wake me", LABELS), "texts must be a list of texts, not one text"),
    "too few labels": (lambda new: new.fit(TEXTS, LABELS[:4]), "15 texts and 4 labels"),
    "no label": (lambda new: new.fit(TEXTS, [*LABELS[:-1], None]), "label 15 is None"),
    "two types of labels": (lambda new: new.fit(TEXTS, [*LABELS[:-1], 7]), "label 15 is 7"),
    "unknown of another type": (lambda new: new.set_params(unknown=0).fit(TEXTS, LABELS), "unknown is 0"),
    "C": (lambda new: new.set_params(C=0).fit(TEXTS, LABELS), "C is 0; it must be a finite number above 0"),
    "refused": (lambda new: new.set_params(refused=1.5).fit(TEXTS, LABELS), "refused is 1.5"),
    "no such parameter": (lambda new: new.set_params(c=1), "no parameter 'c'; choose from model, embedding, C"),
    "not fitted": (lambda new: new.predict(["wake me"]), "not fitted; call fit"),
    "texts that are None": (lambda new: new.fit(TEXTS, LABELS).predict([None]), "text 1 is None"),
    "labels to score": (lambda new: new.fit(TEXTS, LABELS).score(TEXTS, LABELS[1:]), "15 texts and 14 labels"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_argument_is_named(mistake):
    call, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        call(Classifier(Words()))


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: np.zeros(len(texts)), r"gave float64 \[15\] for 15 texts"),
        (lambda texts: [[1, 2]] * len(texts), r"gave int64 \[15, 2\]"),
        (lambda texts: np.full((len(texts), 2), np.nan), "not finite for 15 of 15 texts, first 'wake me at six'"),
    ],
)
def test_invalid_encoder_output_is_refused(encode, message):
    with pytest.raises(EncoderError, match=message):
        Classifier(encode).fit(TEXTS, LABELS)


def test_a_model_whose_vectors_depend_on_the_other_texts_is_refused():
    with pytest.raises(ValueError, match="subtracts the mean of the texts"):
        Classifier(SimpleNamespace(encode=Words().encode, is_of_one_text=False)).fit(TEXTS, LABELS)


# --- files ------------------------------------------------------------------------------------------------


def test_a_saved_classifier_predicts_the_same_to_the_bit_and_a_later_one_replaces_it(tmp_path):
    model = Words(fingerprint="words 0")
    for unknown in ("other", None, "other"):
        saved = Classifier(model, C=3, unknown=unknown).fit(TEXTS, LABELS)
        saved.save(tmp_path / "intents")
        loaded = Classifier.load(tmp_path / "intents", model)
        assert np.array_equal(loaded.predict_proba(TEXTS), saved.predict_proba(TEXTS))
        assert np.array_equal(loaded.predict(["play quantum"]), saved.predict(["play quantum"]))
        assert loaded.get_params() == saved.get_params()
        assert loaded.threshold_ == saved.threshold_
    assert sorted(path.name for path in (tmp_path / "intents").iterdir()) == [
        "classifier.json", "classifier.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize(("saved", "loaded"), [("a", "b"), ("a", None), (None, "a")])
def test_a_model_with_another_fingerprint_is_refused(tmp_path, saved, loaded):
    Classifier(Words(fingerprint=saved)).fit(TEXTS, LABELS).save(tmp_path / "c")
    with pytest.raises(TrainingError, match="its model is not the one that it was fitted on"):
        Classifier.load(tmp_path / "c", Words(fingerprint=loaded))


def test_a_model_without_a_fingerprint_is_known_by_its_vectors(tmp_path, fitted):
    fitted.save(tmp_path / "c")
    assert Classifier.load(tmp_path / "c", Words().encode).predict(["call bob"])[0] == "call"
    with pytest.raises(TrainingError, match="its model is not the one"):
        Classifier.load(tmp_path / "c", Words(seed=1))
    with pytest.raises(TrainingError, match=r"its model was not loaded from a file\. Name the model as model="):
        Classifier.load(tmp_path / "c")


def test_a_classifier_finds_its_model_by_relative_path_or_name_only(tmp_path):
    static_model().save(tmp_path / "a" / "model")
    Classifier(tmp_path / "a" / "model").fit(TEXTS, LABELS).save(tmp_path / "a" / "c")
    assert str(tmp_path) not in (tmp_path / "a" / "c" / "classifier.json").read_text(encoding="utf-8")
    (tmp_path / "a").rename(tmp_path / "b")
    loaded = Classifier.load(tmp_path / "b" / "c")
    assert loaded.model == tmp_path / "b" / "model"
    record = tmp_path / "b" / "c" / "classifier.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    content["model"]["places"] = [str(tmp_path / "b" / "model"), "no\0where", "A" * 300]
    record.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(TrainingError, match=r"its model is not where it was\. Name the model as model="):
        Classifier.load(tmp_path / "b" / "c")
    Classifier("small").fit(TEXTS, LABELS).save(tmp_path / "small")
    (tmp_path / "small").rename(tmp_path / "b" / "deep")
    assert Classifier.load(tmp_path / "b" / "deep").model == "small"


def test_a_classifier_of_an_earlier_format_asks_to_be_refitted(tmp_path, fitted):
    fitted.save(tmp_path / "c")
    record = tmp_path / "c" / "classifier.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    for number, remedy in ((1, "Fit and save it again"), (99, "Update disent")):
        record.write_text(json.dumps(content | {"format": number}), encoding="utf-8")
        with pytest.raises(TrainingError, match=f"can't read format {number}. {remedy}"):
            Classifier.load(tmp_path / "c", Words())


def test_a_folder_without_classifier_is_neither_read_nor_overwritten(tmp_path, fitted):
    (tmp_path / "mine.txt").write_text("precious", encoding="utf-8")
    with pytest.raises(TrainingError, match="this exists and is not a classifier"):
        fitted.save(tmp_path)
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "precious"
    with pytest.raises(TrainingError, match="no classifier here"):
        Classifier.load(tmp_path, Words())
    with pytest.raises(ValueError, match="not fitted"):
        Classifier(Words()).save(tmp_path / "new")


@pytest.mark.parametrize("damage", ["weights", "json", "classes", "settings", "model"])
def test_a_damaged_classifier_is_refused(tmp_path, fitted, damage):
    fitted.save(tmp_path / "c")
    record, weights = tmp_path / "c" / "classifier.json", tmp_path / "c" / "classifier.safetensors"
    content = json.loads(record.read_text(encoding="utf-8"))
    if damage == "weights":
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    else:
        content |= {"classes": content["classes"][1:]} if damage == "classes" else {}
        content |= {"settings": {"verbose": 1}} if damage == "settings" else {}
        content |= {"model": None} if damage == "model" else {}
        record.write_text("[" * 100_000 if damage == "json" else json.dumps(content), encoding="utf-8")
    with pytest.raises(DamagedError, match=f"{tmp_path / 'c'}: this classifier can't be read .*Fit and save it again"):
        Classifier.load(tmp_path / "c", Words())


# --- scikit-learn -----------------------------------------------------------------------------------------


def test_the_import_loads_neither_scikit_learn_nor_numpy():
    code = "import sys, disent; disent.Classifier; print({'sklearn', 'numpy', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_scikit_learn_tools_accept_a_classifier():
    model = Words()
    new = Classifier(model, C=2.0)
    assert is_classifier(new)
    assert clone(new).get_params() == new.get_params()
    assert clone(new).model is model
    assert np.mean(cross_val_score(new, TEXTS, LABELS, cv=5)) > 0.8
    assert cross_val_predict(new, TEXTS, LABELS, cv=5, method="predict_proba").shape == (15, 3)
    search = GridSearchCV(new, {"C": [1e-6, 10.0]}, cv=3, scoring="accuracy").fit(TEXTS, LABELS)
    assert search.best_estimator_.predict(["call bob"])[0] == "call"
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = Pipeline([("lower", lower), ("classifier", new)]).fit([text.upper() for text in TEXTS], LABELS)
    assert pipeline.set_params(classifier__C=1.0).predict(["CALL BOB"])[0] == "call"
    check_is_fitted(pipeline)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
)
def test_scikit_learn_checks_without_data_pass(check):
    """All others give rows of numbers, which are no texts."""
    check("Classifier", Classifier(Words()))
