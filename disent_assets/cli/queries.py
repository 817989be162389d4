"""Commands that query the warehouse (`sql`, `costs`, `leaderboard`, `diff`), and `settings`."""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from disent.home import SHARED, home_folder
from disent_assets.cli.group import Command, main, short
from disent_assets.counted import counted
from disent_assets.settings.environment import SQL, configuration, described_variables, open_workspace
from disent_core.errors import ConfigError, DisentError
from disent_core.methods import METHODS
from disent_core.registry import nearest
from disent_core.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

Style = Literal["table", "csv", "json", "markdown"]
format_option = click.option(
    "--format", "style", type=click.Choice(["table", "csv", "json", "markdown"]), default="table", show_default=True,
    help="Form of the answer.",
)  # fmt: skip
SHOWN = 20  # rows of a table of `diff` without --all, or of `costs`
MEMORY = 6 << 30  # bytes that a query may take: DuckDB's 4 GB, plus the answer and its text


def answer(sql: str, *, limit: int | None = None, seconds: float | None = None) -> "pa.Table":
    """Return the warehouse's answer to a query; arguments as for `disent.query.query`."""
    from disent.query import query

    return query(home_folder() / "warehouse.duckdb", sql, limit=limit, seconds=seconds)


def require_views() -> None:
    """Reject a warehouse that lacks the views this version queries."""
    from disent_assets.warehouse.sql_files import require_same_sql

    require_same_sql(home_folder() / "warehouse.duckdb", SQL)


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Limit the process to `size` more bytes of memory, where the system can (Linux).

    DuckDB's own limit does not count all the memory of a query, such as 2,048 wide rows in flight.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        yield
        return
    import resource

    taken = re.search(r"VmData:\s+(\d+) kB", status.read_text(encoding="ascii"))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = size + (int(taken[1]) << 10 if taken else 0)
    resource.setrlimit(resource.RLIMIT_DATA, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
    try:
        yield
    except MemoryError as error:
        raise DisentError(f"the answer takes more than {size >> 30} GB of memory. Select fewer rows") from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def print_table(table: "pa.Table", style: Style) -> None:
    """Print rows; in a terminal, fit a table to its width."""
    from disent_assets.cli.output.tables import render

    click.echo(render(table, style, terminal_width()), nl=False)


def without_constants(numbers: "pa.Table") -> "pa.Table":
    """Print the columns that have a single value, and return the others."""
    constant = [name for name in numbers.column_names if len(numbers) > 1 and len(numbers[name].unique()) == 1]
    if constant:
        click.echo(printable(", ".join(f"{name} {numbers[name][0]}" for name in constant)) + "\n")
    return numbers.drop_columns(constant)


def terminal_width() -> int | None:
    """Return the width of the terminal in columns; None if the output goes to a file or another program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class _Sql(Command):
    """A command whose argument may begin with a comment `-- like this`: it contains spaces, so it is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        comments = [text for text in args if text.startswith("--") and len(text.split()) > 1]
        return super().parse_args(ctx, [f" {text}" if text in comments else text for text in args])


@main.command(cls=_Sql)
@click.argument("query")
@format_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=100_000, show_default=True, help="Refuse a result with more rows."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    help="Stop the query after this many seconds.",
)
def sql(query: str, style: Style, limit: int, timeout: float) -> None:
    """Query the warehouse, read-only. QUERY is SQL, or the path of an SQL file.

    If there is no such file, disent's own is used: docs/headline.sql and docs/facet.sql make tables of its pages.
    """
    with bounded_memory(MEMORY):
        path = _file(query) if query.endswith(".sql") else None
        text = path.read_text(encoding="utf-8") if path else query
        rows = answer(text, limit=limit, seconds=timeout)
        print_table(rows, style)
        if path and not rows.num_rows:
            click.echo(f"{query} returns no rows here. {_contents()}", err=True)


def _file(name: str) -> Path:
    if (path := Path(name)).is_file():
        return path
    shipped = sorted((SHARED / "docs").glob("*.sql"))
    if matching := [file for file in shipped if name in (file.name, f"docs/{file.name}")]:
        return matching[0]
    known = ", ".join(f"docs/{file.name}" for file in shipped)
    raise ValueError(f"file not found: {name}, neither in {Path.cwd()} nor among the SQL files of disent: {known}")


def _contents() -> str:
    names = {"dataset": "data sets", "encoder": "encoders", "method": "methods"}
    columns = ", ".join(f"string_agg(distinct {name}, ', ' order by {name}) as {name}" for name in names)
    (row,) = answer(f"select {columns} from metrics").to_pylist()
    return "The warehouse has " + "; ".join(f"{shown} {row[name] or 'none'}" for name, shown in names.items())


