"""`disent diff`: what the last refreshes have changed."""

from datetime import UTC, datetime
from typing import Any

import click

from disent_assets.cli.answers import FORMATS, Style, answer, print_table, without_constants
from disent_assets.cli.group import errors, main
from disent_core.errors import DisentError

SHOWN = 20
"""Rows of a table without --all."""
RUNS = "select refresh, recorded_at, run_id from runs order by refresh"
KEY = "task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem"
DIFFERENCES = f"""
with ends as (
    select
        {KEY},
        first(value_before order by refresh) as value_before,
        first(ci_low_before order by refresh) as ci_low_before,
        first(ci_high_before order by refresh) as ci_high_before,
        first(n_before order by refresh) as n_before,
        last(value order by refresh) as value,
        last(ci_low order by refresh) as ci_low,
        last(ci_high order by refresh) as ci_high,
        last(n order by refresh) as n,
        last(settings order by refresh) as settings,
        max(refresh) as refresh,
        max(recorded_at) as recorded_at,
        string_agg(distinct why, ', ' order by why) as why
    from history.events
    where refresh > {{since}}
    group by all
),
compared as (
    select
        ends.* exclude (problem),
        readings.reads_as,
        value - value_before as difference,
        ci_low > ci_high_before or ci_high < ci_low_before as stands,
        case
            when value is null then 'ended'
            when value_before is null then 'new'
            when (value, ci_low, ci_high, n) is distinct from (value_before, ci_low_before, ci_high_before, n_before)
                then 'changed'
            else 'confirmed'
        end as event,
        seed is null and metric != 'threshold'
        and coalesce(hubness, 'none') = 'none'
        and (task, embedding) in (select (task, embedding) from scored_embeddings) as is_scored
    from ends
    left join readings using (task, embedding, metric, settings)
    where value is not null or value_before is not null
)
from compared
order by
    is_scored desc, event != 'changed', coalesce(stands, false) desc, abs(difference) desc nulls last,
    task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed nulls first"""
BRIEF = """
select
    method, encoder, task, dataset, evaluated_on, embedding, metric, value_before as before, value as after,
    difference,
    case when difference != 0 then if((difference > 0) = (reads_as = 'higher is better'), 'better', 'worse') end
        as change,
    case when stands then 'apart' when not stands then 'overlap' end as intervals, why"""
COUNTS = """
select
    count(*) filter (where event = 'changed' and stands) as standing,
    count(*) filter (where event = 'changed' and stands is distinct from true) as changed,
    count(*) filter (where event = 'new') as new,
    count(*) filter (where event = 'ended') as ended,
    count(*) filter (where event = 'confirmed') as confirmed"""


@main.command()
@click.option("--since", metavar="DATE|RUN", help="A date (2026-11-22), number of a refresh, or id of a run.")
@click.option(
    "--all", "show_all", is_flag=True, help="Every number: those of seeds, unchanged, new and ended ones too."
)
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
@click.pass_context
def diff(context: click.Context, since: str | None, show_all: bool, style: Style) -> None:
    """Show what the last refresh has changed, or all refreshes since a date or a run.

    The largest changes whose 95 % intervals do not overlap come first. A refresh that changed nothing has no number.
    """
    with errors(context):
        runs = _runs()
        first = _before(since, runs)
        differences = f"({DIFFERENCES.format(since=first)})"
        if style in ("csv", "json"):
            print_table(answer(f"from {differences}{'' if show_all else ' where is_scored'}"), style)
            return
        shown = "" if show_all else f" where is_scored and event = 'changed' limit {SHOWN}"
        rows = answer(f"{BRIEF}, seed, event from {differences}" if show_all else f"{BRIEF} from {differences}{shown}")
        click.echo(f"{_period(first, runs)}")
        if len(runs) == 1 or first == runs[-1]["refresh"]:
            return
        click.echo()
        if len(rows):
            print_table(without_constants(rows) if style == "table" else rows, style)
            click.echo()
        click.echo(_counts(answer(f"{COUNTS} from {differences} where seed is null").to_pylist()[0], len(rows)))


def _runs() -> list[dict[str, Any]]:
    """The refreshes that have changed something, the first one first."""
    if not len(answer("select 1 from duckdb_views() where schema_name = 'history'")):
        raise DisentError(
            "this warehouse has no history yet. Run disent materialize; the next refresh is compared with it"
        )
    runs = answer(RUNS).to_pylist()
    if not runs:
        raise DisentError("nothing is recorded yet. Run disent materialize; disent status shows what is missing")
    return runs


def _before(since: str | None, runs: list[dict[str, Any]]) -> int:
    """The refresh to compare with; 0 stands for the time before the first."""
    if since is None:
        return runs[-1]["refresh"] - 1
    numbers = [run["refresh"] for run in runs if since in (str(run["refresh"]), run["run_id"])]
    numbers += [run["refresh"] for run in runs if len(since) >= 8 and run["run_id"].startswith(since)]
    if numbers:
        return numbers[-1]
    try:
        moment = datetime.fromisoformat(since)
    except ValueError as error:
        known = f"refreshes are {runs[0]['refresh']} to {runs[-1]['refresh']}"
        raise ValueError(f"--since {since!r} is no date such as 2026-11-22, and no refresh or run; {known}") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((run["refresh"] for run in runs if run["recorded_at"] < moment), default=0)


def _period(first: int, runs: list[dict[str, Any]]) -> str:
    """Which refreshes are compared."""
    last, before = runs[-1], [run for run in runs if run["refresh"] <= first]
    if len(runs) == 1:
        return f"There is one refresh so far ({_name(last)}), so there is nothing to compare it with."
    if before and before[-1] is last:
        return f"Nothing has changed since {_name(last)}."
    return f"{_name(last)} against {_name(before[-1]) if before else 'nothing, before the first refresh'}"


def _name(run: dict[str, Any]) -> str:
    return f"refresh {run['refresh']}, {run['recorded_at']:%Y-%m-%d %H:%M} UTC, run {run['run_id'][:8]}".removesuffix(
        ", run "
    )


def _counts(counts: dict[str, int], shown: int) -> str:
    """How many numbers (means over seeds) changed in which way."""
    return (
        f"Of the means over seeds, {counts['standing']:,} changed beyond their 95 % intervals, "
        f"{counts['changed']:,} within them; "
        f"{counts['new']:,} are new, {counts['ended']:,} ended, {counts['confirmed']:,} made again and the same.\n"
        f"Rows shown: {shown:,}. Every number, of seeds too: disent diff --all; "
        'why each changed: disent sql "from changes".'
    )
