"""Commands that print settings, answers of the warehouse and costs of steps."""

from pathlib import Path

import click

from disent_assets.cli.answers import FORMATS, Style, answer, bounded_memory, print_table, require_views
from disent_assets.cli.group import Command, errors, main

MEMORY = 6 << 30
"""Bytes that a query may take: the 4 GB of DuckDB, and the answer with its text."""


class _Sql(Command):
    """A command whose argument may begin with a comment, `-- like this`, which has spaces and so is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        comments = [text for text in args if text.startswith("--") and len(text.split()) > 1]
        return super().parse_args(ctx, [f" {text}" if text in comments else text for text in args])


@main.command(cls=_Sql)
@click.argument("query")
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
@click.option(
    "--limit", type=click.IntRange(min=1), default=100_000, show_default=True, help="Refuse an answer of more rows."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    help="Stop a query after so many seconds.",
)
@click.pass_context
def sql(context: click.Context, query: str, style: Style, limit: int, timeout: float) -> None:
    """Query the warehouse, read-only. QUERY is SQL, or the path of an SQL file.

    If it does not exist, disent's own is used: docs/headline.sql and docs/facet.sql make tables of its pages.
    """
    with errors(context), bounded_memory(MEMORY):
        path = _file(query) if query.endswith(".sql") else None
        text = path.read_text(encoding="utf-8") if path else query
        rows = answer(text, limit=limit, seconds=timeout)
        print_table(rows, style)
        if path and not rows.num_rows:
            click.echo(f"{query} has no rows here. {_contents()}", err=True)


def _file(name: str) -> Path:
    """Return an SQL file of the user or, without one of this name, of disent."""
    from disent.home import SHARED

    if (own := Path(name)).is_file():
        return own
    shipped = sorted((SHARED / "docs").glob("*.sql"))
    if found := [file for file in shipped if name in (file.name, f"docs/{file.name}")]:
        return found[0]
    known = ", ".join(f"docs/{file.name}" for file in shipped)
    raise ValueError(f"there is no file {name} in {Path.cwd()}, and disent has none of this name; it has {known}")


def _contents() -> str:
    """Return the data sets, encoders and methods of the warehouse."""
    names = {"dataset": "data sets", "encoder": "encoders", "method": "methods"}
    columns = ", ".join(f"string_agg(distinct {name}, ', ' order by {name}) as {name}" for name in names)
    (row,) = answer(f"select {columns} from metrics").to_pylist()
    return "The warehouse has " + "; ".join(f"{shown} {row[name] or 'none'}" for name, shown in names.items())


@main.command()
@click.argument("method", required=False)
@click.option("--environment", is_flag=True, help="List the environment variables instead.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema, by which editors complete the TOML file.")
@click.pass_context
def settings(context: click.Context, method: str | None, *, environment: bool, schema: bool) -> None:
    """List every key of the configuration, or the keys of METHOD and its presets, as Markdown.

    METHOD is a method of disent, one of your own, or a name of the configuration.
    """
    with errors(context):
        from disent_assets.settings.environment import described_variables
        from disent_core.config.reference import reference
        from disent_core.config.schema import schema_text

        if environment:
            click.echo(described_variables(), nl=False)
            return
        click.echo(schema_text() if schema else _method_settings(method) if method else reference(), nl=False)


def _method_settings(name: str) -> str:
    from disent_assets.settings.environment import configuration, open_workspace
    from disent_core.config.reference import configured_reference, method_reference
    from disent_core.errors import ConfigError

    try:
        return method_reference(name)
    except ConfigError:
        named = open_workspace().config.methods.get(name) if configuration().is_file() else None
        if named is None:
            raise
        return configured_reference(named)


SHOWN = 20
"""Rows of a table."""
BY = {
    "stage": ("stage",),
    "encoder": ("encoder",),
    "method": ("method", "stage"),
    "step": ("asset", "partition"),
}
"""What a row stands for -> its columns."""
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
@click.option("--by", type=click.Choice(list(BY)), default="step", show_default=True, help="What a row stands for.")
@click.option("--format", "style", type=FORMATS, default="table", show_default=True)
@click.pass_context
def costs(context: click.Context, by: str, style: Style) -> None:
    """Show time and memory of each step's last run, largest first.

    A table has 20 rows and the sum of all; the other formats have every row. Seconds of steps that ran side by side
    add up to more than the run took.
    """
    with errors(context):
        require_views()
        rows = answer(COSTS.format(names=", ".join(BY[by])))
        print_table(rows.slice(0, SHOWN) if style == "table" else rows, style)
        if style == "table":
            click.echo("\n" + "\n".join(_total(len(rows) - SHOWN)))


def _total(left_out: int) -> list[str]:
    """Return lines about the cost of all steps."""
    (total,) = answer(TOTAL).to_pylist()
    took = f"{total['processor_seconds'] or 0:,.1f} processor seconds, {total['seconds'] or 0:,.1f} s of the clock"
    lines = [f"{total['steps']:,} step{'s' * (total['steps'] != 1)}: {took}"]
    if left_out > 0:
        lines.append(f"{left_out:,} smaller rows are not shown (--format csv)")
    if total["unknown"]:
        made = "were made by a version that did not measure costs"
        lines.append(f"{total['unknown']:,} heads and metrics {made}; they are not in these sums")
    return lines
