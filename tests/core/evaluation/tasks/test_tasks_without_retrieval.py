"""Similarity, quality, clusters, tags and probes, against SciPy, scikit-learn, seqeval and loops."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import silhouette_samples, silhouette_score
from sklearn.preprocessing import StandardScaler
from task_inputs import CONFIG, Late, pair_inputs, problems, scored, utterance_inputs, utterances

from disent_core.errors import EncoderError
from disent_core.evaluation.tasks import clustering
from disent_core.evaluation.tasks.probes import NEIGHBOURS, PENALTY, knn_probe, linear_probe, mlp_probe
from disent_core.evaluation.tasks.sts import paired_similarity


def similarity(scores, languages=("en", "ar")):
    rows = {str(place): (f"a {place}", f"b {place}", {"score": score}) for place, score in enumerate(scores)}
    return problems("sts", pair_inputs(languages, rows, "similarity"))


def cosines(left, right):
    return [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(left, right, strict=True)]


@given(st.lists(st.sampled_from([0.0, 1.2, 2.6, 5.0]), min_size=4, max_size=30), st.integers(0, 99))
def test_correlations_are_those_of_scipy_with_ties_in_gold_and_cosines(gold, seed):
    (problem,) = similarity(gold)
    rng = np.random.default_rng(seed)
    source, target = rng.normal(size=(2, 3, 4))[:, rng.integers(0, 3, len(gold))]
    measures = scored(problem, source=source, target=target)
    near = np.round(cosines(source, target), 9)  # equal vectors have equal cosines
    if len(set(gold)) > 1 and len(set(near)) > 1:
        assert measures["pearson"].value == pytest.approx(pearsonr(near, gold).statistic, abs=1e-6)
        assert measures["spearman"].value == pytest.approx(spearmanr(near, gold).statistic, abs=1e-6)
    else:
        assert (measures["pearson"].value, measures["spearman"].value) == (0, 0)


def test_monolingual_pairs_repeat_the_language_and_skip_missing_scores():
    (problem,) = similarity([1.0, None, 3.0], ("en", "en"))
    assert problem.evaluated_on == "en-en"
    assert [texts.language for texts in problem.texts.values()] == ["en", "en"]
    assert problem.texts["target"].texts == ["b 0", "b 2"]
    assert problem.embeddings is None


def test_fewer_than_two_gold_scores_give_no_task():
    assert [similarity(gold) for gold in ([], [1.0], [None, None, 2.0])] == [[], [], []]
    assert problems("sts", replace(pair_inputs(("en", "de"), {}, "similarity"), tables={})) == []


def test_a_late_interaction_is_measured_by_its_own_score():
    (problem,) = similarity([0.0, 2.0, 5.0])
    pearson, _ = problem.score({"source": Late([1, 2, 3], np.multiply), "target": Late([1, 1, 4], np.multiply)})
    assert pearson.value == pytest.approx(pearsonr([1, 2, 12], [0, 2, 5]).statistic)
    assert problem.takes_late_interaction


def test_incomparable_embeddings_are_refused():
    with pytest.raises(ValueError, match="Late and ndarray can't be compared"):
        paired_similarity(Late([1.0], np.multiply), np.ones((1, 2)))
    with pytest.raises(EncoderError, match="target: 1 of 1 rows"):
        paired_similarity(np.ones((1, 2)), np.array([[np.inf, 0]]))


def quality(*golds):
    rows = {
        str(place): ("a", f"b {place}", {"score": z_mean, "mean_score": mean})
        for place, (z_mean, mean) in enumerate(golds)
    }
    return problems("qe", pair_inputs(("en", "de"), rows, "quality"))


def test_quality_is_measured_against_each_available_gold_score():
    assert [problem.settings["gold"] for problem in quality((-1.0, None), (0.5, None))] == ["z_mean"]
    by_z, by_mean = quality((-1.0, 10.0), (0.5, 90.0), (0.7, 20.0))
    assert [task_problem.settings["gold"] for task_problem in (by_z, by_mean)] == ["z_mean", "mean"]
    assert (by_z.evaluated_on, by_mean.evaluated_on) == ("en-de", "en-de")
    assert by_z.texts["source"].address == by_mean.texts["source"].address  # so that they are embedded once
    source, target = np.random.default_rng(0).normal(size=(2, 3, 4))
    for problem, gold in ((by_z, [-1.0, 0.5, 0.7]), (by_mean, [10.0, 90.0, 20.0])):
        expected = pearsonr(cosines(source, target), gold).statistic
        assert scored(problem, source=source, target=target)["pearson"].value == pytest.approx(expected, abs=1e-6)


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


def test_blocks_do_not_change_the_sums(monkeypatch):
    monkeypatch.setattr(clustering, "_BLOCK", 7)
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


def test_clustering_skips_missing_intents_and_refuses_non_finite_rows():
    (problem,) = in_one_language(["a", None, "b", "b"])
    assert (problem.texts["en"].texts, problem.labels.tolist()) == (["text 0", "text 2", "text 3"], ["a", "b", "b"])
    with pytest.raises(EncoderError, match="embedding: 1 of 3 rows"):
        scored(problem, en=[[1.0], [np.nan], [0.0]])


TAGS = ["O", "B-a", "I-a", "B-b", "I-b"]
TAGGINGS = st.lists(st.lists(st.tuples(*[st.sampled_from(TAGS)] * 2), min_size=1, max_size=6), min_size=1, max_size=5)


def tag_problem(gold, name="slot_labelling"):
    rows = {str(place): (None, " ".join(f"w{i}" for i in tags), " ".join(tags)) for place, tags in enumerate(gold)}
    tag_problems = problems(name, utterance_inputs({"en": utterances("en", rows)}))
    return tag_problems[0] if tag_problems else None


def tag_measures(gold, tags):
    return {measured.metric: measured for measured in tag_problem(gold).score(tags)}


def strict_spans(tags):
    """(type, start, end) as xSID's script reads them: a B- and all I- that follow."""
    spans = set()
    for start, tag in enumerate(tags):
        if tag[0] == "B":
            end = start + 1
            while end < len(tags) and tags[end][0] == "I":
                end += 1
            spans.add((tag[2:], start, end))
    return spans


