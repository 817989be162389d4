"""The recorded states of assets: what they say of time, and which of them a query sees."""

from typing import Any

import duckdb
import pytest
from worlds import METRIC, TOY

from disent.query import query
from disent_assets.run.steps import record_states
from disent_assets.warehouse.build import build_warehouse, replace_states
from disent_assets.warehouse.costs import read_run_table
from disent_core.evaluation import TASKS
from disent_core.lineage.state import State
from disent_core.lineage.tables import scored_embeddings
from disent_core.lineage.workspace import Workspace
from disent_core.storage.results import open_result
from disent_core.storage.schemas import ASSET_STATE
from disent_core.storage.tables import SCHEMAS, rows_table
from tests.sql.made_warehouses import sql_of

SQL = sql_of("leaderboard", "best", "asset_state")
SCORE = METRIC | {"task": "crosslingual_retrieval", "embedding": "meaning", "metric": "accuracy_at_1"}
MADE = METRIC["created_at"].replace(tzinfo=None)


@pytest.fixture
def workspace(load, tmp_path) -> Workspace:
    return Workspace(load(TOY), tmp_path / "home")


def metrics_of(method: str, status: str, *causes: str, is_settled: bool = True) -> State:
    return State(f"evaluation/toy/{method}_metrics", "en-de", status, causes, is_settled)


@pytest.fixture
def record(workspace):
    def record_these(*states: State) -> list[dict[str, Any]]:
        record_states(workspace, states)
        return read_run_table(workspace, ASSET_STATE).to_pylist()

    return record_these


def test_a_state_records_since_when_it_holds(record):
    first = record(metrics_of("raw", "fresh"), metrics_of("dream", "fresh"))
    second = record(metrics_of("raw", "fresh"), metrics_of("dream", "stale", "it has changed"))
    assert second[0]["since"] == first[0]["recorded_at"] < second[0]["recorded_at"] == second[1]["since"]
    assert (second[1]["encoder"], second[1]["method"], second[1]["why"]) == ("toy", "dream", "it has changed")


def test_the_state_of_a_corpus_has_no_encoder_or_method(record):
    (row,) = record(State("corpora/utterances", "de", "failed", ("line 3",), False))
    assert (row["stage"], row["encoder"], row["method"], row["partition"]) == ("corpora", None, None, "de")


def build(workspace: Workspace) -> None:
    dream = {"method": "dream", "trained_on": "en-de", "value": 0.45}
    rows = [SCORE | {"method": "raw", "trained_on": ""}, SCORE | dream]
    inputs = {"metrics": rows_table(rows, "metrics"), "asset_state": read_run_table(workspace, ASSET_STATE)}
    inputs["scored_embeddings"] = rows_table(scored_embeddings(TASKS), "scored_embeddings")
    build_warehouse(inputs, SQL, workspace.warehouse)


STALE = "select method, why_stale from {schema}metrics where is_stale"


def test_disent_queries_read_current_states_and_other_clients_those_of_the_last_run(workspace, record):
    record(metrics_of("raw", "fresh"), metrics_of("dream", "stale", "a table has changed"))
    build(workspace)
    record(metrics_of("raw", "fresh", is_settled=False), metrics_of("dream", "fresh"))
    for schema in ("", "main."):
        stale = query(workspace.warehouse, STALE.format(schema=schema)).to_pylist()
        assert stale == [{"method": "raw", "why_stale": "waits"}]
        states = query(workspace.warehouse, f"select state from {schema}asset_state").to_pylist()
        assert states == [{"state": "fresh"}] * 2
        assert opened(workspace, STALE.format(schema=schema)) == [("dream", "stale: a table has changed")]
    for statement in ("show tables", "Show all tables;", "describe"):
        assert query(workspace.warehouse, statement)["name"].to_pylist().count("asset_state") == 1


def test_times_recorded_outside_the_warehouse_have_no_time_zone(workspace, record):
    build(workspace)
    record(metrics_of("raw", "fresh"))
    times = query(workspace.warehouse, "select since, recorded_at from asset_state")
    assert [field.type.tz for field in times.schema] == [None, None]
    assert times["since"][0].as_py() == read_run_table(workspace, ASSET_STATE)["since"][0].as_py().replace(tzinfo=None)


def opened(workspace: Workspace, sql: str) -> list[tuple]:
    """The answer of another program than disent."""
    with duckdb.connect(str(workspace.warehouse), read_only=True) as program:
        return program.execute(sql).fetchall()


