"""What the papers published beside what was measured: their tables, how much of them is covered, their claims."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from disent_core.report import html
from disent_core.report.html import Html
from disent_core.report.scores import Row

TABLE_VIEW = re.compile(r"([a-z]+)_table(\d+)")
"""Names of the views that are a paper's table."""

_TRIO = ("published", "measured", "difference")
_ASIDE = ("published_encoder", "dataset", "trained_on", "training", "note", "why_missing")
"""Columns that stand after the figures, which would else be out of sight."""
_VERDICTS = {"held": ("right", "✓ held"), "not held": ("wrong", "✗ not held")}


def paper_tables(views: Mapping[str, Sequence[Row]], coverage: Sequence[Row]) -> Html:
    """A part for each view of a paper's table, in the order of papers and tables."""
    told = {(row["paper"], row["table"]): row for row in coverage}
    names = [(match[1], int(match[2]), name) for name in views if (match := TABLE_VIEW.fullmatch(name))]
    return html.join(
        html.details(_summary(paper, number, told.get((paper, f"T{number}"))), _paper_table(views[name]))
        for paper, number, name in sorted(names)
    )


def _summary(paper: str, number: int, covered: Row | None) -> Html:
    name = html.text(f"{paper.upper()}, table {number}")
    if covered is None:
        return name
    told = f"{covered['shows']} · {covered['measured']} of {covered['cells']} cells measured"
    return html.join([name, html.element("small", html.text(told))], " ")


def _paper_table(rows: Sequence[Row]) -> Html:
    """Columns `x_published`, `x_measured`, `x_difference` under one heading x; columns without a value left out."""
    if not rows:
        return html.paragraph(html.text("This view is empty."))
    kept = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    numbers = [name for name in kept if name.endswith(_TRIO)]
    aside = [name for name in kept if name in _ASIDE]
    names = [*(name for name in kept if name not in (*numbers, *aside)), *numbers, *aside]
    cells = ([_paper_cell(name, row[name]) for name in names] for row in rows)
    right = [place for place, name in enumerate(names) if name in numbers]
    return html.table([_title(name) for name in names], cells, numbers=right, above=_headings(names))


def _parts(name: str) -> tuple[str, str]:
    """`en_de_published` is `en-de` and `published`; a column of its own has no heading."""
    label, _, kind = name.rpartition("_")
    return (label.replace("_", "-"), kind) if kind in _TRIO and label else ("", name)


def _title(name: str) -> Html:
    return html.text(_parts(name)[1].replace("_", " "))


def _headings(names: Sequence[str]) -> Html:
    spans = ((label, len(list(own))) for label, own in groupby(names, key=lambda name: _parts(name)[0]))
    cells = (
        html.element("th", html.text(label), colspan=str(width), **({"class_": "span"} if label else {}))
        for label, width in spans
    )
    return html.element("tr", *cells)


def _paper_cell(name: str, value: object) -> Html:
    if name.endswith("difference") and isinstance(value, float):
        return html.text(f"{value:+.3f}")
    if name in ("why_missing", "trained_on", "note"):
        return html.element("span", html.text(value), class_="wrap") if value else Html("")
    return html.text(value)


_CLAIMS = (
    "paper",
    "claim",
    "encoder",
    "left side",
    "its mean",
    "right side",
    "its mean",
    "found",
    "cells held",
    "verdict",
)


def claims(rows: Sequence[Row]) -> Html:
    """The papers' relative claims, and whether they hold here."""
    lines = ([*_claim(row), _verdict(row["verdict"])] for row in rows)
    return html.table([html.text(name) for name in _CLAIMS], lines, numbers=(4, 6, 7, 8))


def _claim(row: Row) -> list[Html]:
    says = html.element("span", html.text(row["says"]), class_="wrap")
    held = f"{row['cells_held']} of {row['cells']}" if row["cells"] else None
    found = None if row["found"] is None else f"{row['statistic']} {row['found']:.3f}"
    sides = (html.text(row[name]) for name in ("encoder", "left_side", "left_value", "right_side", "right_value"))
    return [html.text(row["paper"]), says, *sides, html.text(found), html.text(held)]


def _verdict(verdict: str) -> Html:
    kind, told = _VERDICTS.get(verdict, ("", f"– {verdict}"))
    return html.element("span", html.text(told), **({"class_": kind} if kind else {}))
