"""Files of results and the tables of pages: what they say about the code that made them is true."""

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow.csv as pc
import pytest

from disent_core.config.load import load_config
from disent_core.evaluation.tasks import translation_retrieval
from disent_core.methods import untrained
from tools import results
from tools.results import (
    EARLIER,
    RESULTS,
    ROOT,
    TABLES,
    Row,
    Table,
    earlier_rows,
    methods_of,
    pages,
    read_rows,
    tables,
    with_missing,
    write_results,
    write_rows,
)

FILE = "crosslingual_retrieval.csv"
LISTED = """[[leaderboards]]
config = "disent.toml"
encoders = ["scratch"]
boards = ["crosslingual_retrieval sample accuracy_at_1"]
"""
PAGE = """Before.
<!-- table: select method, figure(value, ci_low, ci_high) as "en-de" from crosslingual_retrieval -->
<!-- end -->
<!-- earlier -->
none
After.
"""
CLAIM = {"claim": "c", "dataset": "massive", "encoder": "minilm"}


def wrong_rows(project: Path) -> list[Row]:
    """Rows that claim to be of the present code, but whose code the present code and configuration don't make."""
    configured = cache(load_config)
    return [
        row
        for table in tables(project)
        for row in table.rows_of(read_rows(project, table.file))
        if row["code"] != EARLIER and row["code"] != table.code(configured(project / table.config), row)
    ]


def code(method: str, task: str = "crosslingual_retrieval") -> str:
    return results.code_of(load_config(ROOT / "disent.toml"), ["scratch"], [method], [task])


def figure(method: str, value: str, code: str, data: str = "") -> Row:
    board = {"config": "disent.toml", "encoder": "scratch", "task": "crosslingual_retrieval", "dataset": "sample"}
    numbers = {"value": value, "ci_low": "0.1", "ci_high": "0.9", "n": "9", "seeds": "3", "cut_short": ""}
    of_figure = {"metric": "accuracy_at_1", "method": method, "embedding": "meaning", "evaluated_on": "en-de"}
    return {**board, **of_figure, **numbers, "data": data, "code": code}


