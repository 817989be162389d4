"""A refresh of the warehouse records what is new, exactly once, whatever happens to it."""

import multiprocessing
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
import worlds

from disent.query import query
from disent_assets.warehouse.refresh import REGRESSIONS, refresh_warehouse
from disent_assets.web.alerts import regressions_message
from disent_core.errors import TableError
from disent_core.lineage import history
from disent_core.lineage.evaluation_inputs import Provenance
from disent_core.lineage.history import history_files
from disent_core.lineage.state import State
from disent_core.lineage.workspace import Workspace
from disent_core.storage.tables import SCHEMAS, fingerprint, read_table, rows_table, write_table
from tests.sql.made_warehouses import sql_of

METRICS, OUTCOMES = SCHEMAS["metrics"], SCHEMAS["outcomes"]
METRIC = {**worlds.METRIC, "task": "crosslingual_retrieval", "dataset": "one", "metric": "accuracy_at_1"}
EVENTS = "select refresh, event, method, value from history.metrics order by all"


@pytest.fixture
def workspace(load, tmp_path, monkeypatch) -> Workspace:
    """A folder of results, whose warehouse has the relations that are asked here: all of them take seconds."""
    monkeypatch.setattr("disent_assets.warehouse.refresh.SQL", sql_of("runs", "changes", "best"))
    workspace = Workspace(load(worlds.TOY.replace('"raw"', '"raw", "dream"')), tmp_path / "home")
    measured(workspace, raw=0.3, dream=0.5)
    return workspace


def measured(workspace: Workspace, inputs: dict[str, str] | None = None, **values: float) -> None:
    """Write the metrics of methods, as evaluation does."""
    for method, value in values.items():
        embedding = "sentence" if method == "raw" else "meaning"
        trained_on = "" if method == "raw" else "en-de"
        interval = {"ci_low": value - 0.05, "ci_high": value + 0.05}
        row = METRIC | interval | {"method": method, "value": value, "trained_on": trained_on, "embedding": embedding}
        row |= inputs or {}
        path = workspace.table("evaluation", "metrics", "toy", method, "en-de")
        write_table(path, rows_table([row], "metrics"), SCHEMAS["metrics"], inputs=str(value))


def events(workspace: Workspace) -> list[tuple]:
    return [tuple(row.values()) for row in query(workspace.warehouse, EVENTS).to_pylist()]


FIRST = [(1, "new", "dream", 0.5), (1, "new", "raw", 0.3)]


def test_a_refresh_records_what_has_changed(workspace):
    refresh_warehouse(workspace)
    measured(workspace, dream=0.7)
    before = datetime.now(UTC) - timedelta(seconds=90)
    result = refresh_warehouse(workspace, "second", before)
    first, second = query(workspace.warehouse, "select run_id, duration, config from runs").to_pylist()
    assert first == {"run_id": "", "duration": None, "config": workspace.config.path.name}
    assert (second["run_id"], 90 <= second["duration"] < 900) == ("second", True)
    assert events(workspace) == [*FIRST, (2, "changed", "dream", 0.7)]
    assert result.figures["refresh"] == 2
    assert {name: value for name, value in result.figures.items() if name.startswith("numbers/")} == {
        "numbers/new": 0, "numbers/changed": 1, "numbers/confirmed": 0, "numbers/ended": 0,
    }  # fmt: skip
    (change,) = query(workspace.warehouse, "from changes where method = 'dream'").to_pylist()
    assert (change["value_before"], change["value"], change["stands"], change["run_id"]) == (0.5, 0.7, True, "second")
    (_, run) = query(workspace.warehouse, "from runs").to_pylist()
    assert (run["refresh"], run["changed_count"], run["standing_count"]) == (2, 1, 1)


def test_a_value_keeps_the_refresh_that_first_recorded_it(workspace):
    def refreshed() -> dict[str, int | None]:
        refresh_warehouse(workspace)
        return {row["method"]: row["refresh"] for row in query(workspace.warehouse, "from metrics").to_pylist()}

    assert refreshed() == {"raw": 1, "dream": 1}
    measured(workspace, dream=0.7)
    assert refreshed() == {"raw": 1, "dream": 2}
    measured(workspace, {"fingerprint": "of other inputs", "settings": '{"pool_size": 9}'}, raw=0.3, dream=0.7)
    assert refreshed() == {"raw": 1, "dream": 2}
    assert ("confirmed", "raw") in {event[1:3] for event in events(workspace)}
    boards = "from leaderboard union all by name from headline union all by name from best"
    asked = query(workspace.warehouse, f"select distinct method, refresh from ({boards}) order by all").to_pylist()
    assert asked == [{"method": "dream", "refresh": 2}, {"method": "raw", "refresh": 1}]


def test_unchanged_and_failed_refreshes_record_no_history(workspace):
    refresh_warehouse(workspace)
    assert refresh_warehouse(workspace).is_reused
    assert (events(workspace), len(history_files(workspace))) == (FIRST, 1)
    refresh_warehouse(workspace)
    measured(workspace, dream=1.5)
    with pytest.raises(TableError, match="metrics_values_within_bounds"):
        refresh_warehouse(workspace)
    assert len(history_files(workspace)) == 1


