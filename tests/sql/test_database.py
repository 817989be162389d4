"""The warehouse is built, swapped in, queried and printed."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from made_warehouses import write_rows

from disent.query import attach_warehouse, query
from disent_assets.cli.output.tables import render
from disent_assets.warehouse.build import INPUTS, build_warehouse
from disent_core.errors import DisentError, StorageError, TableError

SQL = Path(__file__).parents[2] / "sql"
RELATIONS = ("leaderboard", "case_studies", "published_metrics")


def names_in(folder: Path) -> list[str]:
    """Names of the files, without their manifests."""
    names = {path.name for path in folder.iterdir() if path.is_file()}
    return sorted(name for name in names if name.removesuffix(".manifest") not in names - {name})


class Replacing:
    """A connection; while it first attaches the file, a rebuild replaces it, before or after DuckDB has opened it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, swap: Callable[[], object], *, is_opened: bool) -> None:
        self.connection, self.swap, self.is_opened, self.statements = connection, swap, is_opened, []

    def execute(self, statement):
        is_first = not self.statements
        self.statements.append(statement.split()[0])
        if is_first:
            self.swap()
            if not self.is_opened:
                raise duckdb.IOException("Could not read enough bytes from file")
        return self.connection.execute(statement)


# --- building ---------------------------------------------------------------------------------------------


def test_without_inputs_every_table_is_there_and_empty(published):
    report = published.report
    assert {report.rows[name] for name in ("main.metrics", "corpora.utterances", "evaluation.rankings")} == {0}
    assert report.rows["main.published_metrics"] == 2720
    assert report.seconds > 0


def test_only_declared_files_are_loaded(warehouse, tmp_path):
    report = build_warehouse({name: [] for name in INPUTS}, warehouse.sql_root, warehouse.path)
    assert report.rows["heads.training_curve"] == 0
    (tmp_path / "in").mkdir()
    (tmp_path / "in/undeclared.parquet").write_text("no Parquet file")
    assert warehouse.build(metrics=[{}, {"evaluated_on": "de-en"}]).rows["main.metrics"] == 2
    warehouse.build(metrics=[{}])
    first = (tmp_path / "in/metrics.parquet").rename(tmp_path / "in/first.parquet")
    warehouse.build(metrics=[{"method": "fmda"}])
    report = build_warehouse({"metrics": [first, tmp_path / "in/metrics.parquet"]}, warehouse.sql_root, warehouse.path)
    assert report.rows["main.metrics"] == 2


@pytest.mark.parametrize("name", ["o'clock; drop table x --", "all* a[b]c 語", "year=2026"])
def test_paths_with_special_characters_are_taken_literally(warehouse, tmp_path, name):
    folder, target = tmp_path / name, tmp_path / "to" / name / f"{name}.duckdb"
    folder.mkdir()
    odd = write_rows(folder / f"{name}.parquet", "metrics", [{}])
    (folder / "all of them.parquet").write_text("matched by a pattern only")
    assert build_warehouse({"metrics": [odd]}, warehouse.sql_root, target).rows["main.metrics"] == 1
    assert names_in(target.parent) == [target.name]
    assert query(target, "from metrics").num_rows == 1


@pytest.mark.parametrize(
    ("table", "name", "problem"),
    [
        ("metrics", "nowhere.parquet", r"nowhere\.parquet: this table does not exist\. Materialise"),
        ("metrics", "bad.parquet", r"bad\.parquet: this table is damaged"),
        ("rankings", "m.parquet", r"m\.parquet: the schema is not that of rankings"),
        ("metrix", "m.parquet", r"not inputs of the warehouse: metrix"),
    ],
)
def test_an_input_that_cannot_be_loaded_is_named(tmp_path, table, name, problem):
    (tmp_path / "bad.parquet").write_text("PAR1")
    write_rows(tmp_path / "m.parquet", "metrics", [])
    with pytest.raises(TableError, match=problem):
        build_warehouse({table: [tmp_path / name]}, SQL, tmp_path / "w.duckdb")


def test_a_folder_without_sql_is_refused(tmp_path):
    with pytest.raises(DisentError, match="no table or view is defined here"):
        build_warehouse({}, tmp_path, tmp_path / "w.duckdb")


# --- swapping ---------------------------------------------------------------------------------------------


def test_an_open_reader_keeps_the_old_rows_and_a_new_one_sees_the_new(warehouse):
    warehouse.build(metrics=[{}])
    with duckdb.connect(warehouse.path, read_only=True) as reader:
        warehouse.build(metrics=[{}, {"method": "fmda"}])
        assert reader.sql("select count(*) from metrics").fetchall() == [(1,)]
        assert warehouse.ask("select count(*) as n from metrics") == [{"n": 2}]


