"""Tests the runner on small invented problems and against counts by hand."""

import json
import logging
from dataclasses import replace
from weakref import WeakSet

import numpy as np
import pytest
from task_inputs import CONFIG, ENGLISH, GERMAN, crosslingual, problems, utterance_inputs, utterances, vectors
from task_inputs import evaluated as run

from disent_core import progress
from disent_core.errors import EncoderError
from disent_core.evaluation.contract import Problem, Texts
from disent_core.evaluation.measurement import Measurement, measured
from disent_core.evaluation.metrics.intervals import wilson
from disent_core.storage.tables import SCHEMAS
from disent_core.text import text_key


def two_embeddings(texts, seed):
    return {"meaning": vectors(texts, seed)["sentence"], "language": vectors(texts, 9)["sentence"]}


def test_a_trained_method_has_a_row_per_seed_and_their_mean():
    metrics = run(crosslingual(ENGLISH, GERMAN), two_embeddings, seeds=[3, 5]).metrics
    assert metrics.schema == SCHEMAS["metrics"]
    assert metrics.column("seed").to_pylist() == [None, 3, 5] * 4
    assert metrics.column("evaluated_on").to_pylist() == ["en-de"] * 6 + ["de-en"] * 6
    assert metrics.column("embedding").to_pylist() == (["meaning"] * 3 + ["language"] * 3) * 2
    mean, *rows = run(crosslingual(ENGLISH, GERMAN), seeds=list(range(12))).metrics.to_pylist()[:13]
    values = [row["value"] for row in rows]
    assert len(set(values)) > 1
    assert mean["value"] == pytest.approx(np.mean(values))
    assert len({row["settings"] for row in (mean, *rows)}) == 1


def test_an_untrained_method_has_the_aggregate_row_alone_with_the_wilson_interval():
    evaluated = run(crosslingual(ENGLISH, GERMAN))
    rows = evaluated.metrics.to_pylist()
    assert [row["seed"] for row in rows] == evaluated.outcomes["seed"].to_pylist() == [None, None]
    expected = wilson(round(rows[0]["value"] * 3), 3)
    assert (rows[0]["ci_low"], rows[0]["ci_high"]) == pytest.approx(expected)
    assert json.loads(rows[0]["settings"]) == {
        "equal_text_counts": False,
        "pool_duplicates": 0,
        "pool_size": 3,
        "split": "test",
        "ties": "lowest",
    }


def test_texts_are_embedded_once_a_seed_however_many_problems_share_them():
    calls = []

    def embed(texts, seed):
        calls.append((texts.language, seed))
        return vectors(texts, seed)

    run(crosslingual(ENGLISH, GERMAN), embed, seeds=[0, 1])
    assert calls == [("en", 0), ("de", 0), ("en", 1), ("de", 1)]


def test_matrices_are_freed_after_their_last_problem():
    class Watched(dict):
        __hash__ = object.__hash__

    alive, counts = WeakSet(), []

    def embed(texts, seed):
        matrices = Watched(vectors(texts, seed))
        alive.add(matrices)
        counts.append(len(alive))
        return matrices

    worlds = [{name: f"{text} {turn}" for name, text in ENGLISH.items()} for turn in range(4)]
    run([problem for world in worlds for problem in crosslingual(world, world)], embed)
    assert counts == [1, 2] * 4


def test_rankings_cover_the_first_or_all_seeds_and_mark_gold():
    evaluated = run(crosslingual(ENGLISH, GERMAN, replace(CONFIG, top_k=2)), seeds=[8, 9])
    metrics, rankings = evaluated.metrics, evaluated.rankings
    assert rankings.schema == SCHEMAS["rankings"]
    rows = rankings.to_pylist()
    assert {row["seed"] for row in rows} == {8}
    assert [row["rank"] for row in rows] == [1, 2] * 6
    first = [row for row in rows if row["rank"] == 1 and row["evaluated_on"] == "en-de"]
    assert np.mean([row["is_gold"] for row in first]) == metrics.column("value")[1].as_py()
    assert all(row["is_gold"] == (row["query_id"] == row["candidate_id"]) for row in rows)
    all_seeds = run(crosslingual(ENGLISH, GERMAN), seeds=[8, 9], config=replace(CONFIG, rankings_seeds="all"))
    assert set(all_seeds.rankings["seed"].to_pylist()) == {8, 9}


def test_no_problems_make_empty_tables_of_the_right_schema():
    evaluated = run([])
    assert all(getattr(evaluated, name).equals(SCHEMAS[name].empty_table()) for name in vars(evaluated))


def test_a_problem_is_scored_only_on_its_embeddings():
    of_language = [replace(problem, embeddings=("language",)) for problem in crosslingual(ENGLISH, GERMAN)]
    evaluated = run(of_language, two_embeddings)
    assert set(evaluated.metrics.column("embedding").to_pylist()) == {"language"}


