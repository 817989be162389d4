"""Tables of results in README and docs: what they say about the code that made them is true."""

import csv
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pytest

from disent_assets import results
from disent_assets.results import (
    EARLIER,
    NOT_RUN,
    About,
    Block,
    Table,
    blocks,
    earlier_rows,
    result_files,
    shown,
    write_results,
)
from disent_core.config.load import load_config
from disent_core.evaluation.tasks import crosslingual_retrieval
from disent_core.methods import raw

ROOT = Path(__file__).resolve().parents[2]
BLOCK = """Before.
<!-- results disent.toml scratch crosslingual_retrieval: sample accuracy_at_1 -->

| method | en-de | code |
| --- | --- | --- |
| raw | 0.5 | {raw} |
| facet | 0.9 | {facet} |
<!-- end -->
After.
"""


def wrong_rows(project: Path) -> list[str]:
    """Rows that claim to be of the present code, but whose code the present code and configuration don't make."""
    return [
        f"{path.name}: {' | '.join(row)}"
        for path in result_files(project)
        for block in blocks(path.read_text(encoding="utf-8"))
        for config in [load_config(project / block.config)]
        for row in block.table.rows
        if row[-1] != EARLIER and row[-1] != block.code(config, block.table.about(row))
    ]


def code(method: str, task: str = "crosslingual_retrieval") -> str:
    return results.code_of(load_config(ROOT / "disent.toml"), ["scratch"], [method], [task])


