"""Record the state of every asset as a table, which `disent sql` shows beside the warehouse: what is stale, and why."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

from disent_assets.status import State, states
from disent_assets.step_costs import parts
from disent_core.errors import TableError
from disent_core.experiment.workspace import Workspace
from disent_core.storage.atomic import locked
from disent_core.storage.checksums import ignore_damaged
from disent_core.storage.schemas import ASSET_STATE
from disent_core.storage.tables import SCHEMAS, fingerprint, read_table, rows_table, write_table


def record_states(workspace: Workspace, definitions: dg.Definitions, instance: dg.DagsterInstance) -> list[State]:
    """Find the state of every partition of every asset, write the table, and return them, upstream first."""
    found = list(states(workspace, definitions, instance))
    path = workspace.table(*ASSET_STATE)
    with locked(path):
        before = {(row["asset"], row["partition"]): row for row in recorded_states(workspace).to_pylist()}
        rows = list(_rows(found, before, datetime.now(UTC), len(workspace.prefix)))
        write_table(path, rows_table(rows, "asset_state"), SCHEMAS["asset_state"], inputs=fingerprint(len(rows)))
    return found


def recorded_states(workspace: Workspace) -> pa.Table:
    """The table as it was last written; no rows if there is none, or it is damaged."""
    schema, path = SCHEMAS["asset_state"], workspace.table(*ASSET_STATE)
    try:
        table = ignore_damaged(lambda: read_table(path, schema))
    except TableError:  # nothing was recorded yet
        table = None
    return schema.empty_table() if table is None else table


def _rows(
    found: Iterable[State], before: dict[tuple[str, str | None], dict[str, Any]], now: datetime, depth: int
) -> Iterator[dict]:
    for state in found:
        key = state.asset.split("/")[depth:]
        asset = "/".join(key)
        last = before.get((asset, state.partition))
        yield {
            "asset": asset,
            "partition": state.partition,
            **parts(key),
            "state": state.status,
            "why": "; ".join(state.causes) or None,
            "waits": state.status == "fresh" and not state.is_settled,
            "since": last["since"] if last is not None and last["state"] == state.status else now,
            "recorded_at": now,
        }
