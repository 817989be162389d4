"""Of a large table the warehouse has a view over its files, with the same columns, rows and checks."""

import shutil
from collections.abc import Collection
from pathlib import Path

import duckdb
import pytest
from made_warehouses import SQL, write_rows

from disent.query import query
from disent_assets.warehouse.build import WarehouseReport, are_whole, build_warehouse
from disent_assets.warehouse.sql_files import Relation, relations
from disent_core.errors import DisentError, TableError

FEW = (
    "tables/corpora/utterances", "tables/negatives/negative_pool", "tables/evaluation/measurements",
    "checks/utterances_grain",
)  # fmt: skip
ROWS = {"utterances": [{}, {"utterance_id": "2", "language": "de"}], "metrics": [{}]}
COLUMNS = """
    select schema_name, table_name, column_name, data_type, comment from duckdb_columns()
    where database_name = 'warehouse' order by all"""


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Path:
    """A folder of SQL with few relations: all of them take seconds."""
    root = tmp_path_factory.mktemp("sql")
    for name in FEW:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SQL / f"{name}.sql", root / f"{name}.sql")
    (root / "published").mkdir()
    shutil.copy(SQL / "columns.csv", root)
    return root


def build(
    folder: Path, sql: Path, large: Collection[str] = ("utterances",), rows: dict[str, list[dict]] = ROWS
) -> WarehouseReport:
    inputs = {name: [write_rows(folder / "in" / f"{name}.parquet", name, of_table)] for name, of_table in rows.items()}
    return build_warehouse(inputs, sql, folder / "warehouse.duckdb", large=large)


def ask(folder: Path, sql: str) -> list[dict]:
    return query(folder / "warehouse.duckdb", sql).to_pylist()


def views(folder: Path) -> set[str]:
    listed = "select view_name as name from duckdb_views() where database_name = 'warehouse' and not internal"
    return {row["name"] for row in ask(folder, listed)}


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "warehouse.files").iterdir())


def test_a_view_over_files_has_the_rows_columns_and_comments_of_the_copy(tmp_path, few):
    copied, viewed = build(tmp_path / "a", few, ()), build(tmp_path / "b", few, ("utterances", "metrics"))
    assert (copied.rows, copied.checks) == (viewed.rows, viewed.checks)
    for asked in (COLUMNS, "from utterances order by all", "from measurements"):
        assert ask(tmp_path / "a", asked) == ask(tmp_path / "b", asked)
    assert (views(tmp_path / "a"), views(tmp_path / "b")) == (set(), {"utterances", "measurements"})
    assert (copied.files, len(viewed.files)) == ((), 2)


def test_every_relation_can_be_built_over_views(tmp_path):
    large = {relation.chosen_from for relation in relations(SQL, {}).values()} & {"utterances", "rankings", "metrics"}
    report = build(tmp_path, SQL, large, {**ROWS, "rankings": [{}]})
    assert {"utterances", "rankings", "measurements"} <= views(tmp_path)
    assert {report.rows[name] for name in ("main.leaderboard", "evaluation.rankings", "main.case_studies")} == {1}


def test_a_check_reads_the_rows_of_a_view(tmp_path, few):
    with pytest.raises(TableError, match="utterances_grain"):
        build(tmp_path, few, rows={"utterances": [{}, {}]})


@pytest.mark.parametrize(
    "sql",
    ["select distinct a from inputs.x", "select a from inputs.x where a", "select max(a) from inputs.x",
     "from inputs.x", "select a from inputs.x join inputs.y", "select a from main.x",
     "select a as b, 1 from inputs.x", ""],
)  # fmt: skip
def test_only_pure_column_selections_become_views(sql):
    assert Relation("main.x", "table", sql).chosen_from == ""
    assert Relation("main.x", "table", "-- reads: inputs.y\nselect\n    a,\n    b\nfrom inputs.x\n").chosen_from == "x"


def test_the_large_tables_of_the_stages_only_choose_columns():
    chosen = {relation.chosen_from for relation in relations(SQL, {}).values()}
    assert {"utterances", "sentence_pairs", "rankings", "training_curve", "masked_utterances"} <= chosen


def test_without_links_the_files_of_a_view_are_copies(tmp_path, few, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    build(tmp_path, few)
    assert len(ask(tmp_path, "from utterances")) == 2


def test_view_files_are_hard_links_that_survive_replacement(tmp_path, few):
    build(tmp_path, few)
    (file,) = kept(tmp_path)
    assert file.samefile(tmp_path / "in/utterances.parquet")
    write_rows(tmp_path / "in/utterances.parquet", "utterances", [{"text": "another"}])
    assert len(ask(tmp_path, "from utterances")) == 2


def test_a_damaged_file_of_a_view_is_noticed_and_replaced(tmp_path, few):
    files = build(tmp_path, few).files
    (file,), path = kept(tmp_path), tmp_path / "warehouse.duckdb"
    assert are_whole(path, files)
    file.unlink()
    file.write_bytes(b"PAR1")
    assert not are_whole(path, files)
    assert build(tmp_path, few).files == files
    assert are_whole(path, files)


def test_a_home_that_is_moved_keeps_its_views(tmp_path, few):
    before = tmp_path / "before"
    build(before, few)
    for name in ("o'clock", "a, b", "all*", "x[a]c", "year=2026"):
        before = before.rename(tmp_path / name)
        assert len(ask(before, "from utterances")) == 2


def test_a_warehouse_that_is_copied_without_its_files_says_what_is_missing(tmp_path, few):
    build(tmp_path, few)
    (tmp_path / "alone").mkdir()
    alone = shutil.copy(tmp_path / "warehouse.duckdb", tmp_path / "alone/copy.duckdb")
    with pytest.raises(TableError, match=r"alone/warehouse\.files: .* is missing\. Copy this folder"):
        query(Path(alone), "from utterances")
    assert query(Path(alone), "from measurements").num_rows == 1


def test_another_client_reads_views_in_place_or_with_the_folder_variable(tmp_path, few):
    build(tmp_path / "before", few)
    asked = "select count(*) from corpora.utterances"
    with duckdb.connect(tmp_path / "before/warehouse.duckdb", read_only=True) as program:
        assert program.sql(asked).fetchall() == [(2,)]
    (tmp_path / "before").rename(tmp_path / "after")
    with duckdb.connect(tmp_path / "after/warehouse.duckdb", read_only=True) as program:
        program.execute(f"set variable warehouse_folder = '{tmp_path / 'after'}'")
        assert program.sql(asked).fetchall() == [(2,)]


def test_queries_on_views_cannot_read_other_files(tmp_path, few):
    build(tmp_path, few)
    for path in ("in/metrics.parquet", "warehouse.files/../in/metrics.parquet"):
        with pytest.raises(DisentError):
            ask(tmp_path, f"from read_parquet('{tmp_path}/{path}')")
