"""`disent shapes`, and the page "shapes.md": a log as a table, CSV, JSON and a page; what is new."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import disent
from disent_assets.cli import main
from disent_assets.cli.shapes import render
from disent_core.shapes import shapes

LOG = ["wake me up at nine", "wake me up at six am", "weck mich um acht auf", "play some jazz", "play some rock music"]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("\n".join(LOG), encoding="utf-8")
    return path


def run(*arguments):
    done = CliRunner().invoke(main, ["shapes", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_log_becomes_a_table_of_patterns(log):
    shown = run(log)
    assert "wake me up at {1}" in shown
    assert "{1}: nine, six am" in shown
    assert "5 texts, 2 shapes; the slots are proposals" in shown


def test_counts_use_the_singular_and_omit_zero(log, tmp_path):
    alone, page = tmp_path / "alone.txt", tmp_path / "page.html"
    alone.write_text("play some jazz", encoding="utf-8")
    shown = run(alone, "--page", page)
    assert "(1 row)\n\n1 text, 1 shape; " in shown
    assert "1 text, 1 shape." in page.read_text(encoding="utf-8")
    assert "not shown" not in shown
    assert run(log, "--most", 1).splitlines()[-1].startswith("not shown: 1 smaller shape;")


def test_shapes_absent_from_the_earlier_log_are_marked_new(log, tmp_path):
    earlier = tmp_path / "old.txt"
    earlier.write_text("play some blues")
    rows = json.loads(run(log, "--since", earlier, "--format", "json"))
    assert {row["pattern"]: row["new"] for row in rows} == {
        "wake me up at {1}": "new", "weck mich um acht auf": "new", "play some {1}": ""
    }  # fmt: skip
    assert "2 shapes, 1 of them new" in run(log, "--since", earlier)


def test_json_and_csv_have_all_slot_values_and_line_numbers(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("\n".join([*LOG, "", " ", "wake  me up at nine"]), encoding="utf-8")
    alarm, _, music = json.loads(run(path, "--format", "json"))
    assert alarm["slots_are"] == "proposed"
    assert alarm["slots"] == [[{"value": "nine", "count": 2}, {"value": "six am", "count": 1}]]
    assert (alarm["lines"], alarm["examples"]) == ([1, 2, 8], ["wake me up at nine", "wake me up at six am"])
    (row, *_) = csv.DictReader(io.StringIO(run(path, "--format", "csv")))
    assert {name: json.loads(row[name]) for name in ("slots", "lines")} == {
        name: alarm[name] for name in ("slots", "lines")
    }
    assert music["lines"] == [4, 5]


def test_lines_without_text_are_left_out_and_counted_and_a_log_without_any_text_is_refused(tmp_path):
    contents = {
        "log.txt": "\na b\n \n",
        "log.jsonl": '{"text": null}\n\n{"text": "a b"}',
        "log.csv": "text\na b\n\n \n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        for command in (["shapes"], ["index", str(tmp_path / f"index of {name}")]):
            done = CliRunner().invoke(main, [command[0], str(tmp_path / name), *command[1:]])
            assert (done.exit_code, done.stderr.count("2 lines without text")) == (0, 1), done.output
    (tmp_path / "log.txt").write_text("\n\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["shapes", str(tmp_path / "log.txt")]).exit_code == 1


def test_the_page_escapes_texts_and_loads_no_external_resources(log, tmp_path):
    run(log, "--page", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "wake me up at {1}" in page
    hostile = render(
        shapes(["<script>alert(1)</script> a", "<script>alert(1)</script> b"], disent.load().encode), "<b>"
    )
    for text in (page, hostile):
        assert "<script" not in text
        assert "http" not in text.replace("http-equiv", "")


def test_the_tutorial_block_prints_the_output_shown_below_it(capsys):
    page = (Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "shapes.md").read_text(encoding="utf-8")
    block = re.search(r"\n```python\n(.*?)```", page, re.DOTALL)[1]
    exec(block, {})
    shown = re.findall(r"^    # (\d.*)$", block, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown
