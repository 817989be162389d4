"""Build the warehouse of a workspace from the tables on disk, unless it is up to date.

What belongs here: which files are loaded, and when. What does not: SQL, and how the database is built.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from disent_assets.duckdb_warehouse import INPUTS, build_warehouse
from disent_assets.resources import SQL
from disent_core.experiment.result import Check, StepResult
from disent_core.experiment.tables import refresh_vocabulary, stored_tables
from disent_core.experiment.workspace import Workspace
from disent_core.storage.atomic import locked
from disent_core.storage.checksums import ignore_damaged, read_verified, verified, write_checksummed_text
from disent_core.storage.tables import content_of, fingerprint

CODE_VERSION = "1"


def warehouse_checks() -> dict[str, Check]:
    """The checks of `sql/checks` by name.

    None of them blocks the asset: if a check of severity `error` fails, the last warehouse stays in place anyway.
    """
    paths = sorted((SQL / "checks").glob("*.sql"))
    return {path.stem: Check(path.stem, _first_line(path), blocking=False) for path in paths}


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("-- ")


def refresh_warehouse(workspace: Workspace) -> StepResult:
    """Build the warehouse, unless it was built from the same tables and the same SQL.

    Raises:
        TableError: if a table is damaged, or a check of severity `error` fails. The last warehouse stays.
    """
    with locked(workspace.warehouse):
        refresh_vocabulary(workspace)
        stored = stored_tables(workspace)
        inputs = {name: stored[name] for name in INPUTS}
        contents = {name: [content_of(path) for path in paths] for name, paths in inputs.items()}
        inputs_hash = fingerprint(CODE_VERSION, contents, _sql_hash())
        # The record is written after the swap: a run that is killed in between builds the warehouse again.
        record = workspace.warehouse.with_suffix(".json")
        is_intact, recorded = verified(workspace.warehouse) is not None, ignore_damaged(lambda: read_verified(record))
        if is_intact and recorded is not None and (last := json.loads(recorded))["inputs"] == inputs_hash:
            return _result(last, is_reused=True)
        report = build_warehouse(inputs, SQL, workspace.warehouse)
        offending = {check.name: check.offending for check in report.checks}
        last = {"inputs": inputs_hash, "checks": offending, "rows": dict(report.rows), "build_seconds": report.seconds}
        write_checksummed_text(record, json.dumps(last, indent=2) + "\n")
        return _result(last, is_reused=False)


def _result(last: Mapping[str, Any], *, is_reused: bool) -> StepResult:
    checks = warehouse_checks()
    return StepResult(
        rows=None,
        content=last["inputs"],
        is_reused=is_reused,
        figures={
            "build_seconds": last["build_seconds"],
            "relations": [{"relation": name, "rows": rows} for name, rows in last["rows"].items()],
        },
        checks=tuple(checks[name].result(rows == 0, rows=rows) for name, rows in last["checks"].items()),
    )


def _sql_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in SQL.rglob("*") if path.suffix in {".sql", ".csv"}):
        digest.update(path.relative_to(SQL).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