@pytest.fixture
def project(tmp_path):
    """The demo's configuration with a row of the present code and one of earlier code, and a page that shows both."""
    (tmp_path / "disent.toml").write_text((ROOT / "disent.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "corpora").symlink_to(ROOT / "data" / "corpora")
    (tmp_path / "tools").mkdir()
    (tmp_path / TABLES).write_text(LISTED, encoding="utf-8")
    write_rows(tmp_path, FILE, [figure("raw", "0.5", code("raw")), figure("facet", "0.9", EARLIER)])
    (tmp_path / "README.md").write_text(PAGE, encoding="utf-8")
    return tmp_path


def test_every_result_row_belongs_to_one_table_and_has_data_and_code():
    listed = tables(ROOT)
    assert {table.file for table in listed} == {path.name for path in (ROOT / RESULTS).glob("*.csv")}
    for file in {table.file for table in listed}:
        rows = read_rows(ROOT, file)
        assert all([*row][-2:] == ["data", "code"] and row["code"] for row in rows)
        belonging = [row for table in listed if table.file == file for row in table.rows_of(rows)]
        assert sorted(map(str, belonging)) == sorted(map(str, rows)), file


def test_every_method_states_the_number_of_tried_settings():
    tried = set(pc.read_csv(ROOT / "sql" / "published" / "settings_tried.csv")["method"].to_pylist())
    methods = load_config(ROOT / "configs" / "massive_minilm.toml").experiment.methods
    of_the_same = ("_head", "_1e-3", "_unified")  # and ablations: the settings of the method that they vary
    assert [name for name in methods if name not in tried and "-" not in name and not name.endswith(of_the_same)] == []


def test_the_pages_are_those_of_the_files():
    stale = [path for path, text in pages(ROOT).items() if text != path.read_text(encoding="utf-8")]
    assert stale == [], "run: make tables"


def test_all_figures_are_inside_generated_blocks():
    known = [
        ROOT / "docs" / "claims.md",
        *(ROOT / "docs").glob("results*.md"),
        *(ROOT / "docs" / "claims").glob("*.md"),
    ]
    outside = [results._BLOCK.sub("", page.read_text(encoding="utf-8")) for page in known]
    assert [line for text in outside for line in text.splitlines() if line.startswith("|") and "0." in line] == []


def causes_out_of_step(verdicts: list[Row], explained: list[Row], causes: list[Row]) -> list[str]:
    """Claims that are not held without a cause, and causes of claims that are held."""
    with_cause = {place(row) for row in explained if row["cause"] and row["why"]}
    not_held = [row for row in [*verdicts, *explained] if row.get("verdict", "not held") == "not held"]
    without = [f"{row['claim']} on {row['dataset']} has no cause" for row in not_held if place(row) not in with_cause]
    known = {(row["claim"], row["encoder"]) for row in explained}
    others = [
        f"{row['claim']} is not shown as not held" for row in causes if (row["claim"], row["encoder"]) not in known
    ]
    return list(dict.fromkeys([*without, *others]))


def place(row: Row) -> tuple[str, str, str]:
    return row["claim"], row["dataset"], row["encoder"]


def test_exactly_the_claims_not_held_have_a_cause():
    with (ROOT / "sql" / "published" / "claim_causes.csv").open(encoding="utf-8", newline="") as file:
        causes = list(csv.DictReader(file))
    verdicts, explained = read_rows(ROOT, "claims.csv"), read_rows(ROOT, "claims_not_held.csv")
    assert causes_out_of_step(verdicts, explained, causes) == []


@pytest.mark.parametrize(
    ("verdict", "explained", "cause", "faults"),
    [
        ("not held", [{"cause": "training", "why": "too short"}], True, []),
        ("held", [], False, []),
        ("not held", [], False, ["c on massive has no cause"]),
        ("not held", [{"cause": "", "why": ""}], False, ["c on massive has no cause"]),
        ("held", [], True, ["c is not shown as not held"]),
        ("not held", [{"dataset": "xsid", "cause": "data", "why": "few"}], True, ["c on massive has no cause"]),
        ("not held", [{"encoder": "other", "cause": "data", "why": "few"}], False, ["c on massive has no cause"]),
    ],
)
def test_causes_inconsistent_with_verdicts_are_detected(verdict, explained, cause, faults):
    rows = [CLAIM | row for row in explained]
    assert causes_out_of_step([CLAIM | {"verdict": verdict}], rows, [CLAIM] * cause) == faults


def data_out_of_step(project: Path) -> list[tuple[str, str]]:
    """Configurations and encoders whose rows of the present code were made from several states of the data."""
    data_of_key: dict[tuple[str, str], set[str]] = {}
    for table in tables(project):
        for row in table.rows_of(read_rows(project, table.file)):
            if row["code"] != EARLIER:
                key = table.config, row.get("encoder") or ",".join(table.encoders)
                data_of_key.setdefault(key, set()).add(row["data"])
    return [key for key, data in data_of_key.items() if len(data) > 1]


def test_result_rows_have_valid_code_and_consistent_data_per_encoder():
    assert wrong_rows(ROOT) == []
    assert data_out_of_step(ROOT) == []


@pytest.mark.parametrize(("data", "expected"), [("aaaa", []), ("bbbb", [("disent.toml", "scratch")])])
def test_rows_with_different_data_versions_are_detected(project, data, expected):
    rows = [figure("raw", "0.1", "1234", "aaaa"), figure("dream", "0.1", "5678", data), figure("emu", "0.1", EARLIER)]
    write_rows(project, FILE, rows)
    assert data_out_of_step(project) == expected


@pytest.mark.parametrize(("module", "name"), [(untrained, "RAW"), (translation_retrieval, "CROSSLINGUAL")])
def test_new_code_of_a_method_or_task_invalidates_its_rows(project, monkeypatch, module, name):
    assert wrong_rows(project) == []
    monkeypatch.setattr(module, name, replace(getattr(module, name), code_version="another"))
    assert [row["method"] for row in wrong_rows(project)] == ["raw"]


@pytest.mark.parametrize(
    ("before", "after"),
    [("[methods.facet]\ntemplate_units = 256", "[methods.facet]\ntemplate_units = 255"), ('"raw", ', "")],
)
def test_changed_settings_and_removed_methods_invalidate_rows(project, before, after):
    write_rows(project, FILE, [figure("raw", "0.5", code("raw")), figure("facet", "0.9", code("facet"))])
    config = project / "disent.toml"
    assert before in config.read_text(encoding="utf-8")
    config.write_text(config.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    assert len(wrong_rows(project)) == 1


def test_writing_without_a_warehouse_keeps_figures_and_marks_outdated_rows(project):
    write_rows(project, FILE, [figure("raw", "0.5", "00000000", "dddd"), figure("facet", "0.9", code("facet"), "dddd")])
    assert [*write_results(project, {})][-1] == "Rows of earlier code: 1 of 2."
    kept = read_rows(project, FILE)
    assert [(row["value"], row["data"], row["code"]) for row in kept] == [
        ("0.5", "", EARLIER),
        ("0.9", "dddd", code("facet")),
    ]


def test_writing_changes_only_generated_blocks_and_is_idempotent(project):
    list(write_results(project, {}))
    text = (project / "README.md").read_text(encoding="utf-8")
    before, after = PAGE.split("-->\n<!-- end -->")
    table = "| method | en-de |\n| --- | --- |\n| raw | 0.5 [0.1, 0.9] |\n| facet | 0.9 [0.1, 0.9] |\n"
    assert text == f"{before}-->\n\n{table}<!-- end -->{after.replace('none', 'Rows of earlier code: 1 of 2.')}"
    list(write_results(project, {}))
    assert (project / "README.md").read_text(encoding="utf-8") == text


def test_figures_of_a_leaderboard_method_count_as_one_row(project):
    other = figure("facet", "0.8", EARLIER) | {"evaluated_on": "de-en"}
    write_rows(project, FILE, [*read_rows(project, FILE), other])
    assert earlier_rows(project) == "Rows of earlier code: 1 of 2."


def test_the_code_of_a_row_covers_its_methods_and_tasks():
    assert len({code("raw"), code("dream"), code("raw", "template_retrieval")}) == 3
    assert methods_of({"method_a": "facet", "method_b": "dream", "difference": "0.1"}) == ["facet", "dream"]
    assert methods_of({"left_side": "dream meaning", "right_side": "raw sentence"}) == ["dream", "raw"]


def test_a_small_figure_has_four_decimals_and_a_head_that_was_cut_short_is_marked():
    row = {"method": "dream", "embedding": "meaning", "evaluated_on": "en-de", "n": 9, "seeds": 0, "converged": False}
    figure = results._figure(row | {"value": 0.0003, "ci_low": 0.1, "ci_high": None})
    assert list(figure.values())[3:] == ["0.0003", "0.1000", "", "9", "", "yes"]


@pytest.mark.parametrize(("lacks", "kept"), [("emu", ["emu"]), ("dream", [])])
def test_rows_of_methods_that_a_warehouse_lacks_are_kept_with_their_fingerprints(lacks, kept):
    before = [figure("raw", "0.1", "aaaaaaaa"), figure("emu", "0.2", "bbbbbbbb", "eeeeeeee")]
    written = with_missing([figure("raw", "0.3", "cccccccc")], before, lambda row: lacks in methods_of(row))
    assert written[1:] == [row for row in before if row["method"] in kept]


def test_a_row_with_an_encoder_has_the_code_for_that_encoder():
    config = load_config(ROOT / "configs" / "massive_minilm.toml")
    table = Table("x.csv", "", ("minilm_mean", "minilm_cls", "another"), ("all",), "", {})
    codes = [table.code(config, {"method": "raw", "encoder": name}) for name in ("minilm_mean", "minilm_cls")]
    assert len({table.code(config, {"method": "raw"}), *codes}) == 3
    assert codes[0] == replace(table, encoders=("minilm_mean",)).code(config, {"method": "raw"})
    assert table.code(config, {"method": "raw", "encoder": "another"}) == EARLIER