@given(TAGGINGS)
def test_the_measures_are_those_of_seqeval_and_of_loops(pairs):
    gold, tags = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    if all(tag == "O" for sentence in gold for tag in sentence):
        assert tag_problem(gold) is None
        return
    measured = tag_measures(gold, tags)
    assert measured["seqeval_f1"].value == pytest.approx(f1_score(gold, tags))
    spans = list(zip(map(strict_spans, gold), map(strict_spans, tags), strict=True))
    hits, sizes = sum(len(left & right) for left, right in spans), sum(len(left) + len(right) for left, right in spans)
    assert measured["span_f1"].value == pytest.approx(2 * hits / sizes if sizes else 0)
    words = [pair for sentence in pairs for pair in sentence]
    hits, sizes = sum(a == b != "O" for a, b in words), sum((a != "O") + (b != "O") for a, b in words)
    assert measured["micro_f1"].value == pytest.approx(2 * hits / sizes)
    assert {measurement.n for measurement in measured.values()} == {len(gold)}


def test_missing_predicted_tags_are_an_error():
    with pytest.raises(ValueError, match="has 2 gold tags and 1 predicted"):
        tag_problem([["B-a", "O"]]).score([["O"]])
    with pytest.raises(ValueError, match="1 sentences have gold tags and 0"):
        tag_problem([["B-a"]]).score([])


def test_entities_are_measured_as_slots_are():
    gold = [["B-per", "I-per", "O"], ["O", "B-loc"]]
    entity_problem = tag_problem(gold, "ner")
    assert (entity_problem.task, entity_problem.evaluated_on) == ("ner", "en")
    assert entity_problem.settings == {"split": "test"}
    assert [measured.value for measured in entity_problem.score(gold)] == [1, 1, 1]
    assert tag_problem([["O"]], "ner") is None


PROBES = ("language_identification", "language_leakage", "language_leakage_knn", "language_leakage_mlp")
NAME = PROBES[0]


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


def test_non_finite_rows_are_refused():
    with pytest.raises(EncoderError, match="probe, test: 1 of 2 rows"):
        linear_probe(np.eye(2), np.array(["a", "b"]), np.array([[0, 1], [np.nan, 1]]))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 999))
def test_the_knn_probe_equals_a_loop_over_cosines(seed):
    rng = np.random.default_rng(seed)
    train, test, labels = rng.normal(size=(60, 4)), rng.normal(size=(9, 4)), rng.choice(list("cab"), 60)
    expected = []
    for row in test:
        cosines = train @ row / np.linalg.norm(train, axis=1)
        votes = labels[np.argsort(-cosines)[:NEIGHBOURS]].tolist()
        expected.append(max(sorted(set(votes)), key=votes.count))
    assert knn_probe(train, labels, test).tolist() == expected


