"""What `make bench` measures: parts that are replaced alone, the trainings that stand for a method, memory."""

import csv
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import disent
from bench import __main__ as bench
from bench import serve
from bench.measuring import forget_peak, peak_gigabytes
from bench.once import ROOT, once, trained

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


def test_a_partial_run_replaces_only_its_rows_and_a_whole_run_all(docs, monkeypatch):
    names, seconds = run(docs, monkeypatch, "--only", "tables")
    assert names == ["new tables", "old"]
    assert seconds.endswith("each part: tables 0, slots 7; together 7.")
    assert run(docs, monkeypatch, "--only", "slots")[0] == ["new tables", "new slots"]
    assert run(docs, monkeypatch)[0] == ["new tables", "new slots"]
    assert list(json.loads((docs / "benchmarks.json").read_text())) == ["another", "this"]


# --- trainings ---

ROWS = [
    dict(zip(("encoder", "method", "trained_on", "seeds", "processor_seconds"), line.split(), strict=True))
    for line in (
        "minilm_multi dream en-de 3 80",
        "minilm_mean dream en-de 3 8",
        "minilm_mean dream en-es 3 7",
        "minilm_mean dream-half en-de 3 1",
        "minilm_multi emu en-de+en-es+en-ja 1 5",
    )
]
METHODS = {"dream": "dream", "dream-half": "dream", "emu": "emu"}


def test_the_most_expensive_variant_on_the_first_encoder_represents_a_method():
    row_of_method = {row.name: row for row in once(trained(ROWS), METHODS)}
    assert row_of_method.keys() == {"emu", "dream"}
    assert row_of_method["dream"][0] == "minilm_mean"
    assert row_of_method["dream"][2:] == (2, 3, 2, 15.0)
    assert row_of_method["emu"][2:] == (3, 1, 1, 5.0)


def test_the_published_results_contain_the_trainings():
    with (ROOT / "docs/results/trainings.csv").open(encoding="utf-8", newline="") as file:
        assert {"facet", "fine_tuned", "emu"} <= {row.name for row in trained(csv.DictReader(file))}


# --- memory ---


def beyond(megabytes):
    forget_peak()
    before = peak_gigabytes()
    np.ones(megabytes << 17)
    return before, peak_gigabytes() - before


def test_peak_memory_of_a_child_process_excludes_that_of_its_parent():
    np.ones(1_000 << 17)  # 1 GB, which is free again
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        before = workers.submit(peak_gigabytes).result()
        workers.submit(exec, "len(b'1' * (200 << 20))").result()
        peak = workers.submit(peak_gigabytes).result()
    assert before < 0.2
    assert 0.15 < peak < 0.4


def test_a_smaller_piece_of_work_after_a_larger_one_has_the_smaller_peak():
    large, small = beyond(300)[1], beyond(50)[1]
    assert small < large / 3


# --- the load test ---


def test_clients_ask_until_the_end_and_all_are_answered(tmp_path, monkeypatch, capsys):
    disent.Index.build(tmp_path / "index", disent.load(), ["wake me up at nine", "play some jazz"])
    monkeypatch.setattr(
        sys, "argv", ["serve", str(tmp_path / "index"), "--clients", "3", "--seconds", "2", "--half-open", "2"]
    )
    serve.main()
    assert "statuses: {200: " in capsys.readouterr().out


CASES = [([5, 5, 5], False), ([4, 9, 9], False), ([1, 9, 9], True), ([0, 0], True)]


@pytest.mark.parametrize(("counts", "is_starved"), CASES)
def test_a_client_with_far_fewer_answers_than_others_is_starved(counts, is_starved):
    assert serve.is_starved(counts) is is_starved
