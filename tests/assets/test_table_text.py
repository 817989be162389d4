"""Tables as text in a terminal of some width."""

import csv
import io
import json
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

from disent_assets.cli.output.tables import render

ROWS = pa.table(
    {
        "method": ["dream", "facet"],
        "note": ["its language embedding finds translations", "日本語の文章はここで折り返されます"],
        "value": [0.25, 0.5],
    }
)


def width_of(line):
    return len(line) + sum(character > "\u3000" for character in line)


def test_a_table_that_fits_is_the_same_in_every_terminal():
    assert render(ROWS, "table", 100) == render(ROWS, "table")


@pytest.mark.parametrize("width", [30, 35, 50])
def test_a_table_that_is_too_wide_has_its_texts_folded(width):
    text = render(ROWS, "table", width)
    assert max(map(width_of, text.splitlines())) <= width
    assert text.splitlines()[0].split() == ["method", "note", "value"]
    assert text.splitlines()[-1] == "(2 rows)"


def test_a_folded_text_is_cut_between_words_and_a_table_too_wide_even_so_is_a_list_for_each_row():
    lines = render(ROWS, "table", 35).splitlines()[2:-1]
    notes = [line[8:].replace("0.250", "").replace("0.500", "").strip() for line in lines]
    assert "".join(notes).replace(" ", "") == "".join(ROWS["note"].to_pylist()).replace(" ", "")
    assert notes[0] == "its language"
    lines = render(ROWS, "table", 20).splitlines()
    assert lines[:4] == [
        "-- row 1",
        "method  dream",
        "note    its language embedding finds translations",
        "value   0.250",
    ]
    assert lines[-1] == "(2 rows)"


@pytest.mark.parametrize("width", [None, 100, 15])
def test_long_texts_are_cut_for_people_and_whole_for_programs(width):
    texts = ["word " * 2000, "x" * 300]
    table = pa.table({"text": texts, "n": [1, 2]})
    for style in ("table", "markdown"):
        shown = render(table, style, width)
        assert len(shown) < 2000
        assert (shown.count("…"), shown.count("x"), shown.count("word")) == (1, 301, 60)
    assert [row["text"] for row in csv.DictReader(io.StringIO(render(table, "csv", width)))] == texts
    assert [row["text"] for row in json.loads(render(table, "json", width))] == texts


@pytest.mark.parametrize("style", ["table", "markdown"])
def test_a_small_p_is_shown_as_a_bound_and_a_small_difference_without_sign(style):
    text = render(pa.table({"p_holm": [0.0004, 0.0005], "difference": [-0.0004, -0.2]}), style)
    assert [row.replace("|", " ").replace("&lt;", "<").split() for row in text.splitlines()[2:4]] == [
        ["<0.001", "0.000"],
        ["0.001", "-0.200"],
    ]


@pytest.mark.parametrize("style", ["csv", "json", "markdown"])
def test_other_formats_do_not_depend_on_the_terminal(style):
    assert render(ROWS, style, 20) == render(ROWS, style)


@pytest.mark.parametrize("style", ["table", "csv", "json", "markdown"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("'infinity'::timestamp", "infinity"),
        ("'-infinity'::date", "-infinity"),
        ("['infinity'::timestamp]", "infinity"),
        ("timestamp '290000-01-01'", "290000-01-01"),
    ],
)
def test_a_time_beyond_python_is_printed_as_by_duckdb(style, value, shown):
    with duckdb.connect(":memory:") as connection:
        assert shown in render(connection.sql(f"select {value} as at, 1 as n").to_arrow_table(), style)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a|b", r"a\|b"),
        (r"a\|b", r"a\\\|b"),
        ("<script>", "&lt;script>"),
        ("![p](http://x)", r"\!\[p](http://x)"),
        ("`code`", r"\`code\`"),
        ("fine_tuned", "fine_tuned"),
        ("0.3 [0.2, 0.4]", "0.3 [0.2, 0.4]"),
        ("-0.1 [-0.2, 0.0]", "-0.1 [-0.2, 0.0]"),
        ("[1](http://x)", "\\[1](http://x)"),
        ("[1][2]", "\\[1][2]"),
        ("see [note]", "see \\[note]"),
    ],
)
def test_markdown_escapes_texts_but_not_intervals(text, cell):
    assert render(pa.table({"text": [text]}), "markdown").splitlines()[2:] == [f"| {cell} |"]


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@sum", "\t=1"])
def test_a_spreadsheet_does_not_compute_a_text(text):
    (_, row) = csv.reader(io.StringIO(render(pa.table({"text": [text], "value": [-0.5]}), "csv"), newline=""))
    assert row == [f"'{text}", "-0.5"]
    assert json.loads(render(pa.table({"text": [text]}), "json")) == [{"text": text}]


def test_nan_and_infinity_are_null_in_json_and_unchanged_in_csv():
    odd = pa.table({"value": [float("nan"), float("-inf")], "listed": [[{"x": float("nan")}, {"x": 0.5}], []]})
    rows = json.loads(render(odd, "json"), parse_constant=pytest.fail)
    assert rows == [{"value": None, "listed": [{"x": None}, {"x": 0.5}]}, {"value": None, "listed": []}]
    assert render(odd, "csv").splitlines() == ["value,listed", 'nan,"[{""x"": null}, {""x"": 0.5}]"', "-inf,[]"]


def test_a_time_is_shown_to_the_second_and_in_full_for_programs():
    table = pa.table({"at": [datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)]})
    assert render(table, "table").splitlines()[2] == "2026-01-02 03:04:05+00:00"
    assert "05.678901+00:00" in render(table, "csv")
