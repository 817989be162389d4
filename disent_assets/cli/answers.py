"""Ask the warehouse and print what it answers."""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from disent_core.errors import DisentError
from disent_core.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

Style = Literal["table", "csv", "json", "markdown"]
FORMATS = click.Choice(["table", "csv", "json", "markdown"])


def answer(sql: str, *, limit: int | None = None, seconds: float | None = None) -> "pa.Table":
    """Return the answer of the warehouse to one query; arguments as `duckdb_warehouse.query`."""
    from disent.home import home_folder
    from disent.query import query

    return query(home_folder() / "warehouse.duckdb", sql, limit=limit, seconds=seconds)


def require_views() -> None:
    """Refuse a warehouse without the views that this version asks."""
    from disent.home import home_folder
    from disent_assets.settings.environment import SQL
    from disent_assets.warehouse.sql_files import require_same_sql

    require_same_sql(home_folder() / "warehouse.duckdb", SQL)


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Let the process take `size` more bytes of memory at most, where the system can bound it (Linux).

    Not all that a query takes counts for DuckDB's own limit: 2,048 wide rows that are under way do not.
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
    """Print rows; in a terminal a table takes no more than its width."""
    from disent_assets.cli.output.tables import render

    click.echo(render(table, style, terminal_width()), nl=False)


def without_constants(numbers: "pa.Table") -> "pa.Table":
    """Print the columns that have one value, and return the others."""
    constant = [name for name in numbers.column_names if len(numbers) > 1 and len(numbers[name].unique()) == 1]
    if constant:
        click.echo(printable(", ".join(f"{name} {numbers[name][0]}" for name in constant)) + "\n")
    return numbers.drop_columns(constant)


def terminal_width() -> int | None:
    """Return the columns of the terminal that is written to; None if that is a file or another program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
