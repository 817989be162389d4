"""Tests bitext mining against loops over all pairs, and which sentences it searches."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_inputs import CONFIG, pair_inputs, problems, scored

from disent_core.evaluation.tasks.bitext_mining import Mined, best_threshold, lost_side, mine

SIZES = st.tuples(st.integers(1, 8), st.integers(1, 8))


def cosines(source, target):
    return np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in target] for a in source])


def margins_by_loop(near, k):
    """Ratio margin of every pair of places, and the best pair of each source and of each target."""
    rows, columns = near.shape
    of_source = [sorted(range(columns), key=lambda j: (-near[i, j], j))[:k] for i in range(rows)]
    of_target = [sorted(range(rows), key=lambda i: (-near[i, j], i))[:k] for j in range(columns)]
    from_source = [np.mean([near[i, j] for j in of_source[i]]) for i in range(rows)]
    from_target = [np.mean([near[i, j] for i in of_target[j]]) for j in range(columns)]
    margin = {(i, j): near[i, j] / ((from_source[i] + from_target[j]) / 2) for i in range(rows) for j in range(columns)}
    best = [max(((i, j) for j in of_source[i]), key=margin.__getitem__) for i in range(rows)]
    best_back = [max(((i, j) for i in of_target[j]), key=margin.__getitem__) for j in range(columns)]
    return margin, best, best_back


def mined_by_loop(near, k, retrieval):
    margin, best, best_back = margins_by_loop(near, k)
    candidates = set(best) & set(best_back) if retrieval == "intersection" else set(best) | set(best_back)
    mined = []
    for pair in sorted(candidates, key=lambda pair: -margin[pair]):
        if all(pair[0] != i and pair[1] != j for i, j in mined):
            mined.append(pair)
    return {pair: margin[pair] for pair in mined}


@given(SIZES, st.integers(1, 5), st.sampled_from(["max", "intersection"]), st.integers(0, 999))
def test_mining_equals_a_loop_over_all_pairs(sizes, k, retrieval, seed):
    rng = np.random.default_rng(seed)
    source, target = (np.abs(rng.normal(size=(size, 4))) for size in sizes)  # cosines are positive
    mined = mine(source, target, neighbours=k, retrieval=retrieval)
    expected = mined_by_loop(cosines(source, target), k, retrieval)
    assert dict(zip(mined.pairs, mined.margins, strict=True)) == pytest.approx(expected, abs=1e-5)
    assert mined.margins.tolist() == sorted(mined.margins, reverse=True)


def test_sentences_without_a_neighbour_of_positive_cosine_are_not_mined():
    mined = mine(np.array([[1.0, 0], [0, 1]]), np.array([[-1.0, 0], [0, 2]]), neighbours=1, retrieval="max")
    assert mined.pairs == [(1, 1)]
    assert not mine(np.eye(2), -np.eye(2), neighbours=2, retrieval="max").pairs


def f1_of(pairs, gold):
    return 2 * len(set(pairs) & gold) / (len(pairs) + len(gold))


@given(st.lists(st.tuples(st.sampled_from([0.9, 1.0, 1.1, 1.2, 1.3]), st.booleans()), min_size=1, max_size=12))
def test_no_other_threshold_has_a_higher_f1(marked):
    marked = sorted(marked, reverse=True)
    margins = np.array([margin for margin, _ in marked])
    pairs = [(place, place) for place in range(len(marked))]
    gold = {pair for pair, (_, is_right) in zip(pairs, marked, strict=True) if is_right} | {(99, 99)}
    threshold = best_threshold(Mined(pairs, margins), gold)

    def above(cut):
        return f1_of([pair for pair, margin in zip(pairs, margins, strict=True) if margin >= cut], gold)

    assert above(threshold) == max(above(cut) for cut in margins)


def test_the_threshold_lies_half_way_between_two_pairs():
    mined = Mined([(0, 0), (1, 1), (2, 5)], np.array([1.4, 1.2, 1.0]))
    assert best_threshold(mined, {(0, 0), (1, 1)}) == pytest.approx(1.1)
    assert best_threshold(Mined([], np.zeros(0)), {(0, 0)}) == 1


ROWS = {f"{split}{place}": (f"s{split}{place}", f"t{split}{place}", {"split": split}) for split in ("dev", "test")
        for place in range(60)}  # fmt: skip


def mining(rows=ROWS, config=CONFIG):
    return problems("bitext_mining", pair_inputs(("de", "en"), rows, "bitext"), config)


def kept(split, lost):
    return [int(name.removeprefix(split)) for name in ROWS if name.startswith(split) and lost_side(name) != lost]


def test_a_third_of_the_pairs_loses_each_side_and_leaves_a_distractor_on_the_other():
    counts = Counter(lost_side(f"pair {place}") for place in range(3_000))
    assert all(900 < counts[side] < 1_100 for side in range(3))
    (problem,) = mining()
    sources, targets = (len(kept("test", lost)) for lost in (0, 1))
    both = len(problem.gold["test"])
    assert problem.evaluated_on == "de-en"
    assert problem.settings["source_distractors"] == sources - both > 0
    assert problem.settings["target_distractors"] == targets - both > 0


def vectors(split, lost, noise, seed):
    """Positive vectors that are near each other where the place of the pair is the same."""
    rows = np.random.default_rng(9).uniform(size=(60, 12))[kept(split, lost)]
    return rows + noise * np.random.default_rng(seed).uniform(size=rows.shape)


@pytest.mark.parametrize("noise", [0.0, 0.7])
@pytest.mark.parametrize("retrieval", ["max", "intersection"])
def test_precision_recall_and_f1_are_those_of_the_pairs_above_the_threshold_of_dev(noise, retrieval):
    (problem,) = mining(config=replace(CONFIG, mining_retrieval=retrieval))
    matrices = {
        f"{split} {side}": vectors(split, lost, noise, 7 * lost + len(split))
        for split in ("dev", "test")
        for lost, side in enumerate(("source", "target"))
    }
    measures = scored(problem, **matrices)
    by_split = {
        split: mined_by_loop(cosines(matrices[f"{split} source"], matrices[f"{split} target"]), 4, retrieval)
        for split in ("dev", "test")
    }
    cuts = sorted(by_split["dev"].values(), reverse=True)
    gold = problem.gold["dev"]
    best = max(f1_of([pair for pair, margin in by_split["dev"].items() if margin >= cut], gold) for cut in cuts)
    threshold = measures["threshold"].value
    mined = [pair for pair, margin in by_split["dev"].items() if margin >= threshold]
    assert f1_of(mined, gold) == pytest.approx(best)
    mined, gold = [pair for pair, margin in by_split["test"].items() if margin >= threshold], problem.gold["test"]
    right = len(set(mined) & gold)
    expected = {"f1": f1_of(mined, gold), "precision": right / len(mined), "recall": right / len(gold)}
    assert {metric: measures[metric].value for metric in expected} == pytest.approx(expected)
    assert (expected["f1"] == 1) if noise == 0 else (0 < expected["f1"] < 1)
    assert {measured.n for measured in measures.values()} == {len(kept("test", 0))}


def loop_lists(rows):
    left = [[], []]
    for name, texts in rows.items():
        for side in (0, 1):
            if lost_side(name) != side and texts[side] not in left[side]:
                left[side].append(texts[side])
    gold = {
        (left[0].index(source), left[1].index(target))
        for source, target, _ in rows.values()
        if source in left[0] and target in left[1]
    }
    return *left, gold


TEXTS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz"), st.just({"split": "test"})), max_size=9)


@given(TEXTS)
def test_lists_and_gold_are_those_of_loops_over_the_pairs(texts):
    of_test = {f"pair {place}": row for place, row in enumerate(texts)}
    source, target, gold = loop_lists(of_test)
    mining_problems = mining({name: row for name, row in ROWS.items() if name.startswith("dev")} | of_test)
    assert bool(mining_problems) == bool(gold)
    for problem in mining_problems:
        assert (problem.texts["test source"].texts, problem.texts["test target"].texts) == (source, target)
        assert problem.gold["test"] == gold


@pytest.mark.parametrize("missing", ["dev", "test"])
def test_without_dev_or_test_pairs_the_task_is_empty(missing):
    assert mining({name: row for name, row in ROWS.items() if not name.startswith(missing)}) == []
