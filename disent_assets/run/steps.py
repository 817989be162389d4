"""List the steps of a workspace, with the warehouse as the last, and the states of their partitions."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import pyarrow as pa

from disent_assets.run.corpus_versions import READ_BY, CorpusVersions, read_sources, record_of
from disent_assets.warehouse.costs import cost_rows, refresh_run_table
from disent_assets.warehouse.refresh import code_version, refresh_warehouse, state_rows, warehouse_checks
from disent_core.lineage import corpora
from disent_core.lineage.result import StepResult
from disent_core.lineage.state import NOT_RECORDED, Records, State, name_of, states
from disent_core.lineage.step import Step
from disent_core.lineage.steps import DATABASE, DOWNLOADS, Warehouse, steps
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.remote import LOOK_SECONDS, looking
from disent_core.storage.results import sole_maker
from disent_core.storage.schemas import ASSET_STATE, STEP_COSTS
from disent_core.storage.tables import SCHEMAS, fingerprint, write_table

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


# --- states ------------------------------------------------------------------------------------------------


def forget_versions(workspace: Workspace) -> None:
    """Make every published file be read again, even unmodified ones."""
    for source in READ_BY:
        record_of(workspace, source).unlink(missing_ok=True)


def observed_contents(versions: Mapping[Key, CorpusVersions]) -> dict[str, str]:
    return {name_of((key, name)): version for key, read in versions.items() for name, version in read.versions.items()}


def find_states(workspace: Workspace, versions: Mapping[Key, CorpusVersions] | None = None) -> list[State]:
    """Return the state of every partition of every asset, upstream first; `versions` if files were just read."""
    read = read_sources(workspace) if versions is None else versions
    unreadable = {(READ_BY[key], name) for key, of_files in read.items() for name in of_files.unreadable}
    with looking(workspace.home, seconds=0.0):
        records = Records(workspace, steps_in(workspace), observed_contents(read))
        return states_in(records, unreadable=unreadable)


def record_states(workspace: Workspace, states: Sequence[State]) -> pa.Table:
    """Write the tables of states and costs, which `disent sql` shows instead of the warehouse's; return the states."""
    with looking(workspace.home, LOOK_SECONDS):
        refresh_run_table(workspace, STEP_COSTS, cost_rows(Records(workspace, steps_in(workspace))))
        with sole_maker(workspace.table(*ASSET_STATE)):
            rows = state_rows(workspace, states)
            name = ASSET_STATE[1]
            write_table(workspace.table(*ASSET_STATE), rows, SCHEMAS[name], inputs=fingerprint(len(rows)))
    return rows


def summary(states: Iterable[State], *, show_all: bool) -> str:
    """Return one line for each partition that is not fresh (with `show_all`, for every partition), and the counts.

    Results of an earlier version of disent that have not been checked since share one line.
    """
    counts: Counter[str] = Counter()
    lines, waiting, not_recorded = [], 0, 0
    for state in states:
        counts[state.status] += 1
        waiting += state.status == "fresh" and not state.is_settled
        not_recorded += (is_old := state.causes == (NOT_RECORDED,))
        if show_all or (state.status != "fresh" and not is_old):
            name = name_of(((state.asset,), state.partition))
            lines.append(f"{state.status:8}{name}{'  <- ' if state.causes else ''}{'; '.join(state.causes[:3])}")
    shown = ("fresh", "stale", "missing", *(["failed"] if counts["failed"] else []))
    total = ", ".join(f"{counts[status]} {status}" for status in shown)
    if not_recorded:
        total += f"\n{not_recorded} of the stale ones: {NOT_RECORDED}."
    if waiting:
        total += f"\n{waiting} of the fresh ones depend on these and are made again if what they read changes."
    if counts["failed"]:
        total += "\nFor the failed ones, correct what their errors name; a run's page in the UI shows its log."
    remedy = "" if counts["fresh"] == counts.total() else "\nRun 'disent materialize' to refresh what is not fresh."
    return "\n".join([*lines, total]) + remedy
