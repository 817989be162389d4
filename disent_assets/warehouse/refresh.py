"""Build the warehouse of a workspace from the tables on disk, unless it is up to date.

This module decides which files to load, and when; SQL and building the database belong elsewhere.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disent_assets.settings.environment import SQL
from disent_assets.warehouse.costs import parts, read_run_table
from disent_assets.warehouse.sql_files import sql_hash
from disent_core.lineage.result import Check, StepResult
from disent_core.lineage.state import State
from disent_core.lineage.tables import refresh_vocabulary, stored_tables, training_costs
from disent_core.lineage.workspace import Workspace
from disent_core.storage.remote import remote_of
from disent_core.storage.results import none_if_damaged, open_result, read_result, sole_maker, write_text_result
from disent_core.storage.schemas import ASSET_STATE, STEP_COSTS
from disent_core.storage.tables import SCHEMAS, content_fingerprint, fingerprint, read_info, read_table, rows_table

if TYPE_CHECKING:
    from disent_assets.warehouse.build import CheckResult

CODE_VERSION = "1"
REGRESSIONS = "no_regressions"  # the check in `sql/checks` for what the last refresh made worse
KEYS = Check("keys_are_unique", "No two rows of a relation have the same key.", blocking=False)
HISTORY = Check("history_is_complete", "No file of the history of metrics was damaged and set aside.", blocking=False)


def code_version() -> str:
    """Return the version of the step; it changes when a view is edited."""
    return f"{CODE_VERSION}.{sql_hash(SQL)[:8]}"


def warehouse_checks() -> dict[str, Check]:
    """Return name -> check: those of the history, of all keys and of `sql/checks`.

    None of them blocks the asset: if a check of severity `error` fails, the old warehouse stays in place anyway.
    """
    paths = sorted((SQL / "checks").glob("*.sql"))
    grains = {
        path.stem: path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("-- grain: one ") for path in paths
    }
    return {
        HISTORY.name: HISTORY,
        KEYS.name: KEYS,
        **{name: Check(name, f"No {grain}.", blocking=False) for name, grain in grains.items()},
    }


def refresh_warehouse(
    workspace: Workspace,
    run_id: str = "",
    began_at: datetime | None = None,
    observed: Sequence[State] = (),
    costs: Sequence[Mapping[str, Any]] = (),
) -> StepResult:
    """Build the warehouse unless it was built from the same tables and SQL; record what is new in it.

    The history is written after the new warehouse has passed its checks and before it is swapped in. If the run is
    killed in between, the next one builds the warehouse again and finds nothing new to record. `run_id` is Dagster's;
    `began_at` is when the command of the run began, if known; `observed` are the states once the warehouse is built;
    `costs` are the rows of `step_costs`.
    """
    from disent_assets.warehouse.build import INPUTS, are_whole, build_warehouse, remove_others
    from disent_core.lineage.history import append, history_files, new_rows, read_history

    with sole_maker(workspace.warehouse):
        refresh_vocabulary(workspace)
        states = state_rows(workspace, observed)
        stored = stored_tables(workspace)
        inputs: dict[str, list[Path] | pa.Table] = {name: stored[name] for name in INPUTS if name in stored}
        infos = {name: [info for path in stored[name] if (info := read_info(path)) is not None] for name in inputs}
        contents = {name: [info.content_hash for info in of_table] for name, of_table in infos.items()}
        # Tables whose files the warehouse only views: none in a bucket, where readers fetch a single file.
        bound = workspace.config.warehouse.copy_rows_below if remote_of(workspace.warehouse) is None else math.inf
        large = [name for name, of_table in infos.items() if sum(info.rows for info in of_table) >= bound]
        inputs_hash = fingerprint(CODE_VERSION, contents, sql_hash(SQL), *([large] if large else []))
        history = read_history(workspace)
        is_intact, last = open_result(workspace.warehouse) is not None, read_build(workspace)
        is_same = last.get("inputs") == inputs_hash and last.get("history") == list(history.files)
        if is_intact and is_same and are_whole(workspace.warehouse, last.get("files", ())):
            changed = _with_states(workspace, last, states)
            return _result(changed or last, history.damaged, {}, is_reused=changed is None)
        metrics = pa.concat_tables(
            [SCHEMAS["metrics"].empty_table(), *(read_table(path, SCHEMAS["metrics"]) for path in stored["metrics"])]
        )
        times = {"recorded_at": datetime.now(UTC), "began_at": began_at}
        added = new_rows(workspace, history, metrics, run_id=run_id, **times)
        inputs["metric_history"] = pa.concat_tables([history.rows, added])
        inputs["asset_state"] = states
        inputs["step_costs"] = rows_table(costs, STEP_COSTS[1])
        inputs["training_costs"] = training_costs(workspace, stored["training_curve"])
        begin = partial(append, workspace, added, inputs=inputs_hash)
        report = build_warehouse(inputs, SQL, workspace.warehouse, begin, large)
        files_before = last.get("files", ())
        last = {
            "inputs": inputs_hash,
            "sql": sql_hash(SQL),
            "history": [file.path.name for file in history_files(workspace)],
            "states": _states_hash(states),
            "checks": {check.name: _outcome(check) for check in report.checks},
            "relations": {name: asdict(of) for name, of in report.contents.items()},
            "files": list(report.files),
            "build_seconds": report.seconds,
        }
        _write(workspace, last)
        remove_others(workspace.warehouse, {*report.files, *files_before})
        return _result(last, history.damaged, Counter(added["event"].to_pylist()), is_reused=False)


def update_states(workspace: Workspace, states: pa.Table) -> None:
    """Write the states at the end of a run into the warehouse, even if its step failed or did not run."""
    with sole_maker(workspace.warehouse):
        last = read_build(workspace)
        if last.get("sql") == sql_hash(SQL) and open_result(workspace.warehouse) is not None:
            _with_states(workspace, last, states)


def _with_states(workspace: Workspace, last: Mapping[str, Any], states: pa.Table) -> dict[str, Any] | None:
    """Replace the states in the warehouse and return its new record; None if the states are the same."""
    from disent_assets.warehouse.build import replace_states

    if last.get("states") == (hashed := _states_hash(states)):
        return None
    check = replace_states(states, SQL, workspace.warehouse)
    changed = {**last, "states": hashed, "checks": {**last["checks"], check.name: _outcome(check)}}
    _write(workspace, changed)
    return changed


def _states_hash(states: pa.Table) -> str:
    return content_fingerprint(states.drop_columns(["since", "recorded_at"]))


def _outcome(check: "CheckResult") -> dict[str, Any]:
    """Return the number of rows that a check returned, and the first of them as text."""
    sample = [", ".join(f"{name} {value}" for name, value in row.items()) for row in check.sample]
    return {"rows": check.offending, **({"sample": sample} if sample else {})}


def read_build(workspace: Workspace) -> dict[str, Any]:
    """Return the record of the last build. It is written after the swap; a run killed in between builds again."""
    written = none_if_damaged(lambda: read_result(workspace.warehouse.with_suffix(".json")))
    return json.loads(written) if written is not None else {}


def newest_refresh(last: Mapping[str, Any]) -> int:
    """Return the number of the newest refresh in the record of a build; 0 if there is none."""
    files = last.get("history") or ["0-0"]
    return int(Path(files[-1]).stem.rpartition("-")[2])


def _write(workspace: Workspace, record: Mapping[str, Any]) -> None:
    write_text_result(workspace.warehouse.with_suffix(".json"), json.dumps(record, indent=2) + "\n")


def state_rows(workspace: Workspace, states: Sequence[State]) -> pa.Table:
    """Return the table of states, with the current time."""
    recorded, now = read_run_table(workspace, ASSET_STATE).to_pylist(), datetime.now(UTC)
    since = {(row["asset"], row["partition"], row["state"]): row["since"] for row in recorded}
    rows = [
        {
            "asset": state.asset,
            "partition": state.partition,
            **parts(state.asset.split("/")),
            "state": state.status,
            "why": "; ".join(state.causes) or None,
            "waits": state.status == "fresh" and not state.is_settled,
            "since": since.get((state.asset, state.partition, state.status), now),
            "recorded_at": now,
        }
        for state in states
    ]
    return rows_table(rows, ASSET_STATE[1])


def _result(last: Mapping[str, Any], damaged: int, events: Mapping[str, int], *, is_reused: bool) -> StepResult:
    from disent_core.lineage.history import EVENTS

    checks = warehouse_checks()
    copies = {name: of["copies"] for name, of in last["relations"].items() if of["copies"]}
    of_keys = {
        "rows": sum(copies.values()),
        **({"sample": [f"{name} {n}" for name, n in copies.items()]} if copies else {}),
    }
    outcomes = {HISTORY.name: {"rows": damaged}, KEYS.name: of_keys, **last["checks"]}
    return StepResult(
        rows=None,
        content=last["inputs"],
        is_reused=is_reused,
        figures={
            "refresh": newest_refresh(last),
            "build_seconds": last["build_seconds"],
            **{f"numbers/{event}": events.get(event, 0) for event in EVENTS},
            "relations": [
                {"relation": name, "rows": of["rows"]}
                for name, of in last["relations"].items()
                if not name.startswith(("papers.", "parts."))
            ],
        },
        checks=tuple(checks[name].result_of_rows(outcome) for name, outcome in outcomes.items()),
    )
