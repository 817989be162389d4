"""Commands that only ask: the warehouse in SQL, and the settings."""

from pathlib import Path

import click

from disent_assets.cli.answers import FORMATS, Style, answer, bounded_memory, print_table
from disent_assets.cli.group import Command, errors, main

MEMORY = 6 << 30
"""Bytes that a query may take: the 4 GB of DuckDB, and the answer with its text."""


class _Sql(Command):
    """A command whose argument may begin with a comment, `-- like this`, which has spaces and so is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        comments = [one for one in args if one.startswith("--") and len(one.split()) > 1]
        return super().parse_args(ctx, [f" {one}" if one in comments else one for one in args])


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

    A file that is not there may be one of disent's own: docs/headline.sql and docs/facet.sql make tables of its pages.
    """
    with errors(context), bounded_memory(MEMORY):
        path = _file(query) if query.endswith(".sql") else None
        asked = path.read_text(encoding="utf-8") if path else query
        rows = answer(asked, limit=limit, seconds=timeout)
        print_table(rows, style)
        if path and not rows.num_rows:
            click.echo(f"{query} has no rows here. {_contents()}", err=True)


def _file(name: str) -> Path:
    """An SQL file of the user or, if there is none of this name, one that disent comes with.

    Raises:
        ValueError: if there is none.
    """
    from disent_assets.resources import SHARED

    if (own := Path(name)).is_file():
        return own
    shipped = sorted((SHARED / "docs").glob("*.sql"))
    if found := [file for file in shipped if name in (file.name, f"docs/{file.name}")]:
        return found[0]
    known = ", ".join(f"docs/{file.name}" for file in shipped)
    raise ValueError(f"there is no file {name} in {Path.cwd()}, and disent has none of this name; it has {known}")


def _contents() -> str:
    """What a query may ask the warehouse about."""
    names = {"dataset": "data sets", "encoder": "encoders", "method": "methods"}
    columns = ", ".join(f"string_agg(distinct {name}, ', ' order by {name}) as {name}" for name in names)
    (row,) = answer(f"select {columns} from metrics").to_pylist()
    return "The warehouse has " + "; ".join(f"{shown} {row[name] or 'none'}" for name, shown in names.items())


@main.command()
@click.argument("method", required=False)
@click.pass_context
def settings(context: click.Context, method: str | None) -> None:
    """List every key of the configuration, or the keys of METHOD and its presets, as Markdown.

    METHOD is a method of disent, one of your own, or a name of the configuration.
    """
    with errors(context):
        from disent_core.config.reference import reference

        click.echo(_method_settings(method) if method else reference(), nl=False)


def _method_settings(name: str) -> str:
    from disent_assets.resources import configuration, open_workspace
    from disent_core.config.reference import configured_reference, method_reference
    from disent_core.errors import ConfigError

    try:
        return method_reference(name)
    except ConfigError:
        named = open_workspace().config.methods.get(name) if configuration().is_file() else None
        if named is None:
            raise
        return configured_reference(named)