def test_a_rebuild_of_the_warehouse_loses_no_history(workspace):
    refresh_warehouse(workspace)
    measured(workspace, dream=0.7)
    refresh_warehouse(workspace)
    before = events(workspace)
    workspace.warehouse.unlink()
    assert not refresh_warehouse(workspace).is_reused
    assert events(workspace) == before


def test_numbers_of_a_removed_file_end_and_begin_again(workspace):
    refresh_warehouse(workspace)
    path = workspace.table("evaluation", "metrics", "toy", "dream", "en-de")
    kept = path.rename(path.with_suffix(".kept"))
    refresh_warehouse(workspace)
    kept.rename(path)
    refresh_warehouse(workspace)
    assert events(workspace) == [*FIRST, (2, "ended", "dream", None), (3, "new", "dream", 0.5)]


def test_the_next_refresh_repairs_a_kill_between_history_and_warehouse(workspace, monkeypatch):
    refresh_warehouse(workspace)
    measured(workspace, dream=0.7)
    with monkeypatch.context() as patch:

        def append_and_die(*arguments: Any, **options: Any) -> None:
            append(*arguments, **options)
            raise KeyboardInterrupt

        append = history.append
        patch.setattr(history, "append", append_and_die)
        with pytest.raises(KeyboardInterrupt):
            refresh_warehouse(workspace)
    assert (events(workspace), len(history_files(workspace))) == (FIRST, 2)
    refresh_warehouse(workspace)
    assert events(workspace) == [*FIRST, (2, "changed", "dream", 0.7)]


def test_a_damaged_history_fails_the_check_until_its_file_is_deleted(workspace):
    refresh_warehouse(workspace)
    history_files(workspace)[0].path.write_bytes(b"")
    for _ in range(2):
        assert not check(refresh_warehouse(workspace))
    assert events(workspace) == [(2, *row[1:]) for row in FIRST]
    next(workspace.home.rglob("*.parquet.damaged")).unlink()
    assert check(refresh_warehouse(workspace))


def test_the_ui_shows_the_largest_changes_of_the_refresh_that_made_them(workspace):
    from disent_assets.lineage.shown import _largest_changes  # not for the processes below, which read this module

    assert not _largest_changes(workspace, refresh_warehouse(workspace))
    measured(workspace, raw=0.31, dream=0.7)
    shown = _largest_changes(workspace, refresh_warehouse(workspace))["largest_changes"].value
    retrieval = r"toy | crosslingual\_retrieval | en\-de | accuracy\_at\_1"
    assert shown.splitlines()[4:] == [
        f"| **dream** | {retrieval} | 0.500 to 0.700, better |",
        f"| raw | {retrieval} | 0.300 to 0.310, better |",
    ]
    assert not _largest_changes(workspace, refresh_warehouse(workspace))


def check(result) -> bool:
    return next(outcome.passed for outcome in result.checks if outcome.check.name == "history_is_complete")


def refresh(home: Path, config: Path) -> None:
    from disent_core.config.load import load_config

    refresh_warehouse(Workspace(load_config(config), home))
    os._exit(0)  # the end of threads of libraries is not what is tested


def test_two_processes_at_once_record_every_row_once(workspace):
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=refresh, args=(workspace.home, workspace.config.path)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert (events(workspace), len(history_files(workspace))) == (FIRST, 1)


# --- what got worse ---


@pytest.fixture
def refreshed(workspace, monkeypatch) -> Callable[..., dict[str, Any]]:
    """Return a function that measures methods, refreshes, and returns the figures of the check of what became worse."""
    monkeypatch.setattr("disent_assets.warehouse.refresh.SQL", sql_of("runs", "changes", "best", "regressions"))
    origins: dict[str, Provenance] = {}
    monkeypatch.setattr(history, "_origins", lambda *_: origins)

    def refresh(data: str = "data", value: float | None = None, **hits: np.ndarray) -> dict[str, Any]:
        for method, items in hits.items():
            made_of = fingerprint(data, items.tolist())
            of = {"fingerprint": made_of, "n": items.shape[1]}
            measured(workspace, of, **{method: float(items.mean()) if value is None else value})
            (row,) = read_table(workspace.table("evaluation", "metrics", "toy", method, "en-de"), METRICS).to_pylist()
            row = {name: row.get(name) for name in OUTCOMES.names}
            runs = [row | {"seed": seed, "columns": 1, "items": run.astype(float)} for seed, run in enumerate(items)]
            path = workspace.table("evaluation", "outcomes", "toy", method, "en-de")
            write_table(path, rows_table(runs, "outcomes"), OUTCOMES, inputs=made_of)
            origins[made_of] = Provenance(made_of, "code", data, made_of, "vectors")
        checks = refresh_warehouse(workspace).checks
        return dict(next(outcome.figures for outcome in checks if outcome.check.name == REGRESSIONS))

    return refresh


