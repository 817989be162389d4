"""Sum up a week of refreshes, and write the report, as assets: made by hand, or once a week by a schedule.

They are not steps of the lineage: their content depends on the day, so no refresh makes them. Dagster shows them as out
of date when the warehouse is newer.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from disent_assets.counted import counted
from disent_assets.lineage.factory import OWNERS, group_name, prefixed_name
from disent_assets.lineage.metadata import literal, markdown_table, pictures, user_errors
from disent_assets.lineage.refresh import OF_STEPS, REFRESH
from disent_assets.lineage.shown import MOST_PANELS
from disent_assets.settings.environment import SQL
from disent_assets.warehouse.sql_files import require_same_sql
from disent_core.lineage.steps import DATABASE
from disent_core.lineage.workspace import Workspace
from disent_core.report import PICTURES_VERSION
from disent_core.report.scores import changes
from disent_core.storage.results import write_text_result
from disent_core.storage.tables import fingerprint

WEEKLY = "weekly_summary"  # name of the asset, of the job that makes both, and of its schedule
MONDAYS = "0 6 * * 1"  # at 06:00 UTC, after the nightly refresh
DAYS = 7
_OF_JOB = "Sums up the last seven days of refreshes, and writes the report."
_CHANGES = """
select * from history.events
where
    event = 'changed' and is_ranked and change is not null and coalesce(p_holm < 0.05, stands)
    and recorded_at >= timestamp '{}'
order by change desc, p_holm nulls last, abs(difference) desc, number_id, refresh"""
_STATES = "select * from asset_state where state != 'fresh' order by state, asset, partition"


def weekly_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Return the summary and the report, without the prefix of the workspace."""

    @dg.asset(
        key=[DATABASE[0], WEEKLY],
        deps=[dg.AssetKey(DATABASE)],
        group_name=group_name(DATABASE),
        owners=OWNERS,
        kinds={"markdown"},
        description=f"What the refreshes of the last {DAYS} days made better and worse by a paired test, how many runs "
        "failed, and what is not fresh: also as DISENT_HOME/weekly_summary.md.",
    )
    def summary(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        with user_errors():
            require_same_sql(workspace.warehouse, SQL)
            since = datetime.now(UTC) - timedelta(days=DAYS)
            failed = _failed_runs(context.instance, workspace, since)
            return dg.MaterializeResult(metadata=summed_up(workspace, since, failed))

    @dg.asset(
        key=[DATABASE[0], "report"],
        deps=[dg.AssetKey(DATABASE)],
        group_name=group_name(DATABASE),
        owners=OWNERS,
        kinds={"html"},
        description="Tables, pictures and case studies as one HTML file, DISENT_HOME/report.html: `disent report`.",
    )
    def report() -> dg.MaterializeResult:
        from disent_assets.lineage.run_report import write_report

        path = workspace.home / "report.html"
        with user_errors():
            write_report(workspace, path)
        return dg.MaterializeResult(metadata={"report": dg.MetadataValue.path(str(path))})

    return [summary, report]


def each_week(workspace: Workspace, assets: Sequence[dg.AssetsDefinition]) -> dg.Definitions:
    """Return the summary and the report with their job and schedule; the schedule must be started by hand."""
    job = dg.define_asset_job(prefixed_name(workspace.prefix, WEEKLY), assets, description=_OF_JOB, tags=OF_STEPS)
    name = prefixed_name(workspace.prefix, "each_week")
    schedule = dg.ScheduleDefinition(name=name, job=job, cron_schedule=MONDAYS)  # off until it is started
    return dg.Definitions(assets=assets, jobs=[job], schedules=[schedule])


def _failed_runs(instance: dg.DagsterInstance, workspace: Workspace, since: datetime) -> int:
    """Return how many runs have failed; under a prefix, count only runs of this workspace's assets."""
    runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], created_after=since))
    prefix = list(workspace.prefix)
    jobs = {prefixed_name(workspace.prefix, name) for name in (REFRESH, WEEKLY)}
    return sum(
        not prefix
        or run.job_name in jobs
        or any(key.path[: len(prefix)] == prefix for key in run.asset_selection or ())
        for run in runs
    )


def summed_up(workspace: Workspace, since: datetime, failed_runs: int) -> dict[str, Any]:
    """Return the changes since a time as metadata of the asset, and write them as Markdown."""
    from disent.query import query

    def rows(sql: str) -> list[dict[str, Any]]:
        return query(workspace.warehouse, sql.format(f"{since:%Y-%m-%d %H:%M:%S}")).to_pylist()

    changed, states = rows(_CHANGES), rows(_STATES)
    by_change = {change: [row for row in changed if row["change"] == change] for change in ("worse", "better")}
    refreshes = len(rows("select refresh from runs where recorded_at >= timestamp '{}'"))
    head = (
        f"Since {since:%Y-%m-%d}: {counted(len(by_change['worse']), 'number')} worse and {len(by_change['better'])} "
        f"better after {refreshes} refresh{'es' * (refreshes != 1)}, {counted(failed_runs, 'failed run')}, "
        f"{len(states)} not fresh"
    )
    all_changes = f"All: disent diff --since {since:%Y-%m-%d}"
    tables = {
        change: markdown_table(f"{change.capitalize()}. {all_changes}", _HEADER, [*map(_line, of)])
        for change, of in by_change.items()
        if of
    }
    if states:
        columns = ("asset", "partition", "state", "why")
        lines = [[literal(row[name] or "") for name in columns] for row in states]
        tables["not_fresh"] = markdown_table("Not fresh. All: disent status", columns, lines)
    made_of = fingerprint(PICTURES_VERSION, changed)
    drawn = pictures(
        workspace.plots, made_of, {workspace.plot("warehouse", name="week"): lambda: changes(changed, MOST_PANELS)}
    )
    text = [f"# {head}", *(["![What has changed](plots/warehouse/week.png)"] if drawn else [])]
    path = workspace.home / f"{WEEKLY}.md"
    write_text_result(path, "\n\n".join([*text, *(str(table.value) for table in tables.values())]) + "\n")
    return {"summary": head, **drawn, **tables, "markdown": dg.MetadataValue.path(str(path))}


_HEADER = ("refresh", "method", "encoder", "task", "direction", "metric", "change", "p", "because of")


def _line(row: Mapping[str, Any]) -> list[str]:
    p = row["test"] if row["p_holm"] is None else f"{row['p_holm']:.2g}"
    names = (row["method"], row["encoder"], row["task"], row["evaluated_on"], row["metric"])
    change = f"{row['value_before']:.3f} to {row['value']:.3f}"
    return [str(row["refresh"]), *map(literal, names), change, literal(p or "intervals"), literal(row["why"] or "")]