@main.command()
@click.argument("method", required=False)
@click.option("--environment", is_flag=True, help="List the environment variables instead.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema, with which editors complete the TOML file.")
def settings(method: str | None, *, environment: bool, schema: bool) -> None:
    """List every key of the configuration, or the keys of METHOD and its presets, as Markdown.

    METHOD is one of disent's methods, one of your own, or a name in the configuration.
    """
    from disent_core.config.reference import reference, schema_text

    if environment:
        click.echo(described_variables(), nl=False)
        return
    click.echo(schema_text() if schema else _method_settings(method) if method else reference(), nl=False)


def _method_settings(name: str) -> str:
    from disent_core.config.reference import configured_reference, method_reference

    try:
        return method_reference(name)
    except ConfigError:
        named = open_workspace().config.methods.get(name) if configuration().is_file() else None
        if named is None:
            raise
        return configured_reference(named)


BY = {
    "stage": ("stage",),
    "encoder": ("encoder",),
    "method": ("method", "stage"),
    "step": ("asset", "partition"),
}
"""What a row of `costs` stands for -> its columns."""
COSTS = """
select
    {names},
    count(*) as steps,
    round(sum(processor_seconds), 2) as processor_seconds,
    round(sum(share_of_all), 4) as share,
    round(sum(seconds), 2) as seconds,
    cast(round(max(peak_memory) / 1e6) as bigint) as peak_megabytes,
    sum(texts) as texts_encoded,
    sum(steps) as steps_trained
from costs
group by all
order by sum(processor_seconds) desc, {names}"""
TOTAL = """
select
    count(*) as steps,
    sum(processor_seconds) as processor_seconds,
    sum(seconds) as seconds,
    (
        select count(*) from asset_state anti join costs using (asset, partition)
        where method is not null and state in ('fresh', 'stale')
    ) as unknown
from costs"""


@main.command()
@click.option("--by", type=click.Choice(list(BY)), default="step", show_default=True, help="What each row stands for.")
@format_option
def costs(by: str, style: Style) -> None:
    """Show time and memory of each step's last run, largest first.

    A table shows 20 rows and the total; the other formats list every row. The seconds of steps that ran in parallel
    add up to more than the run took.
    """
    require_views()
    rows = answer(COSTS.format(names=", ".join(BY[by])))
    print_table(rows.slice(0, SHOWN) if style == "table" else rows, style)
    if style == "table":
        click.echo("\n" + "\n".join(_total(len(rows) - SHOWN)))


def _total(left_out: int) -> list[str]:
    (total,) = answer(TOTAL).to_pylist()
    processor, clock = total["processor_seconds"] or 0, total["seconds"] or 0
    took = f"{processor:,.1f} processor seconds, {clock:,.1f} s of wall-clock time"
    lines = [f"{counted(total['steps'], 'step')}: {took}"]
    if left_out > 0:
        lines.append(f"not shown: {counted(left_out, 'smaller row')} (--format csv)")
    if total["unknown"]:
        made = "were made by a version that did not measure costs"
        lines.append(f"{total['unknown']:,} heads and metrics {made}; they are not in these sums")
    return lines


# --- which method is best at what -------------------------------------------------------------------------------------

LONG = (
    "task, dataset, evaluated_on, metric, rank, method, encoder, trained_on, embedding, "
    "value, ci_low, ci_high, n, seeds, round(seed_std, 4) as seed_std, converged, hubness, reads_as, is_stale"
)
BOARDS = r"""
from leaderboard
inner join parts.trained_sets using (trained_on)
where task = '{task}' and rank is not null and value is not null
qualify row_number() over (
    partition by dataset, encoder, evaluated_on, metric, hubness, method
    order by
        coalesce(try_cast(settings as json) ->> 'gold' = 'mean', false),
        len(list_intersect(languages, regexp_extract_all(evaluated_on, '[a-z]+(-[A-Z]\w*)?'))) desc,
        len(pairs),
        trained_on
) = 1
order by all"""
"""Of several trainings of a method, take the one with most of the languages, then the first, as in `headline`."""
HAS_CEILINGS = "from duckdb_views() where view_name = 'ceilings'"  # the view needs the table of templates
CEILINGS = "select dataset, evaluated_on, n, max(ceiling) as ceiling from ceilings group by all"
LIMITED = ("template_retrieval", "accuracy_at_1")  # task and metric whose expected best is in `ceilings`
NEXT = """\
{report} UI: disent dev, then http://127.0.0.1:3000. Try next:
    disent leaderboard {task:<18}    # one of {tasks} tasks; --all: leaks of other embeddings too
    disent sql "select task, dataset, evaluated_on, method, runner_up, stands from best"
    disent status                            # what is fresh, stale or missing
"""
USE = """
Use {head}, {reason}:
    disent index TEXTS.txt INDEX --head {head} && disent search INDEX "..."
"""
EXPORT = "    disent export {head} FOLDER    # for sentence-transformers"