@pytest.fixture
def project(tmp_path):
    """The demo's configuration and a page with one row of the present code and one of earlier code."""
    (tmp_path / "disent.toml").write_text((ROOT / "disent.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "corpora").symlink_to(ROOT / "data" / "corpora")
    (tmp_path / "README.md").write_text(BLOCK.format(raw=code("raw"), facet=EARLIER), encoding="utf-8")
    return tmp_path


def test_every_row_is_of_the_present_code_or_says_that_it_is_of_earlier_code():
    assert wrong_rows(ROOT) == []


def test_every_table_of_results_names_its_data_and_code():
    pages = [ROOT / "docs" / "claims.md", *(ROOT / "docs").glob("results*.md")]
    tables = [block.table for page in pages for block in blocks(page.read_text(encoding="utf-8"))]
    columns = [table.columns for table in tables if table.columns]  # a table that no run has filled yet has none
    assert len(columns) > 40
    assert {names[-2:] for names in columns} == {("data", "code")}


def test_every_method_of_the_run_tells_how_many_settings_were_tried_for_it():
    tried = set(pc.read_csv(ROOT / "sql" / "published" / "settings_tried.csv")["method"].to_pylist())
    methods = load_config(ROOT / "configs" / "massive_minilm.toml").experiment.methods
    of_the_same = ("_head", "_1e-3", "_unified")  # and ablations: the settings of the method that they vary
    assert [name for name in methods if name not in tried and "-" not in name and not name.endswith(of_the_same)] == []


def test_no_figure_stands_outside_of_the_comments():
    pages = [ROOT / "README.md", ROOT / "docs" / "claims.md", *(ROOT / "docs").glob("results*.md")]
    outside = [results._BLOCK.sub("", page.read_text(encoding="utf-8")) for page in pages]
    assert [line for text in outside for line in text.splitlines() if line.startswith("|") and "0." in line] == []


def causes_out_of_step(page: str, causes: list[dict[str, str]]) -> list[str]:
    """Claims that a page shows as not held without a cause, and causes of claims that it does not show so."""
    tables = [block.table for block in blocks(page)]
    verdicts = [
        row for table in tables if {"verdict", "encoder"} <= {*table.columns} for row in named_rows(table)
    ]  # rows of an earlier run lack the encoder
    explained = [row for table in tables if "cause" in table.columns for row in named_rows(table)]
    shown_so = {(row["claim"], row["encoder"]) for row in explained}
    places = {place(row) for row in explained if row["cause"] and row["why"]}
    without = [
        f"{row['claim']} on {row['dataset']} has no cause"
        for row in (*verdicts, *explained)
        if row.get("verdict", "not held") == "not held" and place(row) not in places
    ]
    others = [
        f"{row['claim']} is not shown as not held" for row in causes if (row["claim"], row["encoder"]) not in shown_so
    ]
    return list(dict.fromkeys([*without, *others]))


def place(row: dict[str, str]) -> tuple[str, str, str]:
    return row["claim"], row["dataset"], row["encoder"]


def named_rows(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_every_claim_that_is_not_held_has_a_cause_and_no_other_has_one():
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    with (ROOT / "sql" / "published" / "claim_causes.csv").open(encoding="utf-8", newline="") as file:
        assert causes_out_of_step(page, list(csv.DictReader(file))) == []


@pytest.mark.parametrize(
    ("verdict", "row", "cause", "faults"),
    [
        ("not held", "| c | massive | minilm | training | too short |", True, []),
        ("held", "", False, []),
        ("not held", "", False, ["c on massive has no cause"]),
        ("not held", "| c | massive | minilm |  |  |", False, ["c on massive has no cause"]),
        ("held", "", True, ["c is not shown as not held"]),
        ("not held", "| c | xsid | minilm | data | few |", True, ["c on massive has no cause"]),
        ("not held", "| c | massive | other | data | few |", False, ["c on massive has no cause"]),
    ],
)
def test_a_cause_out_of_step_with_the_verdicts_is_found(verdict, row, cause, faults):
    block = "<!-- results disent.toml minilm all: from x -->\n{}\n<!-- end -->\n"
    verdicts = f"| claim | dataset | encoder | verdict |\n|---|---|---|---|\n| c | massive | minilm | {verdict} |"
    page = block.format(verdicts) + block.format(
        f"| claim | dataset | encoder | cause | why |\n|---|---|---|---|---|\n{row}"
    )
    assert causes_out_of_step(page, [{"claim": "c", "encoder": "minilm"}] * cause) == faults


def test_the_pages_count_their_rows_of_earlier_code():
    pages = [path.read_text(encoding="utf-8") for path in result_files(ROOT)]
    assert [text for text in pages if f"<!-- earlier -->\n{earlier_rows(pages)}\n" in text]


def data_out_of_step(project: Path) -> list[tuple[str, str]]:
    """Configurations and encoders whose rows of the present code were made from several states of the data."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in result_files(project):
        for block in blocks(path.read_text(encoding="utf-8")):
            rows = [row for row in named_rows(block.table) if row["code"] != EARLIER]
            for row in rows:
                key = block.config, row.get("encoder", block.encoder)
                found.setdefault(key, set()).add(row.get("data", ""))
    return [key for key, data in found.items() if len(data) > 1]


def test_rows_of_a_configuration_and_encoder_were_made_from_the_same_data():
    assert data_out_of_step(ROOT) == []


@pytest.mark.parametrize(("data", "found"), [("aaaa", []), ("bbbb", [("disent.toml", "scratch")])])
def test_rows_of_two_states_of_the_data_are_found(project, data, found):
    table = Table(("method", "data", "code"), (("raw", "aaaa", "1234"), ("dream", data, "5678"), ("emu", "", EARLIER)))
    page = f"<!-- results disent.toml scratch all: from x -->\n{table.markdown}<!-- end -->"
    (project / "README.md").write_text(page, encoding="utf-8")
    assert data_out_of_step(project) == found


def test_a_method_with_new_code_makes_its_rows_wrong(project, monkeypatch):
    assert wrong_rows(project) == []
    before = code("raw")
    monkeypatch.setattr(raw, "METHOD", replace(raw.METHOD, code_version="another"))
    assert wrong_rows(project) == [f"README.md: raw | 0.5 | {before}"]


def test_a_task_with_new_code_makes_its_rows_wrong(project, monkeypatch):
    task = replace(crosslingual_retrieval.TASK, code_version="another")
    monkeypatch.setattr(crosslingual_retrieval, "TASK", task)
    assert len(wrong_rows(project)) == 1


def test_a_method_with_new_settings_makes_its_rows_wrong(project):
    page = project / "README.md"
    page.write_text(BLOCK.format(raw=code("raw"), facet=code("facet")), encoding="utf-8")
    config = project / "disent.toml"
    config.write_text(
        config.read_text(encoding="utf-8").replace(
            "[methods.facet]\ntemplate_units = 256", "[methods.facet]\ntemplate_units = 255"
        ),
        encoding="utf-8",
    )
    assert wrong_rows(project) == [f"README.md: facet | 0.9 | {code('facet')}"]


def test_a_method_that_the_configuration_no_longer_has_makes_its_rows_wrong(project):
    config = project / "disent.toml"
    config.write_text(config.read_text(encoding="utf-8").replace('"raw", ', ""), encoding="utf-8")
    assert len(wrong_rows(project)) == 1


def test_writing_without_a_warehouse_keeps_the_figures_and_marks_what_is_wrong(project):
    page = project / "README.md"
    page.write_text(BLOCK.format(raw="00000000", facet=code("facet")), encoding="utf-8")
    write_results(project, {})
    assert [(row[1], row[-1]) for row in blocks(page.read_text(encoding="utf-8"))[0].table.rows] == [
        ("0.5", EARLIER),
        ("0.9", code("facet")),
    ]


def test_writing_changes_nothing_outside_of_the_comments_and_names_the_command(project):
    write_results(project, {})
    text = (project / "README.md").read_text(encoding="utf-8")
    assert text.startswith("Before.\n<!-- results")
    assert text.endswith("<!-- end -->\nAfter.\n")
    assert "\n    disent leaderboard crosslingual_retrieval\n" in text


def test_writing_twice_is_writing_once(project):
    write_results(project, {})
    once = (project / "README.md").read_text(encoding="utf-8")
    write_results(project, {})
    assert (project / "README.md").read_text(encoding="utf-8") == once


def test_a_table_that_no_run_has_made_says_so_in_place_of_its_command(project):
    page = project / "README.md"
    page.write_text("<!-- results disent.toml scratch sts: sample pearson -->\n<!-- end -->\n", encoding="utf-8")
    write_results(project, {})
    once = page.read_text(encoding="utf-8")
    assert once.splitlines()[1:-1] == ["", NOT_RUN, ""]
    write_results(project, {})
    assert page.read_text(encoding="utf-8") == once


def test_tables_without_a_run_are_counted_beside_the_rows_of_earlier_code():
    empty = "<!-- results disent.toml scratch sts: sample pearson -->\n<!-- end -->\n"
    counted = earlier_rows([BLOCK.format(raw="aaaaaaaa", facet=EARLIER), empty])
    assert "1 of 2. Tables that have not been run yet: 1 of 2." in counted


def test_the_readme_tells_the_dimension_of_the_demos_facet():
    settings = load_config(ROOT / "disent.toml").methods["facet"].settings
    sizes = (f"{part}_{size}" for part in ("template", "residual") for size in ("units", "words"))
    dimension = sum(getattr(settings, size) for size in sizes)
    assert f'"meaning")  # float32 [1, {dimension}]\n' in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_code_of_a_row_is_of_its_method_and_its_tasks():
    assert len({code("raw"), code("dream"), code("raw", "template_retrieval")}) == 3


def test_a_row_that_compares_two_methods_is_of_both():
    table = Table(("method_a", "method_b", "difference"), (("facet", "dream", "0.1"),))
    assert table.methods(table.rows[0]) == ["facet", "dream"]


def test_a_side_of_a_claim_begins_with_its_method():
    table = Table(("left_side", "right_side"), (("dream meaning", "raw sentence"),))
    assert table.methods(table.rows[0]) == ["dream", "raw"]


def test_figures_of_a_method_stand_in_one_row():
    answer = pa.Table.from_pylist(
        [
            {"method": "dream", "shown_as": on, "value": value, "ci_low": 0.1, "ci_high": 0.9, "n": n, "seeds": 3}
            for on, value, n in (("en-de", 0.5, 299), ("leak", 0.0003, 281))
        ]
    )
    assert shown(answer) == Table(
        ("method", "en-de", "leak", "n", "seeds"),
        (("dream", "0.500 [0.100, 0.900]", "0.0003 [0.1000, 0.9000]", "281-299", "3"),),
    )


def test_a_method_with_a_head_that_was_cut_short_is_marked_and_stays_the_same_method():
    row = {"method": "dream", "value": 0.5, "ci_low": None, "ci_high": None, "n": 9, "seeds": 3}
    answer = [{**row, "shown_as": on, "converged": done} for on, done in (("en-de", True), ("en-ja", False))]
    answer.append({**row, "method": "raw", "shown_as": "en-de", "converged": None})
    table = shown(pa.Table.from_pylist(answer))
    assert table.columns == ("method", "en-de", "en-ja", "n", "seeds")
    assert [row[0] for row in table.rows] == ["dream †", "raw"]
    assert table.methods(table.rows[0]) == ["dream"]


def test_a_line_below_a_table_says_what_the_mark_of_a_method_means():
    block = Block("disent.toml", "scratch", "qe", "mlqe pearson", "")
    marked, plain = (Table(("method", "code"), ((name, EARLIER),)) for name in ("dream †", "dream"))
    assert block.text(marked).endswith("|\n\n† cut short: a seed was still improving in its last epoch, so more epochs "
                                       "may give more.\n<!-- end -->")  # fmt: skip
    assert "†" not in block.text(plain)
    (written,) = blocks(block.text(marked))
    assert (written.table, written.text(written.table)) == (marked, block.text(marked))


def test_a_table_is_read_as_it_was_written():
    table = Table(("method", "value"), (("raw", ""), ("facet", "0.9")))
    assert Table.parse(f"prose\n\n{table.markdown}") == table


@pytest.mark.parametrize(("lacks", "kept"), [("emu", [("emu", "0.2", "eeeeeeee", "bbbbbbbb")]), ("dream", [])])
def test_rows_of_methods_that_a_warehouse_lacks_are_kept_with_their_fingerprints(lacks, kept):
    stamps = ("data", "code")
    before = Table(
        ("method", "en-de", *stamps), (("raw", "0.1", "", "aaaaaaaa"), ("emu", "0.2", "eeeeeeee", "bbbbbbbb"))
    )
    written = Table(("method", "en-de", "data", "code"), (("raw", "0.3", "dddddddd", "cccccccc"),))
    assert written.with_missing(before, lambda about: lacks in about.methods).rows == (*written.rows, *kept)


def test_kept_rows_stand_in_columns_of_their_name():
    before = Table(("method", "en-ja", "en-de", "code"), (("emu", "0.1", "0.2", "bbbbbbbb"),))
    written = Table(("method", "en-de", "n", "data", "code"), (("raw", "0.3", "9", "dddddddd", "cccccccc"),))
    kept = written.with_missing(before, lambda _: True)
    assert kept.columns == ("method", "en-de", "n", "en-ja", "data", "code")
    assert kept.rows == (("raw", "0.3", "9", "", "dddddddd", "cccccccc"), ("emu", "0.2", "", "0.1", "", "bbbbbbbb"))


def test_a_row_that_names_its_encoder_has_the_code_of_that_one():
    config = load_config(ROOT / "configs" / "massive_minilm.toml")
    block = Block("", "minilm_mean,minilm_cls,another", "all", "", "")
    of_one = [block.code(config, About(("raw",), name)) for name in ("minilm_mean", "minilm_cls")]
    assert len({block.code(config, About(("raw",))), *of_one}) == 3
    assert of_one[0] == replace(block, encoder="minilm_mean").code(config, About(("raw",)))
    assert block.code(config, About(("raw",), "another")) == EARLIER


def test_the_encoder_of_a_row_is_its_own_column():
    table = Table(("encoder", "method"), (("minilm", "raw"),))
    assert table.about(table.rows[0]) == About(("raw",), "minilm")
