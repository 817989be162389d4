"""Render the rows of a table as text: for a terminal, a document, or another program."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, Literal

import pyarrow as pa

from disent_core.text import printable

Style = Literal["table", "csv", "json", "markdown"]

_MARKDOWN = re.compile(r"[\\|<!`]|\[(?![-\d., ]*\]$)")
"""Characters with a meaning in Markdown. The bracket of an interval at the end of a cell can't begin a link."""
_PROBABILITIES = ("p_value", "p_holm")
_NARROWEST = 12
"""Columns to which a folded text is narrowed at most."""


def render(table: pa.Table, style: Style, width: int | None = None) -> str:
    """The rows as text: columns of fixed width, or a Markdown table, with three decimals and whole
    seconds; CSV or JSON in full.

    A table of fixed width that is wider than `width` has its texts folded. If it is too wide even so, each row is
    shown as a list of its columns.
    """
    columns = [_values(column) for column in table.columns]
    if style in ("table", "markdown"):
        columns = [_shown(name, values) for name, values in zip(table.column_names, columns, strict=True)]
    rows = list(zip(*columns, strict=True))
    if style == "json":
        records = [dict(zip(table.column_names, row, strict=True)) for row in rows]
        return json.dumps(records, ensure_ascii=False, indent=2, default=str) + "\n"
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


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; as DuckDB prints them if Python lacks one of them, such as the timestamp `infinity`."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        import duckdb

        with duckdb.connect(":memory:") as connection:
            connection.register("answer", pa.table({"value": column}))
            return [value for (value,) in connection.execute("select value::varchar from answer").fetchall()]


def _shown(name: str, values: list[Any]) -> list[Any]:
    """The values of a column; a p value that three decimals would show as 0 becomes the text `<0.001`."""
    if name not in _PROBABILITIES:
        return values
    return ["<0.001" if isinstance(value, float) and value < 0.0005 else value for value in values]


def lines_of(cells: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Lines in which the columns are aligned, on the right where `right` says so."""
    return _aligned(cells, right, _widths(cells))


def _fixed_width(schema: pa.Schema, rows: Sequence[Sequence[Any]], width: int | None) -> str:
    right = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in schema.types]
    cells = [list(map(_cell, schema.names)), *([_cell(value) for value in row] for row in rows)]
    widths = _widths(cells)
    total = f"({len(rows):,} row{'' if len(rows) == 1 else 's'})"
    if width is not None and _total(widths) > width:
        widths = _narrowed(widths, right, width)
        if _total(widths) > width:
            return "\n".join([*_records(cells), total]) + "\n"
    lines = [_aligned(_folded_row(row, widths), right, widths) for row in cells]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([*lines[0], rule, *(line for row in lines[1:] for line in row), total]) + "\n"


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(_width, column)) for column in zip(*cells, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _aligned(cells: Sequence[Sequence[str]], right: Sequence[bool], widths: Sequence[int]) -> list[str]:
    return ["  ".join(map(_pad, row, widths, right)).rstrip() for row in cells]


def _narrowed(widths: Sequence[int], is_number: Sequence[bool], width: int) -> list[int]:
    """Take columns from the widest text until the table fits; a text keeps at least `_NARROWEST`."""
    narrowed, texts = list(widths), [place for place, number in enumerate(is_number) if not number]
    while _total(narrowed) > width and texts:
        widest = max(texts, key=narrowed.__getitem__)
        if narrowed[widest] <= _NARROWEST:
            break
        narrowed[widest] -= 1
    return narrowed


def _folded_row(row: Sequence[str], widths: Sequence[int]) -> list[tuple[str, ...]]:
    """The lines of one row."""
    return list(zip_longest(*map(_folded, row, widths), fillvalue=""))


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, cut after a space or an underscore if there is one."""
    lines = []
    while _width(text) > width:
        end = next(end for end in range(len(text), 0, -1) if end == 1 or _width(text[:end]) <= width)
        end = max((text.rfind(mark, 0, end) + 1 for mark in " _,/"), default=0) or end
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]


def _records(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Every row as a list of its columns."""
    names = cells[0]
    longest = max(map(_width, names))
    for number, row in enumerate(cells[1:], start=1):
        yield f"-- row {number}"
        yield from (f"{_pad(name, longest, False)}  {value}".rstrip() for name, value in zip(names, row, strict=True))


def _plain(value: Any) -> Any:
    """The value as CSV can hold it: lists and structs as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _csv_cell(value: Any) -> Any:
    """The value for CSV; a text that a spreadsheet would take for a formula and compute gets a quote before it."""
    plain = _plain(value)
    return f"'{plain}" if isinstance(plain, str) and plain.startswith(("=", "+", "-", "@", "\t", "\r")) else plain


def _markdown_cell(value: Any) -> str:
    """The value for Markdown, in which it makes neither cells nor links, pictures or HTML."""
    return _MARKDOWN.sub(r"\\\g<0>", _cell(value))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:z.3f}"  # z: no sign before 0.000
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    return "" if value is None else printable(" ".join(str(_plain(value)).split()))


def _width(text: str) -> int:
    """Columns that the text takes in a terminal: two for a wide character, none for a combining one."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space
