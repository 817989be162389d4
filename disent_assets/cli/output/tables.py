"""Render the rows of a table as text: for a terminal, a document, or another program."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Literal

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from disent_assets.counted import counted
from disent_core.text import printable

Style = Literal["table", "csv", "json", "markdown"]

_MARKDOWN = re.compile(r"[\\|<!`]|\[(?![-\d., ]*\]$)")
"""Characters with a meaning in Markdown, except the bracket of an interval at the end of a cell: it can't be a link."""
_PROBABILITIES = ("p_value", "p_holm")
_NARROWEST = 12  # columns; a folded text gets no narrower
_LONGEST = 300  # characters of a cell shown to people; enough for the claims of papers


def render(table: pa.Table, style: Style, width: int | None = None) -> str:
    """Render rows as a table or Markdown (three decimals, whole seconds, short texts), or as CSV or JSON in full.

    JSON, which lacks NaN and infinity, gets null for them; CSV gets `nan` and `inf`, so only null is an empty cell.
    In a table wider than `width`, texts are folded; if it is still too wide, the columns of each row are listed.
    """
    columns = [_values(column) for column in table.columns]
    if style in ("table", "markdown"):
        columns = [_shown(name, values) for name, values in zip(table.column_names, columns, strict=True)]
    rows = list(zip(*columns, strict=True))
    if style == "json":
        records = [dict(zip(table.column_names, row, strict=True)) for row in rows]
        return _json_text(records, indent=2) + "\n"
    if style == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows([_csv_cell(value) for value in row] for row in rows)
        return text.getvalue()
    if style == "markdown":
        names, marks = map(_markdown_cell, table.column_names), ["---"] * table.num_columns
        return "".join(
            "| " + " | ".join(row) + " |\n" for row in (names, marks, *(map(_markdown_cell, row) for row in rows))
        )
    return _fixed_width(table.schema, rows, width)


def text_rows(table: pa.Table) -> list[dict[str, str]]:
    """Return each row as column -> text, formatted as in a fixed-width table."""
    columns = [_shown(name, _values(column)) for name, column in zip(table.column_names, table.columns, strict=True)]
    return [dict(zip(table.column_names, map(_cell, row), strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, as DuckDB prints them if Python can't hold one (the timestamp `infinity`)."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        import duckdb

        with duckdb.connect(":memory:") as connection:
            connection.register("answer", pa.table({"value": column}))
            return [value for (value,) in connection.execute("select value::varchar from answer").fetchall()]


def _shown(name: str, values: list[Any]) -> list[Any]:
    """Return the values of a column; a p value that three decimals would show as 0 becomes the text `<0.001`."""
    if name not in _PROBABILITIES:
        return values
    return ["<0.001" if isinstance(value, float) and value < 0.0005 else value for value in values]


def lines_of(cells: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Return lines with aligned columns, right-aligned where `right` is true."""
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(_pad, row, widths, right)).rstrip() for row in cells]


def _fixed_width(schema: pa.Schema, rows: Sequence[Sequence[Any]], width: int | None) -> str:
    right = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in schema.types]
    cells = [list(map(_cell, schema.names)), *([_cut(value) for value in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    least = [size if number else min(size, _NARROWEST) for size, number in zip(widths, right, strict=True)]
    gaps, total = 2 * (len(widths) - 1), f"({counted(len(rows), 'row')})"
    if width is None or sum(widths) + gaps <= width:
        lines = lines_of(cells, right)
        lines.insert(1, "  ".join("-" * size for size in widths))
    elif sum(least) + gaps <= width:
        lines = _folded(cells, right, least, width)
    else:
        lines = [*_records(cells)]
    return "\n".join([*lines, total]) + "\n"


def _folded(cells: Sequence[Sequence[str]], right: Sequence[bool], least: Sequence[int], width: int) -> list[str]:
    """Return lines of at most `width` columns; fold texts, to no less than `least` columns, but not numbers."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number, size in zip(right, least, strict=True):
        table.add_column(justify="right" if number else "left", no_wrap=number, min_width=size, overflow="fold")
    table.add_row(*map(Text, cells[0]))
    table.add_row(*(Rule(characters="-", style="") for _ in cells[0]))
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    text = io.StringIO()
    Console(width=width, file=text, color_system=None, legacy_windows=False).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def _records(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    names = cells[0]
    longest = max(map(cell_len, names))
    for number, row in enumerate(cells[1:], start=1):
        yield f"-- row {number}"
        yield from (f"{_pad(name, longest, False)}  {value}".rstrip() for name, value in zip(names, row, strict=True))


def _plain(value: Any) -> Any:
    """Return the value in a form that CSV can hold: lists and structs as JSON."""
    return _json_text(value) if isinstance(value, list | dict) else value


def _json_text(value: Any, indent: int | None = None) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, indent=indent, default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by None."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return {name: _finite(item) for name, item in value.items()} if isinstance(value, dict) else value


def _csv_cell(value: Any) -> Any:
    """Return the value for CSV; prefix a quote to a text that a spreadsheet would evaluate as a formula."""
    plain = _plain(value)
    return f"'{plain}" if isinstance(plain, str) and plain.startswith(("=", "+", "-", "@", "\t", "\r")) else plain


def _markdown_cell(value: Any) -> str:
    """Escape a value for Markdown, so that it creates no cells, links, pictures or HTML."""
    # Not every Markdown reader removes the backslash of `\<`.
    return _MARKDOWN.sub(lambda match: "&lt;" if match[0] == "<" else rf"\{match[0]}", _cut(value))


def _cut(value: Any) -> str:
    text = _cell(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:z.3f}"  # z: no sign before 0.000
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    return "" if value is None else printable(" ".join(str(_plain(value)).split()))


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
