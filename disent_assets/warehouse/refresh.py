"""Build the warehouse of a workspace from the tables on disk, unless it is up to date.

What belongs here: which files are loaded, and when. What does not: SQL, and how the database is built.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from disent_assets.run.costs import read_run_table
from disent_assets.settings.environment import SQL
from disent_assets.warehouse.sql_files import sql_hash
from disent_core.lineage.result import Check, StepResult
from disent_core.lineage.tables import refresh_vocabulary, stored_tables, training_costs
from disent_core.lineage.workspace import Workspace
from disent_core.storage.remote import remote_of
from disent_core.storage.results import none_if_damaged, open_result, read_result, sole_maker, write_text_result
from disent_core.storage.schemas import ASSET_STATE, STEP_COSTS
from disent_core.storage.tables import SCHEMAS, fingerprint, read_info, read_table

CODE_VERSION = "1"
HISTORY = Check("history_is_complete", "No file of the history of metrics was damaged and set aside.", blocking=False)


def warehouse_checks() -> dict[str, Check]:
    """Return the check of the history, and those of `sql/checks`, by name.

    None of them blocks the asset: if a check of severity `error` fails, the last warehouse stays in place anyway.
    """
    paths = sorted((SQL / "checks").glob("*.sql"))
    texts = {path.stem: path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("-- ") for path in paths}
    return {HISTORY.name: HISTORY, **{name: Check(name, text, blocking=False) for name, text in texts.items()}}


def refresh_warehouse(workspace: Workspace, run_id: str = "", began_at: datetime | None = None) -> StepResult:
    """Build the warehouse, unless it was built from the same tables and the same SQL; record what is new in it.

    The history is written when the new warehouse has passed its checks, before it is swapped in. A run that is killed
    in between builds the warehouse again and finds nothing new to record. `run_id` is Dagster's, and the command of the
    run began at `began_at`, if that is known.
    """
    from disent_assets.warehouse.build import INPUTS, are_whole, build_warehouse, remove_others
    from disent_core.lineage.history import append, history_files, new_rows, read_history

    with sole_maker(workspace.warehouse):
        refresh_vocabulary(workspace)
        stored = stored_tables(workspace)
        inputs: dict[str, list[Path] | pa.Table] = {name: stored[name] for name in INPUTS if name in stored}
        infos = {name: [info for path in stored[name] if (info := read_info(path)) is not None] for name in inputs}
        contents = {name: [info.content_hash for info in of_table] for name, of_table in infos.items()}
        # Tables over whose files the warehouse has views: none in a bucket, where readers fetch one file.
        bound = workspace.config.warehouse.copy_rows_below if remote_of(workspace.warehouse) is None else math.inf
        large = [name for name, of_table in infos.items() if sum(info.rows for info in of_table) >= bound]
        inputs_hash = fingerprint(CODE_VERSION, contents, sql_hash(SQL), *([large] if large else []))
        history = read_history(workspace)
        # The record is written after the swap: a run that is killed in between builds the warehouse again.
        record = workspace.warehouse.with_suffix(".json")
        is_intact, written = open_result(workspace.warehouse) is not None, none_if_damaged(lambda: read_result(record))
        last: dict[str, Any] = json.loads(written) if written is not None else {}
        is_same = last.get("inputs") == inputs_hash and last.get("history") == list(history.files)
        if is_intact and is_same and are_whole(workspace.warehouse, last.get("files", ())):
            return _result(last, history.damaged, {}, is_reused=True)
        metrics = pa.concat_tables(
            [SCHEMAS["metrics"].empty_table(), *(read_table(path, SCHEMAS["metrics"]) for path in stored["metrics"])]
        )
        times = {"recorded_at": datetime.now(UTC), "began_at": began_at}
        added = new_rows(workspace, history, metrics, run_id=run_id, **times)
        inputs["metric_history"] = pa.concat_tables([history.rows, added])
        inputs["asset_state"] = read_run_table(workspace, ASSET_STATE)
        inputs["step_costs"] = read_run_table(workspace, STEP_COSTS)
        inputs["training_costs"] = training_costs(workspace, stored["training_curve"])
        begin = partial(append, workspace, added, inputs=inputs_hash)
        report = build_warehouse(inputs, SQL, workspace.warehouse, begin, large)
        files_before = last.get("files", ())
        last = {
            "inputs": inputs_hash,
            "sql": sql_hash(SQL),
            "history": [file.path.name for file in history_files(workspace)],
            "checks": {check.name: check.offending for check in report.checks},
            "rows": dict(report.rows),
            "files": list(report.files),
            "build_seconds": report.seconds,
        }
        write_text_result(record, json.dumps(last, indent=2) + "\n")
        remove_others(workspace.warehouse, {*report.files, *files_before})
        return _result(last, history.damaged, Counter(added["event"].to_pylist()), is_reused=False)


def _result(last: Mapping[str, Any], damaged: int, events: Mapping[str, int], *, is_reused: bool) -> StepResult:
    from disent_core.lineage.history import EVENTS

    checks = warehouse_checks()
    offending = {**last["checks"], HISTORY.name: damaged}
    return StepResult(
        rows=None,
        content=last["inputs"],
        is_reused=is_reused,
        figures={
            "build_seconds": last["build_seconds"],
            **{f"numbers/{event}": events.get(event, 0) for event in EVENTS},
            "relations": [
                {"relation": name, "rows": rows}
                for name, rows in last["rows"].items()
                if not name.startswith(("papers.", "parts."))
            ],
        },
        checks=tuple(checks[name].result(rows == 0, rows=rows) for name, rows in offending.items()),
    )
