"""The embeddings by which a task ranks methods are those that the task itself names."""

import pytest

from disent_core.evaluation import TASKS, task
from disent_core.lineage.tables import scored_embeddings

RAW = {"method": "raw", "embedding": "sentence", "trained_on": ""}


@pytest.mark.parametrize("name", TASKS)
def test_the_warehouse_ranks_a_task_by_the_embeddings_that_the_task_names(name, published):
    rows = published.ask(f"select embedding from parts.scored_embeddings where task = '{name}' order by preference")
    assert tuple(row["embedding"] for row in rows) == task(name).ranked


def test_preferences_count_from_1():
    rows = scored_embeddings(["language_identification"])
    assert [(row["embedding"], row["preference"]) for row in rows] == [("language", 1), ("sentence", 2)]


def test_of_the_tasks_of_the_library_language_leakage_alone_wants_low_values():
    assert {row["task"] for row in scored_embeddings(TASKS) if row["lower_is_better"]} == {"language_leakage"}


def test_a_task_from_outside_ranks_a_method_by_the_first_of_its_embeddings_that_the_method_has(warehouse):
    far = [{"task": "far", "embedding": name} for name in ("residual", "sentence")]
    far = [{**row, "preference": place} for place, row in enumerate(far, start=1)]
    rows = [{"embedding": name, "value": value} for name, value in (("residual", 0.5), ("meaning", 0.6))]
    metrics = [{**row, "task": "far"} for row in (*rows, {**RAW, "value": 0.4})]
    warehouse.build(metrics=metrics, scored_embeddings=[*scored_embeddings(TASKS), *far])
    board = warehouse.ask("select method, embedding, rank from leaderboard order by rank nulls last")
    assert [tuple(row.values()) for row in board] == [
        ("dream", "residual", 1),
        ("raw", "sentence", 2),
        ("dream", "meaning", None),
    ]