def test_knn_and_mlp_probes_learn_nonlinear_structure():
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    labels = np.where(rows[:, 0] * rows[:, 1] > 0, "en", "de")  # two opposite quadrants each

    def accuracy(probe):
        return (probe(rows[:700], labels[:700], rows[700:]) == labels[700:]).mean()

    assert accuracy(linear_probe) < 0.7
    assert accuracy(knn_probe) > 0.9
    assert accuracy(mlp_probe) > 0.9


def rows_of(split, intents):
    return {f"{split}{place}": (intent, f"{split} {place}") for place, intent in enumerate(intents)}


def both(dev="abab", test="ba", name="dev"):
    tables = {
        language: pa.concat_tables(
            [utterances(language, rows_of("d", dev), name), utterances(language, rows_of("t", test))]
        )
        for language in ("en", "de")
    }
    return utterance_inputs(tables)


def test_the_probe_learns_on_dev_and_is_measured_on_test():
    (problem,) = problems(NAME, both())
    assert problem.evaluated_on == "en-de"
    train, test = ["d 0", "d 1", "d 2", "d 3"], ["t 0", "t 1"]
    expected = {"train en": train, "train de": train, "test en": test, "test de": test}
    assert {role: texts.texts for role, texts in problem.texts.items()} == expected
    assert problem.settings == {"split": "test", "learned_on": "dev", "probe": "ridge", "penalty": PENALTY}


def test_on_dev_a_probe_of_sentence_pairs_learns_from_train_if_that_is_embedded():
    rows = {str(number): (f"e {number}", f"d {number}", {"split": "train"}) for number in range(4)}
    rows |= {str(number): (f"e {number}", f"d {number}", {"split": "dev"}) for number in range(4, 6)}
    inputs, on_dev = pair_inputs(("en", "de"), rows, "bitext"), replace(CONFIG, split="dev")
    (problem,) = problems(NAME, inputs, on_dev)
    assert problem.texts["train en"].texts == ["e 0", "e 1", "e 2", "e 3"]
    assert problems(NAME, replace(inputs, trains=False), on_dev) == []


def test_probes_of_the_language_share_their_texts_and_differ_in_embeddings():
    (asked,), (leaks,), *others = (problems(name, both()) for name in PROBES)
    assert (asked.task, asked.embeddings) == (NAME, ("language", "sentence"))
    assert (leaks.task, leaks.embeddings) == ("language_leakage", ("meaning", "template", "residual", "sentence"))
    assert [(other.task, other.settings["probe"]) for (other,) in others] == [(PROBES[2], "knn"), (PROBES[3], "mlp")]
    for problem in (leaks, *(other for (other,) in others)):
        assert {role: texts.keys for role, texts in problem.texts.items()} == {
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
def test_probes_find_encoded_languages_and_intents(knows):
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
def test_too_few_intents_give_no_intent_probe(dev, test):
    assert intents_of(dev, test) == []


def test_dev_is_measured_with_what_train_teaches():
    config = replace(CONFIG, split="dev")
    inputs = both(name="train")
    assert problems(NAME, inputs, config) == []
    dev = {key: pa.concat_tables([table, utterances(key[1], {"x": ("a", "x")}, "dev")]) for key, table in
           inputs.tables.items()}  # fmt: skip
    (problem,) = problems(NAME, replace(inputs, tables=dev), config)
    assert (problem.texts["test en"].texts, len(problem.texts["train en"])) == (["x"], 4)


def test_bitext_has_only_a_language_probe():
    assert problems(NAME, both("")) == []
    assert problems(NAME, pair_inputs(("de", "en"), {"2": ("zwei", "two")}, "bitext")) == []
    rows = {"1": ("eins", "one", {"split": "dev"}), "2": ("zwei", "two")}
    (problem,) = problems(NAME, pair_inputs(("de", "en"), rows, "bitext"))
    assert (problem.evaluated_on, problem.texts["train de"].texts) == ("de-en", ["eins"])
    measures = scored(problem, **{role: [[float(role.endswith("de"))]] for role in problem.texts})
    assert {metric: measured.value for metric, measured in measures.items()} == {"accuracy": 1}
