"""Ask the warehouse and print what it answers."""

import shutil
import sys
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    import pyarrow as pa

Style = Literal["table", "csv", "json", "markdown"]
FORMATS = click.Choice(["table", "csv", "json", "markdown"])


def answer(sql: str) -> "pa.Table":
    """The answer of the warehouse to one query."""
    from disent_assets.duckdb_warehouse import query
    from disent_assets.resources import home_folder

    return query(home_folder() / "warehouse.duckdb", sql)


def print_table(table: "pa.Table", style: Style) -> None:
    """Print rows; in a terminal a table takes no more than its width."""
    from disent_assets.table_text import render

    click.echo(render(table, style, terminal_width()), nl=False)


def terminal_width() -> int | None:
    """Columns of the terminal that is written to; None: it is none, but a file or another program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
