"""Tests similarity and quality tasks against SciPy and loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from task_inputs import Late, pair_inputs, problems, scored

from disent_core.errors import EncoderError
from disent_core.evaluation.metrics.intervals import aggregate
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


def test_the_interval_ranks_anew_within_every_resampling():
    (problem,) = similarity(np.random.default_rng(0).integers(0, 6, 40).astype(float))
    matrices = np.random.default_rng(1).normal(size=(2, 40, 5))
    measured = scored(problem, source=matrices[0], target=matrices[1])["spearman"]
    drawn = np.random.default_rng(7).integers(0, 40, (200, 40))
    by_loop = [spearmanr(measured.items[rows]).statistic for rows in drawn]
    mean = aggregate([measured], samples=200, seed=7)
    assert (mean.ci_low, mean.ci_high) == pytest.approx(np.percentile(by_loop, [2.5, 97.5]))


def test_one_language_is_named_twice_and_pairs_without_gold_score_are_left_out():
    (problem,) = similarity([1.0, None, 3.0], ("en", "en"))
    assert problem.evaluated_on == "en-en"
    assert [texts.language for texts in problem.texts.values()] == ["en", "en"]
    assert problem.texts["target"].texts == ["b 0", "b 2"]
    assert problem.embeddings is None


def test_fewer_than_two_gold_scores_and_a_corpus_of_utterances_are_no_problem():
    assert [similarity(gold) for gold in ([], [1.0], [None, None, 2.0])] == [[], [], []]
    assert problems("sts", replace(pair_inputs(("en", "de"), {}, "similarity"), tables={})) == []


def test_a_late_interaction_is_measured_by_its_own_score():
    (problem,) = similarity([0.0, 2.0, 5.0])
    pearson, _ = problem.score({"source": Late([1, 2, 3], np.multiply), "target": Late([1, 1, 4], np.multiply)})
    assert pearson.value == pytest.approx(pearsonr([1, 2, 12], [0, 2, 5]).statistic)
    assert problem.takes_late_interaction


def test_what_can_not_be_compared_is_refused():
    with pytest.raises(ValueError, match="Late and ndarray can't be compared"):
        paired_similarity(Late([1.0], np.multiply), np.ones((1, 2)))
    with pytest.raises(EncoderError, match="target: 1 of 1 rows"):
        paired_similarity(np.ones((1, 2)), np.array([[np.inf, 0]]))


# --- quality estimation -----------------------------------------------------------------------------------


def quality(*golds):
    rows = {
        str(place): ("a", f"b {place}", {"score": z_mean, "mean_score": mean})
        for place, (z_mean, mean) in enumerate(golds)
    }
    return problems("qe", pair_inputs(("en", "de"), rows, "quality"))


def test_quality_is_measured_against_the_gold_scores_that_there_are():
    assert [problem.settings["gold"] for problem in quality((-1.0, None), (0.5, None))] == ["z_mean"]
    by_z, by_mean = quality((-1.0, 10.0), (0.5, 90.0), (0.7, 20.0))
    assert [task_problem.settings["gold"] for task_problem in (by_z, by_mean)] == ["z_mean", "mean"]
    assert (by_z.evaluated_on, by_mean.evaluated_on) == ("en-de", "en-de")
    assert by_z.texts["source"].address == by_mean.texts["source"].address  # so that they are embedded once
    source, target = np.random.default_rng(0).normal(size=(2, 3, 4))
    for problem, gold in ((by_z, [-1.0, 0.5, 0.7]), (by_mean, [10.0, 90.0, 20.0])):
        expected = pearsonr(cosines(source, target), gold).statistic
        assert scored(problem, source=source, target=target)["pearson"].value == pytest.approx(expected, abs=1e-6)
