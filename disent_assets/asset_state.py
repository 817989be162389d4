"""Record the state of every asset as a table, which `disent sql` shows beside the warehouse: what is stale, and why."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from disent_assets.recorded import record, recorded
from disent_assets.status import State, states
from disent_assets.step_costs import parts
from disent_core.experiment.workspace import Workspace
from disent_core.storage.remote import sole_maker
from disent_core.storage.schemas import ASSET_STATE


def record_states(workspace: Workspace, definitions: dg.Definitions, instance: dg.DagsterInstance) -> list[State]:
    """Find the state of every partition of every asset, write the table, and return them, upstream first."""
    found = list(states(workspace, definitions, instance))
    with sole_maker(workspace.table(*ASSET_STATE)):
        before = {(row["asset"], row["partition"]): row for row in recorded(workspace, ASSET_STATE).to_pylist()}
        record(workspace, ASSET_STATE, list(_rows(found, before, datetime.now(UTC), len(workspace.prefix))))
    return found


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