@main.command()
@click.argument("task", required=False)
@click.option(
    "--all", "show_all", is_flag=True, help="Show all numbers in one table, including unranked ones (leakage)."
)
@format_option
def leaderboard(task: str | None, show_all: bool, style: Style) -> None:
    """Show the best methods on one screen, or all methods on TASK.

    The formats csv and json have every number and column; markdown has the columns of a table.
    """
    _check(task)
    require_views()
    of_task = f"task = '{task}'" if task else "true"
    if style == "table" and not show_all:
        rows = answer(BOARDS.format(task=task) if task else "from headline where value is not null").to_pylist()
        limited = [row for row in rows if (row["task"], row["metric"]) == LIMITED]
        if limited and answer(HAS_CEILINGS).num_rows:
            listed = answer(CEILINGS).to_pylist()
            ceilings = {(at["dataset"], at["evaluated_on"], at["n"]): at["ceiling"] for at in listed}
            for row in limited:
                row["ceiling"] = ceilings.get((row["dataset"], row["evaluated_on"], row["n"]))
        click.echo(printable("\n".join(_screen(rows, task))))
        return
    columns = LONG if style in ("table", "markdown") else "*"
    is_shown = "true" if show_all or columns == "*" else "rank is not null"
    numbers = answer(f"select {columns} from leaderboard where {of_task} and {is_shown}")
    print_table(without_constants(numbers) if style == "table" else numbers, style)


def _check(task: str | None) -> None:
    """Reject a name that is no task, as it would become part of a query."""
    from disent_core.evaluation.contract import TASKS

    if task is None or task in TASKS:
        return
    from disent_core.lineage.evaluation_inputs import task_names

    known = task_names(open_workspace().config)
    if task not in known:
        raise ConfigError(f"unknown task {task!r}{nearest(task, known)}; choose one of {', '.join(known)}")


def _screen(rows: list[dict[str, Any]], task: str | None) -> list[str]:
    from disent_assets.cli.output.leaderboards import boards, shown_tasks, summary

    if not rows:
        raise _nothing(task)
    if task:
        return boards(rows, terminal_width())
    report, tasks = home_folder() / "report.html", shown_tasks(rows)
    written = f"Report: {short(report)}." if report.is_file() else "Report: disent report."
    # A task that is not shown yet, with a short name if there is one.
    another = min(tasks[2:] or tasks, key=lambda name: len(name) > 16)
    following = NEXT.format(report=written, task=another, tasks=len(tasks)) + _use(rows, tasks[0])
    return [*summary(rows), "", *following.splitlines()]


def _use(rows: list[dict[str, Any]], task: str) -> str:
    """Explain how to use the best trained head of a task; empty if all are untrained or tag slots."""
    heads = [row for row in rows if row["task"] == task and row["rank"] and row["trained_on"] and row["embedding"]]
    if not heads:
        return ""
    best = min(heads, key=lambda row: row["rank"])
    head = f"{best['method']}@{best['encoder']}:{best['trained_on']}"
    bases = {row["method"]: row["base_method"] for row in answer("from configured_methods").to_pylist()}
    is_exported = bases.get(best["method"]) in METHODS  # a user's method has no module to compute it
    used = USE.format(head=head, reason=f"the best trained head in {task}, {best['evaluated_on']}")
    return used + (EXPORT.format(head=head) if is_exported else "")


def _nothing(task: str | None) -> Exception:
    from disent_core.lineage.evaluation_inputs import tasks_of

    measured = [row["task"] for row in answer("select distinct task from leaderboard order by all").to_pylist()]
    config = open_workspace().config
    if not measured:
        return DisentError(
            "nothing has been evaluated yet. Run disent materialize; disent status shows what is missing"
        )
    among = f"the tasks with results are {', '.join(measured)}"
    if task not in {configured.name for configured in tasks_of(config)}:
        remedy = "Add it to tasks in [evaluation], or leave tasks out"
        return DisentError(f"{config.path}: {task} is not among the tasks of this configuration. {remedy}; {among}")
    reason = "no corpus of this configuration has what it measures, no trained method can do it, or it is stale"
    return DisentError(f"{config.path}: there are no results for {task}: {reason} (see disent status); {among}")


# --- what the last refreshes have changed -----------------------------------------------------------------------------

RUNS = "select refresh, recorded_at, run_id from runs order by refresh"
KEY = "task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem"


def _ends(function: str, *columns: str) -> str:
    return ", ".join(f"{function}({column} order by refresh) as {column}" for column in columns)


