"""Determine the state of every partition of a workspace, record it as a table, and show it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from disent_assets.lineage.corpus_versions import READ_BY, CorpusVersions, read_sources, record_of
from disent_assets.run.costs import cost_rows, refresh_run_table
from disent_assets.run.steps import states_in, steps_in
from disent_assets.warehouse.refresh import state_rows
from disent_core.lineage.state import NOT_RECORDED, Records, State, name_of
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.remote import LOOK_SECONDS, looking
from disent_core.storage.results import sole_maker
from disent_core.storage.schemas import ASSET_STATE, STEP_COSTS
from disent_core.storage.tables import SCHEMAS, fingerprint, write_table


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
