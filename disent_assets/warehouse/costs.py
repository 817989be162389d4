"""Measure the wall-clock time, processor time and memory of a step, and make the table of all costs."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from disent_core.errors import TableError
from disent_core.lineage.state import Records
from disent_core.lineage.workspace import EXPORT, HEAD, METRICS, Workspace
from disent_core.methods.spec import machine
from disent_core.storage.results import none_if_damaged
from disent_core.storage.schemas import STEP_COSTS
from disent_core.storage.tables import SCHEMAS, fingerprint, read_table, refresh_table, rows_table

RESET_PEAK = Path("/proc/self/clear_refs")
"""Writing 5 here makes Linux reset the peak memory of the process."""
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class StepCost:
    seconds: float  # wall-clock time
    processor_seconds: float  # of all threads of its process, and of its ended child processes
    # Peak bytes of its process while it ran; None if only the peak since the process started is known.
    peak_memory: int | None

    @property
    def metadata(self) -> dict[str, float]:
        """The cost, as shown on the asset's page."""
        peak = {} if self.peak_memory is None else {"peak_memory_megabytes": round(self.peak_memory / 1e6)}
        return {"seconds": round(self.seconds, 3), "processor_seconds": round(self.processor_seconds, 3), **peak}


class Meter:
    """Measures this process from its creation on; a process runs one step at a time."""

    def __init__(self) -> None:
        try:
            RESET_PEAK.write_text("5", encoding="ascii")
            self.knows_peak = True
        except OSError:  # another system, or a sandbox
            self.knows_peak = False
        self.began = time.monotonic(), _processor_seconds()

    def cost(self) -> StepCost:
        seconds, processor = time.monotonic() - self.began[0], _processor_seconds() - self.began[1]
        status = STATUS.read_text(encoding="utf-8") if self.knows_peak else ""
        peak = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        return StepCost(seconds, processor, int(peak[1]) << 10 if peak else None)


def _processor_seconds() -> float:
    children = os.times()  # 0 on Windows
    return time.process_time() + children.children_user + children.children_system


def read_run_table(workspace: Workspace, table: tuple[str, str, str]) -> pa.Table:
    """Read a table by stage, name and partition; without rows if nothing is recorded yet, or it is damaged."""
    schema, path = SCHEMAS[table[1]], workspace.table(*table)
    try:
        rows = none_if_damaged(lambda: read_table(path, schema))
    except TableError:
        rows = None
    return schema.empty_table() if rows is None else rows


def refresh_run_table(workspace: Workspace, table: tuple[str, str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of a table, unless it already has them."""
    name = table[1]
    make = partial(rows_table, rows, name)
    refresh_table(workspace.table(*table), SCHEMAS[name], inputs=fingerprint(rows), make=make)


def recorded_cost(cost: StepCost, made: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the costs for a step's record; `made` is the metadata of its first asset."""
    return {
        "made_at": datetime.now(UTC).isoformat(),
        "processor_seconds": cost.processor_seconds,
        "peak_memory": cost.peak_memory,
        "rows": made.get("dagster/partition_row_count"),
        "texts": made.get("encoded"),
        "steps": made.get("steps"),
        "machine": machine(device),
    }


def cost_rows(records: Records) -> list[dict[str, Any]]:
    """Return the costs of all steps, from their records or, where a record has none, from the last table."""
    last = {(row["asset"], row["partition"]): row for row in read_run_table(records.workspace, STEP_COSTS).to_pylist()}
    rows = []
    for step, partition in ((of, name) for of in records.steps for name in of.names):
        asset, record = "/".join(step.key), records.of(step, partition)
        if record is not None and record.cost is not None:
            made_at = datetime.fromisoformat(record.cost["made_at"])
            cost = {**record.cost, "made_at": made_at, "seconds": record.seconds}
            rows.append({"asset": asset, "partition": partition, **parts(step.key), **cost})
        elif (asset, partition) in last:  # written by a version that wrote all rows at once
            rows.append(last[asset, partition])
    return rows


def parts(key: Sequence[str]) -> dict[str, str | None]:
    """Return the stage of an asset, its encoder and its method, if it belongs to one."""
    stage, *rest = key
    suffix = {"heads": HEAD, "evaluation": METRICS, "exports": EXPORT}.get(stage)
    return {
        "stage": stage,
        "encoder": rest[0] if len(rest) > 1 else None,
        "method": rest[-1].removesuffix(suffix) if suffix and rest[-1].endswith(suffix) else None,
    }
