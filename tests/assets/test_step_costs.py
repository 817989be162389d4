"""What a step takes: what is measured, which row has it, and what survives."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from toy_steps import toy_step
from worlds import TOY

from disent_assets.lineage.factory import step_asset
from disent_assets.run.steps import steps_in
from disent_assets.warehouse import costs
from disent_assets.warehouse.costs import Meter, cost_rows, refresh_run_table
from disent_core.lineage.result import StepResult
from disent_core.lineage.state import Records, read_record, write_record
from disent_core.lineage.workspace import Workspace
from disent_core.storage.schemas import STEP_COSTS

TEXT = (
    TOY.replace('"de-DE"]', '"de-DE", "es-ES"]').replace('["en-de"]', '["en-de", "en-es"]').replace('"raw"', '"dream"')
)
KEY = ("heads", "toy", "dream_head")


@pytest.fixture
def workspace(load, tmp_path) -> Workspace:
    return Workspace(load(TEXT), tmp_path / "home")


Run = Callable[..., dict]


@pytest.fixture
def run(workspace) -> Run:
    """Run a step whose result is given; returns the metadata of its asset."""

    def run_with(key=KEY, partition="en-de", *, is_reused=False, work=lambda: None, **figures):
        def refresh(_: str) -> StepResult:
            work()
            return StepResult(rows=7, content="c", is_reused=is_reused, figures=figures)

        asset = step_asset(toy_step(key, refresh, partitions=(partition,)), workspace)
        (made,) = dg.materialize([asset], partition_key=partition).get_asset_materialization_events()
        return {name: value.value for name, value in made.materialization.metadata.items()}

    return run_with


def rows(workspace: Workspace) -> list[dict]:
    return cost_rows(Records(workspace, steps_in(workspace)))


def test_a_computed_step_has_a_cost_row_and_keeps_it_when_reused(run, workspace):
    run(steps=12)
    (row,) = rows(workspace)
    of_time = {"made_at", "seconds", "processor_seconds", "peak_memory", "machine"}
    assert {name: value for name, value in row.items() if name not in of_time} == {
        "asset": "heads/toy/dream_head", "partition": "en-de", "stage": "heads", "encoder": "toy", "method": "dream",
        "rows": 7, "texts": None, "steps": 12,
    }  # fmt: skip
    assert row["seconds"] > 0
    assert row["machine"].endswith("cores")
    run()
    before = rows(workspace)
    run(is_reused=True)
    assert rows(workspace) == before


def test_a_recomputed_step_replaces_only_its_cost_row(run, workspace):
    run(partition="en-de")
    run(partition="en-es")
    run(partition="en-de", steps=3)
    assert [(row["partition"], row["steps"]) for row in rows(workspace)] == [("en-de", 3), ("en-es", None)]


def test_a_step_that_waited_for_another_process_keeps_the_cost_of_that_process(run, workspace):
    run(is_reused=True, work=lambda: run(steps=12))
    assert [row["steps"] for row in rows(workspace)] == [12]


def test_asset_metadata_shows_costs_only_if_the_asset_was_computed(run):
    shown = {"seconds", "processor_seconds", "peak_memory_megabytes"}
    assert run().keys() >= shown
    assert not run(is_reused=True).keys() & shown


def test_the_time_of_a_process_that_the_step_started_counts(run, workspace):
    spin = "import time\nwhile time.process_time() < 0.1: pass"
    run(work=lambda: subprocess.run([sys.executable, "-c", spin], check=True))
    (row,) = rows(workspace)
    assert row["processor_seconds"] >= 0.08  # the system counts children in ticks of 10 ms


def test_peak_memory_is_reset_between_steps(run, workspace):
    if Meter().cost().peak_memory is None:
        pytest.skip("this system does not tell")
    run(partition="en-de", work=lambda: bytes(b"1" * (200 << 20)))
    run(partition="en-es")
    large, small = rows(workspace)
    assert large["peak_memory"] - small["peak_memory"] > 150 << 20


def test_a_system_that_cannot_reset_the_peak_reports_none(run, workspace, monkeypatch):
    monkeypatch.setattr(costs, "RESET_PEAK", Path("/nowhere/clear_refs"))
    assert "peak_memory_megabytes" not in run()
    assert rows(workspace)[0]["peak_memory"] is None


def test_a_step_without_recorded_cost_keeps_its_previous_row(run, workspace):
    run(partition="en-de")
    run(partition="en-es")
    refresh_run_table(workspace, STEP_COSTS, rows(workspace))
    before, record = rows(workspace), read_record(workspace, KEY, "en-de")
    for name in ("en-de", "en-es"):
        workspace.record(*KEY, name).unlink()
    write_record(workspace, KEY, "en-de", replace(record, cost=None))
    assert rows(workspace) == before


def test_steps_computed_before_cost_recording_have_no_row(workspace):
    assert rows(workspace) == []