def test_replaced_states_go_into_a_copy_and_rerun_the_check(workspace, record):
    record(metrics_of("raw", "fresh"), metrics_of("dream", "fresh"))
    build(workspace)
    with duckdb.connect(str(workspace.warehouse), read_only=True) as reader:
        record(metrics_of("raw", "fresh"), metrics_of("dream", "failed", "a bug"))
        check = replace_states(read_run_table(workspace, ASSET_STATE), SQL, workspace.warehouse)
        assert reader.execute("select count(*) from metrics where is_stale").fetchall() == [(0,)]
    assert opened(workspace, STALE.format(schema="")) == [("dream", "failed: a bug")]
    assert [(row["method"], row["numbers"]) for row in check.sample] == [("dream", 1)]
    assert open_result(workspace.warehouse) is not None


def test_leaderboard_and_best_show_staleness_and_as_of_date(workspace, record):
    record(metrics_of("raw", "fresh"), metrics_of("dream", "stale", "a table has changed"))
    build(workspace)
    boards = "select method, is_stale, as_of from {} order by method"
    assert opened(workspace, boards.format("leaderboard")) == [("dream", True, MADE), ("raw", False, MADE)]
    # The best is current, and the runner-up is not.
    (best,) = opened(workspace, "select method, runner_up, is_stale, as_of from best")
    assert best == ("raw", "dream", True, MADE)


def test_numbers_of_an_untrained_method_are_stale_only_if_the_partition_has_their_languages(workspace, record):
    places = ("en-de", "en-ja", "ja-en", "ja", "de", "de+en+ja")
    named = [{"training_set": "named", "pairs": ["en-ja"], "languages": ["en", "ja"]}]
    rows = [METRIC | {"method": "raw", "trained_on": "", "evaluated_on": place} for place in places]
    inputs = {"metrics": rows_table(rows, "metrics"), "asset_state": read_run_table(workspace, ASSET_STATE)}
    inputs["training_sets"] = rows_table(named, "training_sets")
    build_warehouse(inputs, SQL, workspace.warehouse)
    for partition in ("en-ja", "named"):
        record(State("evaluation/toy/raw_metrics", partition, "failed", ("line 3",), False))
        stale = query(workspace.warehouse, "select evaluated_on from metrics where is_stale order by all")
        assert stale["evaluated_on"].to_pylist() == ["en-ja", "ja", "ja-en"]


COMPARED, DATABASE = "evaluation/toy/toy_comparisons", "warehouse/database"
OUTDATED = {
    "it has not read the comparisons": State(DATABASE, None, "stale", (f"{COMPARED}: its content has changed",), False),
    "the comparisons have not read the metrics": State(
        COMPARED, None, "stale", ("evaluation/toy/raw_metrics [en-de]: its content has changed",), False
    ),
    "the metrics were not compared": State(COMPARED, None, "failed", ("the disk is full",), False),
    "it was not built": State(DATABASE, None, "failed", ("3 of 19 checks of the warehouse failed",), False),
}
OTHER = ("evaluation/toys/comparisons: its content has changed", "corpora/utterances [de]: its content has changed")


def test_numbers_are_stale_if_the_warehouse_is_older_than_their_tables(workspace, record):
    fresh = metrics_of("raw", "fresh"), metrics_of("dream", "fresh")
    record(*fresh, State(DATABASE, None, "stale", OTHER, False))
    build(workspace)
    assert query(workspace.warehouse, "from metrics where is_stale").num_rows == 0
    reasons = "select distinct why_stale, count() as n from metrics group by all"
    for why, reader in OUTDATED.items():
        record(*fresh, reader)
        (row,) = query(workspace.warehouse, reasons).to_pylist()
        assert row == {"why_stale": "the warehouse may be older than this table", "n": 2}, why
        for view in ("leaderboard", "headline"):
            assert query(workspace.warehouse, f"from {view} where is_stale").num_rows == 2, why


def test_without_a_record_the_table_of_states_is_empty(workspace):
    assert read_run_table(workspace, ASSET_STATE).equals(SCHEMAS["asset_state"].empty_table())
    build(workspace)
    assert query(workspace.warehouse, "from asset_state").num_rows == 0


def test_a_damaged_record_is_set_aside(workspace, record, caplog):
    record(metrics_of("raw", "fresh"))
    workspace.table(*ASSET_STATE).write_bytes(b"PAR1")
    assert read_run_table(workspace, ASSET_STATE).num_rows == 0
    assert "all.parquet.damaged" in caplog.text
    assert len(record(metrics_of("raw", "fresh"))) == 1
