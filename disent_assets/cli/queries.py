"""Commands that only ask: the warehouse in SQL, and the settings."""

from pathlib import Path

import click

from disent_assets.cli.answers import FORMATS, Style, answer, bounded_memory, print_table
from disent_assets.cli.group import errors, main

MEMORY = 6 << 30
"""Bytes that a query may take: the 4 GB of DuckDB, and the answer with its text."""


@main.command()
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
    """Query the warehouse, read-only. QUERY is SQL, or the path of an SQL file."""
    with errors(context), bounded_memory(MEMORY):
        path = Path(query) if query.endswith(".sql") else None
        if path is not None and not path.is_file():
            raise ValueError(f"there is no file {path}")
        asked = path.read_text(encoding="utf-8") if path else query
        print_table(answer(asked, limit=limit, seconds=timeout), style)


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
