"""The questions of docs/sql.md are answered on a lineage."""

import re
from pathlib import Path

import pytest

from disent.query import query
from tools.doc_queries import SHOWN, questions, write_answers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
QUESTIONS = questions(PAGE.read_text(encoding="utf-8"))


def cells(markdown: str) -> list[list[str]]:
    """The cells of the lines of a table: names, marks, rows."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_question_of_the_page_is_found():
    titles = re.findall(r"^## (\d.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [question.title for question in QUESTIONS] == titles
    assert [int(title.split(".")[0]) for title in titles] == list(range(1, len(titles) + 1))
    assert len(titles) >= 15


def test_every_question_takes_at_most_three_lines():
    assert [question.title for question in QUESTIONS if len(question.sql.splitlines()) > 3] == []
    assert [line for question in QUESTIONS for line in question.sql.splitlines() if len(line) > 120] == []


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.title for question in QUESTIONS])
def test_a_question_is_answered_in_the_columns_that_the_page_shows(finished, question):
    answer = query(finished.home / "warehouse.duckdb", question.sql)
    assert answer.column_names == cells(question.answer)[0]
    assert answer.num_rows or question.title.startswith("29.")  # a first refresh makes nothing worse


def test_every_trained_head_and_every_metrics_table_has_its_cost(finished):
    lacking = "from heads.trainings anti join heads.training_costs using (method, encoder, trained_on)"
    assert finished.ask("select count(*) > 3 as many from heads.trainings") == [{"many": True}]
    assert finished.ask(lacking) == []
    assert finished.ask("from heads.training_costs where not (seconds > 0 and processor_seconds > 0)") == []
    assert finished.ask("from asset_state anti join step_costs using (asset, partition) where method is not null") == []
    assert finished.ask("from step_costs where not (seconds > 0 and processor_seconds > 0)") == []


def test_every_figure_of_a_run_has_the_number_of_its_refresh(finished):
    assert finished.ask("select distinct refresh from metrics") == [{"refresh": 1}]


def test_the_command_for_results_writes_the_answers(finished, tmp_path):
    page = tmp_path / "sql.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert write_answers(page, finished.home / "warehouse.duckdb") == len(QUESTIONS)
    written = questions(page.read_text(encoding="utf-8"))
    assert [(question.title, question.sql) for question in written] == [(each.title, each.sql) for each in QUESTIONS]
    shown = [len(cells(question.answer)) - 2 for question in written]
    assert shown == [min(SHOWN, len(finished.ask(question.sql))) for question in QUESTIONS]
    once = page.read_text(encoding="utf-8")
    write_answers(page, finished.home / "warehouse.duckdb")
    assert page.read_text(encoding="utf-8") == once