DIFFERENCES = f"""
with ends as (
    select
        {KEY},
        {_ends("first", "value_before", "ci_low_before", "ci_high_before", "n_before")},
        {_ends("last", "value", "ci_low", "ci_high", "n", "settings", "reads_as", "is_ranked")},
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
        value - value_before as difference,
        ci_low > ci_high_before or ci_high < ci_low_before as stands,
        case
            when value is null then 'ended'
            when value_before is null then 'new'
            when (value, ci_low, ci_high, n) is distinct from (value_before, ci_low_before, ci_high_before, n_before)
                then 'changed'
            else 'confirmed'
        end as event
    from ends
    where value is not null or value_before is not null
)
from compared
order by
    is_ranked desc, event != 'changed', coalesce(stands, false) desc, abs(difference) desc nulls last,
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
@click.option("--since", metavar="DATE|RUN", help="A date (2026-11-22), the number of a refresh, or the id of a run.")
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show every number, including those of seeds, unchanged, new and ended ones.",
)
@format_option
def diff(since: str | None, show_all: bool, style: Style) -> None:
    """Show what has changed in the last refresh, or in all refreshes since a date or a run.

    The largest changes whose 95 % intervals do not overlap come first. A refresh that changed nothing has no number.
    """
    require_views()
    runs = _runs()
    first = _before(since, runs)
    differences = f"({DIFFERENCES.format(since=first)})"
    if style in ("csv", "json"):
        print_table(answer(f"from {differences}{'' if show_all else ' where is_ranked'}"), style)
        return
    shown = "" if show_all else f" where is_ranked and event = 'changed' limit {SHOWN}"
    rows = answer(f"{BRIEF}, seed, event from {differences}" if show_all else f"{BRIEF} from {differences}{shown}")
    click.echo(_period(first, runs))
    if len(runs) == 1 or first == runs[-1]["refresh"]:
        return
    click.echo()
    if len(rows):
        print_table(without_constants(rows) if style == "table" else rows, style)
        click.echo()
    click.echo(_counts(answer(f"{COUNTS} from {differences} where seed is null").to_pylist()[0], len(rows)))


def _runs() -> list[dict[str, Any]]:
    """Return the refreshes that changed something, oldest first."""
    if not len(answer("select 1 from duckdb_views() where schema_name = 'history'")):
        raise DisentError(
            "this warehouse has no history yet. Run disent materialize; the next refresh is compared with it"
        )
    runs = answer(RUNS).to_pylist()
    if not runs:
        raise DisentError("nothing has been recorded yet. Run disent materialize; disent status shows what is missing")
    return runs


def _before(since: str | None, runs: list[dict[str, Any]]) -> int:
    """Return the number of the refresh to compare with; 0 means before the first."""
    if since is None:
        return runs[-1]["refresh"] - 1
    numbers = [run["refresh"] for run in runs if since in (str(run["refresh"]), run["run_id"])]
    numbers += [run["refresh"] for run in runs if len(since) >= 8 and run["run_id"].startswith(since)]
    if numbers:
        return numbers[-1]
    try:
        moment = datetime.fromisoformat(since)
    except ValueError as error:
        known = f"the refreshes are {runs[0]['refresh']} to {runs[-1]['refresh']}"
        raise ValueError(f"--since {since!r} is not a date such as 2026-11-22, a refresh or a run; {known}") from error
    moment = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment  # the warehouse stores UTC
    return max((run["refresh"] for run in runs if run["recorded_at"] < moment), default=0)


def _period(first: int, runs: list[dict[str, Any]]) -> str:
    last, before = runs[-1], [run for run in runs if run["refresh"] <= first]
    if len(runs) == 1:
        return f"There is one refresh so far ({_name(last)}), so there is nothing to compare it with."
    if before and before[-1] is last:
        return f"Nothing has changed since {_name(last)}."
    return f"{_name(last)} against {_name(before[-1]) if before else 'nothing, before the first refresh'}"


def _name(run: dict[str, Any]) -> str:
    name = f"refresh {run['refresh']}, {run['recorded_at']:%Y-%m-%d %H:%M} UTC, run {run['run_id'][:8]}"
    return name.removesuffix(", run ")


def _counts(counts: dict[str, int], shown: int) -> str:
    return (
        f"Of the means over seeds, {counts['standing']:,} changed beyond their 95 % intervals, "
        f"{counts['changed']:,} within them; "
        f"{counts['new']:,} are new, {counts['ended']:,} ended, {counts['confirmed']:,} made again without change.\n"
        f"Rows shown: {shown:,}. Every number, including those of seeds: disent diff --all; "
        'why each changed: disent sql "from changes".'
    )