TEXTS = np.random.default_rng(0)
HITS = TEXTS.random((3, 400)) < TEXTS.choice([0.2, 1.0], 400)
"""Of three seeds, which find most texts alike."""
SPOILT = HITS & (TEXTS.random(HITS.shape) < 0.92)
REGRESSED = "select method, test, p_holm, difference_low, difference_high from regressions"


def test_a_method_whose_seeds_are_spoilt_is_named_by_a_paired_test_after_one_refresh(workspace, refreshed):
    assert refreshed(dream=HITS) == {"rows": 0}
    (difference,) = {SPOILT.mean() - HITS.mean()}
    assert -0.1 < difference < 0  # within the intervals of 0.05 around both
    outcome = refreshed(dream=SPOILT)
    (row,) = query(workspace.warehouse, REGRESSED).to_pylist()
    assert (row["method"], row["test"]) == ("dream", "seeds_and_items_bootstrap_normal")
    assert row["difference_low"] < difference < row["difference_high"] < 0
    assert row["p_holm"] < 0.01
    assert "method dream" in regressions_message("run", outcome["rows"], outcome["sample"], None)["text"]
    assert refreshed(dream=HITS) == {"rows": 0}
    assert query(workspace.warehouse, "from changes where change = 'better' and p_holm < 0.01").num_rows == 1


def test_changes_without_paired_items_are_judged_by_intervals_with_the_reason(workspace, refreshed):
    refreshed(dream=HITS)
    assert refreshed("other", dream=HITS & False)["rows"] == 1
    shutil.rmtree(workspace.table("warehouse", "items_before", "any").parent)
    refreshed("other", dream=HITS)
    tests = "select test, p_value from history.events where event = 'changed' order by refresh"
    assert [tuple(row.values()) for row in query(workspace.warehouse, tests).to_pylist()] == [
        ("none: other texts", None),
        ("none: items unknown", None),
    ]


def test_a_failed_refresh_keeps_the_items_of_the_last_good_one(workspace, refreshed):
    refreshed(dream=HITS)
    with pytest.raises(TableError, match="metrics_values_within_bounds"):
        refreshed(dream=HITS & False, value=1.5)
    assert refreshed(dream=SPOILT)["rows"] == 1
    kept = [*workspace.table("warehouse", "items_before", "any").parent.rglob("*.parquet")]
    assert [path.stem for path in kept] == ["en-de"]


# --- the week ---


def week(workspace: Workspace, since: datetime) -> dict[str, Any]:
    from disent_assets.lineage.weekly import summed_up

    return summed_up(workspace, since, failed_runs=2)


def test_the_weekly_summary_counts_regressions_improvements_failures_and_stale_assets(workspace, refreshed):
    refreshed(dream=HITS)
    (row,) = query(workspace.warehouse, "select recorded_at from runs").to_pylist()
    refreshed(dream=SPOILT)
    refreshed(dream=HITS)
    stale = State("heads/toy/dream_head", "en-de", "stale", ("corpora/utterances [de]",), is_settled=False)
    refresh_warehouse(workspace, observed=[stale])
    shown = week(workspace, row["recorded_at"].replace(tzinfo=UTC))
    assert shown["summary"].partition(": ")[2] == (
        "1 number worse and 1 better after 3 refreshes, 2 failed runs, 1 not fresh"
    )
    text = (workspace.home / "weekly_summary.md").read_text(encoding="utf-8")
    for name, refresh in (("worse", 2), ("better", 3)):
        (line,) = shown[name].value.splitlines()[4:]
        assert line.startswith(f"| {refresh} | dream | toy |")
        assert line in text
    assert "dream\\_head" in shown["not_fresh"].value
    assert "(plots/warehouse/week.png)" in text
    assert (workspace.plots / "warehouse" / "week.png").is_file()


def test_a_week_without_changes_has_no_picture_and_no_table(workspace, refreshed):
    refreshed(dream=HITS)
    assert set(week(workspace, datetime.now(UTC) + timedelta(days=1))) == {"summary", "markdown"}


def test_the_weekly_summary_refuses_a_warehouse_of_another_version(workspace, refreshed, monkeypatch):
    from disent_assets.lineage import weekly
    from disent_assets.warehouse import refresh

    refreshed(dream=HITS)
    summary, _ = weekly.weekly_assets(workspace)
    with dg.DagsterInstance.ephemeral() as instance:
        failed = dg.materialize([summary], instance=instance, raise_on_error=False)
        (failure,) = failed.get_step_failure_events()
        assert "Run disent materialize warehouse" in str(failure.event_specific_data.user_failure_data.description)
        monkeypatch.setattr(weekly, "SQL", refresh.SQL)
        (made,) = dg.materialize([summary], instance=instance).asset_materializations_for_node(
            "warehouse__weekly_summary"
        )
    assert " 1 failed run, " in made.metadata["summary"].value
