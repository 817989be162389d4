"""The rows of one part can be measured again: those of the others stay."""

import json
import sys

import pytest

from bench import __main__ as bench
from bench.encoding import distinct

PAGE = "before\n<!-- make bench -->\nold\n<!-- end -->\nafter\n"


def row(name, seconds):
    return {"name": name, "ours_seconds": seconds, "peer_seconds": None, "ratio": None, "note": ""}


MEASURED = {
    "this": {"slots": {"seconds": 7, "rows": [row("old", 1)]}},
    "another": {"slots": {"seconds": 9, "rows": [row("elsewhere", 3)]}},
}


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A page of two parts, `tables` not yet measured, and `slots` with the row `old`; another processor has one row."""
    (tmp_path / "benchmarks.md").write_text(PAGE)
    (tmp_path / "benchmarks.json").write_text(json.dumps(MEASURED))
    monkeypatch.setattr(bench, "processor", lambda: "this")
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setattr(
        bench,
        "parts",
        lambda massive: {name: lambda name=name: [row(f"new {name}", 2)] for name in ("tables", "slots")},
    )
    return tmp_path


def run(docs, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    bench.main()
    lines = (docs / "benchmarks.md").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ") and "what" not in line]
    assert rows[0] == "elsewhere"
    return rows[1:], lines[-3]


def test_one_part_replaces_its_own_rows_alone_and_a_whole_run_every_row(docs, monkeypatch):
    names, seconds = run(docs, monkeypatch, "--only", "tables")
    assert names == ["new tables", "old"]
    assert seconds.endswith("each part: tables 0, slots 7; together 7.")
    assert run(docs, monkeypatch, "--only", "slots")[0] == ["new tables", "new slots"]
    assert run(docs, monkeypatch)[0] == ["new tables", "new slots"]
    assert list(json.loads((docs / "benchmarks.json").read_text())) == ["another", "this"]


def test_the_first_of_equal_utterances_is_encoded():
    rows = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]
    assert distinct(rows, 2) == [("a", "1"), ("b", "2")]
