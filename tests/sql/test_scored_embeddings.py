"""The embeddings by which methods enter the leaderboard are the same in SQL and in the tasks."""

import pytest

from disent_core.evaluation import TASKS, task


@pytest.fixture
def vocabulary(published):
    """From task to its embeddings, best first."""
    rows = published.ask("select task, embedding from main.scored_embeddings order by task, preference")
    return {name: tuple(row["embedding"] for row in rows if row["task"] == name) for name in {r["task"] for r in rows}}


@pytest.mark.parametrize("name", TASKS)
def test_sql_ranks_a_task_by_the_embeddings_that_the_task_names(name, vocabulary):
    assert vocabulary.get(name) == task(name).ranked, f"name {name} in sql/published/scored_embeddings.csv"


def test_sql_names_no_task_that_is_neither_registered_nor_published(vocabulary, published):
    rows = published.ask("select distinct task from main.published_metrics")
    assert set(vocabulary) <= set(TASKS) | {row["task"] for row in rows}


def test_preferences_count_from_1(published):
    rows = published.ask("select task, preference from main.scored_embeddings order by all")
    for name in TASKS:
        found = [row["preference"] for row in rows if row["task"] == name]
        assert found == list(range(1, len(found) + 1))
