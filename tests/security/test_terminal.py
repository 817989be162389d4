"""Texts of a corpus can't inject terminal escapes or SQL."""

import logging

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from disent_assets.cli import main
from disent_assets.cli.group import Printable
from disent_assets.cli.output.tables import render
from disent_core.text import printable

ESCAPES = ("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x00", "\x08\x08", "a\rb", "\u202eabc", "\u2066x", "\x7f",
           "\ud800")  # fmt: skip


@pytest.mark.parametrize("text", ESCAPES)
def test_control_characters_are_shown_escaped(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode("utf-8")
    assert "\\" in shown


@given(st.text())
def test_control_characters_of_a_text_never_reach_the_terminal(text):
    assert all(
        character in "\n\t" or not ("\x00" <= character < " " or "\x7f" <= character <= "\x9f")
        for character in printable(text)
    )


@pytest.mark.parametrize("text", ["line\nline", "a\tb", "日本語", "می\u200cخواهم", "👩\u200d🔬", "é", "ไทย"])
def test_text_of_any_script_is_printed_unchanged(text):
    assert printable(text) == text


@pytest.mark.parametrize("style", ["table", "markdown"])
def test_tables_show_control_characters_escaped_in_cells_and_names(style):
    table = pa.table({"a\x1b[2Jb": ["x\x1b[31m", "y\u202ez"], "list": [["\x9b"], []]})
    shown = render(table, style)
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)
    assert {"table": r"x\x1b[31m", "markdown": r"x\\x1b\[31m"}[style] in shown


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DISENT_HOME", str(tmp_path))
    with duckdb.connect(tmp_path / "warehouse.duckdb") as connection:
        connection.execute("create table texts as select chr(27) || '[2J' as text")
    return tmp_path


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("query", "code"), [("from texts", 0), ("select error('bad ' || text) from texts", 1)])
def test_query_results_and_errors_escape_control_characters(query, code):
    result = CliRunner().invoke(main, ["sql", query])
    assert result.exit_code == code
    assert "\x1b" not in result.output
    assert "\\x1b[2J" in (result.stderr if code else result.stdout)


def test_log_lines_show_control_characters_escaped():
    record = logging.LogRecord("disent_core", logging.WARNING, "", 0, "%s: broken", ("\x1b]0;x\x07",), None)
    assert Printable("%(message)s").format(record) == "\\x1b]0;x\\x07: broken"


@pytest.mark.parametrize("task", ["x' or 'a' = 'a", "'; drop table metrics; --", "x\x1b[2J"])
def test_the_leaderboard_accepts_only_task_names(home, task):
    result = CliRunner().invoke(main, ["leaderboard", task])
    assert result.exit_code == 2
    assert "unknown task" in result.stderr
    assert "\x1b" not in result.output