def test_a_failing_build_or_check_changes_nothing(warehouse, sql_copy):
    warehouse.build(metrics=[{}])
    before = warehouse.path.read_bytes(), names_in(warehouse.folder)
    for file in ("tables/main_broken.sql", "views/broken.sql", "checks/broken.sql"):
        (sql_copy / file).write_text("-- severity: error\nselect nothing\nfrom evaluation.measurements\n")
        with pytest.raises(DisentError, match=rf"{Path(file).stem}: Binder Error.*nothing"):
            warehouse.build(sql_copy, metrics=[{}, {"method": "fmda"}])
        (sql_copy / file).unlink()
        assert (warehouse.path.read_bytes(), names_in(warehouse.folder)) == before
    with pytest.raises(TableError, match="metrics_n_positive"):
        warehouse.build(metrics=[{"n": 0}])
    assert (warehouse.path.read_bytes(), names_in(warehouse.folder)) == (before[0], ["warehouse.duckdb"])


# --- the SQL folder ---------------------------------------------------------------------------------------


def test_relations_are_built_in_dependency_order(warehouse, sql_copy):
    (sql_copy / "views/a_first.sql").write_text("select method\nfrom main.z_last\n")
    (sql_copy / "views/z_last.sql").write_text("select method\nfrom main.leaderboard\n")
    assert warehouse.build(sql_copy, metrics=[{}]).rows["main.a_first"] == 1


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"views/one": "main.other", "views/other": "main.one"}, r"in a circle: main\.o"),
        ({"views/late": "inputs.metrics"}, r"main\.late reads inputs\.metrics;"),
        ({"views/encoders": "parts.methods"}, r"main\.encoders is defined twice"),
        ({"checks/mild": "parts.methods"}, r"mild\.sql: this check has no severity"),
    ],
    ids=["relations that read each other", "a view of inputs", "a name that is there twice", "a check of no severity"],
)
def test_invalid_sql_files_are_refused(warehouse, sql_copy, files, problem):
    for name, read in files.items():
        (sql_copy / f"{name}.sql").write_text(f"select 1\nfrom {read}\n")
    with pytest.raises(DisentError, match=problem):
        warehouse.build(sql_copy)


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("figures/fmda.csv", "0.594", "0,594*", r"fmda\.csv: not as expected"),
        ("paper_tables.csv", "fmda,T9,", "fmda,T8,New,true,true,,en_de,,\nfmda,T9,",
         r"paper_tables\.csv:7: labels without units, grouping, ordering"),
    ],
)  # fmt: skip
def test_wrong_published_values_are_refused(warehouse, tmp_path, file, old, new, problem):
    path = shutil.copytree(SQL, tmp_path / "whole") / "published" / file
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(TableError, match=problem):
        warehouse.build(tmp_path / "whole")


def test_relation_names_are_unique_and_main_has_no_intermediate_ones(published):
    relations = published.ask("select schema, name from (show all tables)")
    in_main = {row["name"] for row in relations if row["schema"] == "main"}
    assert {"metrics", "leaderboard", "significance", "claim_verdicts"} <= in_main
    assert {row["name"] for row in relations if row["schema"] == "parts"} >= {"table_cells", "paper_rows", "claims"}
    assert [name for name in in_main if re.search(r"_table\d|_parts|_cells$", name)] == ["claim_cells"]
    names = [
        row["name"] for row in published.ask("select schema, name from (show all tables) where schema <> 'history'")
    ]
    assert len(names) == len(set(names)) > 60


def test_no_timestamp_column_has_a_time_zone(published):
    types = {row["data_type"] for row in published.ask("select data_type from duckdb_columns() where not internal")}
    assert "TIMESTAMP" in types
    assert not [name for name in types if "TIME ZONE" in name]


# --- querying ---------------------------------------------------------------------------------------------


def test_a_query_names_a_relation_with_or_without_its_schema(published):
    for full in ("main.metrics", "corpora.utterances", "papers.fmda_table2", "parts.table_cells"):
        counted = [published.rows(f"select count(*) from {name}") for name in (full, full.split(".")[1])]
        assert counted == [[(published.report.rows[full],)]] * 2


def test_an_ambiguous_relation_name_means_the_one_in_main(warehouse):
    warehouse.build(metrics=[{}])
    with duckdb.connect(warehouse.path) as connection:
        connection.execute("create schema a_first; create table a_first.metrics as select 'other' as method")
    assert warehouse.ask("select method from metrics") == [{"method": "dream"}]


def test_a_query_of_a_file_that_is_absent_or_no_warehouse_says_what_to_do(tmp_path):
    with pytest.raises(TableError, match=r"there is no warehouse\. Run disent materialize"):
        query(tmp_path / "w.duckdb", "select 1")
    (tmp_path / "w.duckdb").write_text("this is no database" * 100)
    with pytest.raises(TableError, match=r"w\.duckdb: can't be opened"):
        query(tmp_path / "w.duckdb", "select 1")


