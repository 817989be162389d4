"""Show the tables of the papers: published numbers beside measured ones, and how many cells are measured."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from disent_core.report.scores import Row

TABLE_VIEW = re.compile(r"([a-z]+)_table(\d+)")
"""Names of the views that are tables of a paper."""

_KINDS = {"published": "number", "measured": "number", "difference": "signed"}
_PROSE = ("why_missing", "trained_on", "note")
_ASIDE = ("published_encoder", "dataset", "trained_on", "training", "note", "why_missing")
"""Columns that come after the numbers, so that the numbers stay in sight."""


def paper_tables(views: Mapping[str, Sequence[Row]], coverage: Sequence[Row]) -> list[dict[str, Any]]:
    """Return every view that is a table of a paper, ordered by paper and table.

    A table has its `title`, its row of `coverage` or None, its `columns` that have a value as (name, title, kind), the
    headings above them as `spans` of (label, number of columns), and `rows`.
    """
    covered = {(row["paper"], row["table"]): row for row in coverage}
    names = sorted((match[1], int(match[2]), name) for name in views if (match := TABLE_VIEW.fullmatch(name)))
    return [
        {
            "title": f"{paper.upper()}, table {number}",
            "coverage": covered.get((paper, f"T{number}")),
            "rows": views[name],
            **_columns(views[name]),
        }
        for paper, number, name in names
    ]


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Group columns `x_published`, `x_measured` and `x_difference` under the heading x."""
    kept = [name for name in (rows[0] if rows else ()) if any(row[name] is not None for row in rows)]
    names = sorted(kept, key=lambda name: 2 if name in _ASIDE else bool(_parts(name)[2]))
    spans = [(label, len(list(columns))) for label, columns in groupby(names, key=lambda name: _parts(name)[0])]
    return {"columns": [(name, *_parts(name)[1:]) for name in names], "spans": spans}


def _parts(name: str) -> tuple[str, str, str]:
    """Heading, title and kind: `en_de_published` is `en-de`, `published` and a number."""
    label, _, last = name.rpartition("_")
    if label and last in _KINDS:
        return label.replace("_", "-"), last, _KINDS[last]
    return "", name.replace("_", " "), "prose" if name in _PROSE else ""
