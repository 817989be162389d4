"""List the steps of a workspace, with the warehouse as the last, and the states of their partitions."""

from collections.abc import Collection
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from disent_assets.run.costs import cost_rows
from disent_assets.warehouse.refresh import code_version, refresh_warehouse, warehouse_checks
from disent_core.lineage import corpora
from disent_core.lineage.result import StepResult
from disent_core.lineage.state import Records, State, states
from disent_core.lineage.step import Step
from disent_core.lineage.steps import DATABASE, DOWNLOADS, Warehouse, steps
from disent_core.lineage.workspace import Workspace

BUILD = "disent_assets.warehouse.build:build_warehouse"
command: ContextVar[tuple[str, datetime | None]] = ContextVar("command", default=("", None))
"""Dagster's id of the run that this process works for, and the start of its command."""

_STEPS: dict[int, tuple[Workspace, tuple[Step, ...]]] = {}
"""The steps of this process's workspaces by id; each entry keeps its workspace alive, so that no id is reused."""


def steps_in(workspace: Workspace) -> tuple[Step, ...]:
    """Return the steps of a workspace, upstream first; they are listed once."""
    if id(workspace) not in _STEPS:
        checks = tuple(warehouse_checks().values())
        warehouse = Warehouse(code_version(), checks, _make_warehouse, (BUILD,))
        _STEPS[id(workspace)] = workspace, steps(workspace, warehouse)
    return _STEPS[id(workspace)][1]


def states_in(records: Records, **known: Collection[Any]) -> list[State]:
    """Return the states of all partitions of a workspace, upstream first; `known` as for `states`."""
    not_due = [] if corpora.due(records.workspace) else [DOWNLOADS]
    return list(states(records, records.steps, not_due=not_due, **known))


def _make_warehouse(workspace: Workspace) -> StepResult:
    """Build the warehouse with the states at the end of its step, using published files as last observed."""
    records = Records(workspace, steps_in(workspace))
    return refresh_warehouse(workspace, *_run(), states_in(records, made={DATABASE}), cost_rows(records))


def _run() -> tuple[str, datetime | None]:
    """Return Dagster's id of the run, and the start of its command, if known."""
    if (of_command := command.get())[0]:
        return of_command
    import dagster as dg  # which `disent status` does without

    from disent_assets.settings.instance import BEGAN

    try:
        run = dg.AssetExecutionContext.get().run
    except dg.DagsterInvariantViolationError:
        return "", None
    return run.run_id, datetime.fromisoformat(run.tags[BEGAN]) if BEGAN in run.tags else None