class Variance(Problem):
    """Of the first two dimensions."""

    def score(self, matrices):
        items = np.concatenate([matrix[:, :2] for matrix in matrices.values()])
        return [
            measured("mean_x", items[:, 0]),
            measured("covariance", items, statistic=lambda samples: samples.prod(axis=2).mean(axis=1)),
            Measurement(metric="rows", value=3.0, n=3),
        ]


def variance():
    roles = {name: Texts("en", [text_key(name)]) for name in ("train", "dev", "test")}
    return Variance(task="v", dataset="toy", evaluated_on="en", texts=roles)


def test_a_task_may_have_several_metrics_and_roles_and_outcomes_are_their_items_row_by_row():
    evaluated = run([variance()], seeds=[1, 2])
    assert evaluated.metrics.column("metric").to_pylist() == ["mean_x"] * 3 + ["covariance"] * 3 + ["rows"] * 3
    assert evaluated.metrics.column("n").to_pylist() == [3] * 9
    assert evaluated.rankings.num_rows == 0
    rows = evaluated.outcomes.to_pylist()
    of_metrics = [("mean_x", 1, 1), ("mean_x", 2, 1), ("covariance", 1, 2), ("covariance", 2, 2)]
    assert [(row["metric"], row["seed"], row["columns"]) for row in rows] == of_metrics
    texts = list(variance().texts.values())
    expected = np.concatenate([vectors(role_texts, 2)["sentence"][:, :2] for role_texts in texts]).astype(np.float32)
    assert np.array_equal(np.array(rows[3]["items"]).reshape(3, 2), expected)
    assert rows[1]["items"] == expected[:, 0].tolist()


def test_the_mean_of_outcomes_is_the_metric_with_the_same_keys():
    evaluated = run(crosslingual(ENGLISH, GERMAN), two_embeddings, seeds=[3, 5])
    keys = [name for name in SCHEMAS["outcomes"].names if name not in ("columns", "items")]
    values = {tuple(row[key] for key in keys): row["value"] for row in evaluated.metrics.to_pylist()}
    rows = evaluated.outcomes.to_pylist()
    assert len(rows) == 8
    for row in rows:
        assert np.mean(row["items"]) == pytest.approx(values[tuple(row[key] for key in keys)])


GOLD = {"1": ("a", "wake me at nine", "O O O B-time"), "2": ("a", "in new york", "O B-place I-place")}


def slots_and_intents():
    inputs = utterance_inputs({"en": utterances("en", GOLD)})
    return [*problems("slot_labelling", inputs), *problems("intent_knn", inputs)]


def test_labellers_are_scored_on_tagging_and_embedding_methods_on_embeddings():
    tags = {0: [["O"] * 4, ["O"] * 3], 1: [row[2].split() for row in GOLD.values()]}
    rows = run(slots_and_intents(), None, lambda problem, seed: tags[seed], seeds=[0, 1]).metrics.to_pylist()
    assert {row["task"] for row in rows} == {"slot_labelling"}
    values = {(row["metric"], row["seed"]): row["value"] for row in rows}
    assert [values["micro_f1", seed] for seed in (0, 1, None)] == [0, 1, 0.5]
    rows = run(slots_and_intents(), lambda texts, seed: {"meaning": np.eye(len(texts))}).metrics
    assert set(rows["task"].to_pylist()) == {"intent_knn"}
    assert run(slots_and_intents(), None, lambda problem, seed: None).metrics.num_rows == 0


@pytest.mark.parametrize(
    ("matrix", "problem"), [(np.full((3, 2), np.nan), "3 of 3 .* first row 0"), (np.ones((2, 2)), r"shape \(2, 2\)")]
)
def test_a_vector_that_is_not_finite_or_lacks_names_embedding_language_and_seed(matrix, problem):
    with pytest.raises(EncoderError, match=f"'meaning' of 3 en texts, seed 4: .*{problem}"):
        run(crosslingual(ENGLISH, GERMAN), lambda texts, seed: {"meaning": matrix}, seeds=[4])


@pytest.mark.parametrize(("name", "columns"), [("pearson", 2), ("median", 1)])
def test_a_metric_that_its_statistic_does_not_reproduce_is_refused(name, columns):
    class Odd(Problem):
        def score(self, matrices):
            items = matrices["query"][:, :columns].squeeze()
            axes = tuple(range(1, items.ndim + 1))
            return [measured(name, items, statistic=lambda samples: np.median(samples, axis=axes))]

    problem = Odd(task="o", dataset="toy", evaluated_on="en", texts=crosslingual(ENGLISH, GERMAN)[0].texts)
    with pytest.raises(ValueError, match=f"{name} is not computed by the statistic of that name"):
        run([problem])


@pytest.mark.parametrize("seeds", [[], [1, 1]])
def test_seeds_must_be_distinct_and_not_empty(seeds):
    with pytest.raises(ValueError, match="seeds are"):
        run([], seeds=seeds)


def test_long_evaluations_log_progress(monkeypatch, caplog):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    with caplog.at_level(logging.INFO, logger="disent_core"):
        run(crosslingual(ENGLISH, GERMAN))
    assert "2 of 2 problems scored" in caplog.messages[-1]
    assert "0 s left" in caplog.messages[-1]
