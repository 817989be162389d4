"""Render the rows of a table as text: for a terminal, a document, or another program."""

import csv
import io
import json
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from disent_core.text import printable

Style = Literal["table", "csv", "json", "markdown"]


def render(table: pa.Table, style: Style) -> str:
    """The rows as text: columns of fixed width, or a Markdown table, with three decimals; CSV or JSON in full."""
    columns = [column.to_pylist() for column in table.columns]
    rows = list(zip(*columns, strict=True))
    if style == "json":
        records = [dict(zip(table.column_names, row, strict=True)) for row in rows]
        return json.dumps(records, ensure_ascii=False, indent=2, default=str) + "\n"
    if style == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows([_plain(value) for value in row] for row in rows)
        return text.getvalue()
    if style == "markdown":
        cells = [list(map(_cell, table.column_names)), ["---"] * table.num_columns, *(map(_cell, row) for row in rows)]
        return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in cells)
    return _fixed_width(table.schema, rows)


def _fixed_width(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> str:
    right = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in schema.types]
    cells = [list(map(_cell, schema.names)), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(_pad, row, widths, right)).rstrip() for row in cells]
    rule = "  ".join("-" * width for width in widths)
    total = f"({len(rows):,} row{'' if len(rows) == 1 else 's'})"
    return "\n".join((lines[0], rule, *lines[1:], total)) + "\n"


def _plain(value: Any) -> Any:
    """The value as CSV can hold it: lists and structs as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else printable(" ".join(str(_plain(value)).split()))


def _width(text: str) -> int:
    """Columns that the text takes in a terminal: two for a wide character, none for a combining one."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space