def test_a_warehouse_that_the_disk_fails_to_read_is_not_called_damaged(tmp_path, monkeypatch):
    class Failing:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def execute(self, _):
            raise duckdb.IOException('IO Error: Could not read from file "w.duckdb": Input/output error')

    (tmp_path / "w.duckdb").touch()
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: Failing())
    with pytest.raises(StorageError, match=r"w\.duckdb: the disk failed to read .* check the disk"):
        query(tmp_path / "w.duckdb", "select 1")


def test_a_wrong_query_is_reported_in_one_line(published):
    with pytest.raises(DisentError, match="nowhere does not exist") as caught:
        query(published.path, "select *\nfrom nowhere")
    assert "\n" not in str(caught.value)


# DuckDB draws one where the main module has no file, as in a process that multiprocessing has started.
SHOWN = """
import sys
from pathlib import Path
from disent.query import attach_warehouse, query
from disent_assets.warehouse.build import _new_database
shown = "select current_setting('enable_progress_bar') as shown"
with _new_database(Path(sys.argv[1])) as connection:
    print(query(Path(sys.argv[2]), shown)["shown"].to_pylist(), connection.sql(shown).fetchall())
"""
KERNEL = """
import sys
from types import ModuleType, SimpleNamespace
sys.modules["IPython"], sys.modules["ipywidgets"] = ModuleType("IPython"), None
sys.modules["IPython"].get_ipython = lambda: SimpleNamespace(config={"IPKernelApp": {}})
"""
"""What DuckDB sees of a kernel of Jupyter without ipywidgets."""


def test_duckdb_draws_no_bar_into_the_progress_of_a_command_or_a_notebook(published, tmp_path):
    command = [sys.executable, "-c", KERNEL + SHOWN, tmp_path / "new.duckdb", published.path]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[False] [(False,)]\n"


def test_a_query_may_end_in_a_comment_or_semicolon_and_its_answer_keeps_its_order(published):
    assert query(published.path, "-- one\nselect 1 as one; -- done\n").to_pylist() == [{"one": 1}]
    values = query(published.path, "select value from published_metrics order by value desc nulls last")
    numbers = [value for value in values.column("value").to_pylist() if value is not None]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize(("sql", "problem"), [
    ("select 1; select 2", "2 statements"), ("pivot (select 1 as a) on a using count(*); select 2", "2 statements"),
    (" ;", "empty"), ("-- select 1", "empty"),
])  # fmt: skip
def test_a_query_of_several_statements_or_none_is_refused(published, sql, problem):
    with pytest.raises(DisentError, match=problem):
        query(published.path, sql)


# --- printing ---------------------------------------------------------------------------------------------

ROWS = pa.table(
    {
        "method": ["raw", "fmda", None],
        "value": [0.5, 0.123456789, None],
        "n": [2974, 10, None],
        "text": ["a\nb", "日本", 'say "x", y'],
        "tags": [["O", "B"], [], None],
    }
)


def test_a_table_is_of_fixed_width_with_three_decimals_and_shows_its_columns_without_rows():
    assert render(ROWS, "table") == (
        "method  value     n  text        tags\n"
        "------  -----  ----  ----------  ----------\n"
        'raw     0.500  2974  a b         ["O", "B"]\n'
        "fmda    0.123    10  日本        []\n"
        '                     say "x", y\n'
        "(3 rows)\n"
    )
    assert render(ROWS.slice(0, 0).select(["method", "n"]), "table") == "method  n\n------  -\n(0 rows)\n"


def test_csv_and_json_keep_every_digit_and_json_has_times_as_text():
    assert render(ROWS.select(["method", "value", "text"]), "csv") == (
        'method,value,text\nraw,0.5,"a\nb"\nfmda,0.123456789,日本\n,,"say ""x"", y"\n'
    )
    import json

    assert json.loads(render(ROWS, "json")) == ROWS.to_pylist()
    moment = pa.table({"at": pa.array([0], pa.timestamp("us", tz="UTC"))})
    assert render(moment, "json") == '[\n  {\n    "at": "1970-01-01 00:00:00+00:00"\n  }\n]\n'


@pytest.mark.parametrize(("is_opened", "statements"), [(False, ["attach"] * 2), (True, ["attach", "detach", "attach"])])
def test_a_warehouse_replaced_during_attach_is_reattached(tmp_path, is_opened, statements):
    for name in ("old", "new"):
        with duckdb.connect(str(tmp_path / name)) as connection:
            connection.execute(f"create table names as select '{name}' as name")
    with duckdb.connect() as connection:
        replacing = Replacing(connection, lambda: (tmp_path / "new").rename(tmp_path / "old"), is_opened=is_opened)
        attach_warehouse(replacing, tmp_path / "old")
        assert connection.sql("from warehouse.names").fetchall() == [("new",)]
        assert replacing.statements == statements
