"""Write the report of a run as one HTML file: scores, pictures, paper tables, claims and case studies.

This module chooses and orders what the report shows; `page.html.j2` has the markup and escapes every text.
"""

import base64
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import groupby
from math import inf
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from disent_core.report import curves, scores, style
from disent_core.report.scores import Group, Row, direction, ordered_groups, ranked

PICTURES = {"t_sne": "t-SNE", "pca": "PCA"}  # titles of a head's pictures in the report, by file name


@dataclass(frozen=True)
class Picture:
    """A PNG of one head; `name` is its file name."""

    encoder: str
    method: str
    trained_on: str
    name: str
    png: bytes

    @property
    def alternative(self) -> str:
        return f"{PICTURES[self.name]} of {self.method} on {self.encoder}, trained on {self.trained_on}"

    @property
    def base64(self) -> str:
        """The file in base64, for a data URL."""
        return base64.b64encode(self.png).decode()


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Everything that a report shows.

    `facts` are what a reader should know first, as names and values. `tasks` are in display order, `methods` in the
    order that determines their colours, as in the UI's pictures. `views` has the rows of the warehouse's views by name;
    the page notes a missing view.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    tasks: Sequence[str] = ()
    methods: Sequence[str] = ()
    views: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()

    def rows(self, view: str) -> Sequence[Row]:
        return self.views.get(view, ())


def document(report: RunReport) -> str:
    """Return the whole page, which loads nothing from elsewhere. Equal reports give equal pages."""
    script = (files("disent_core.report") / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    clouds: dict[str, dict[str, list[Picture]]] = {}  # by encoder and method
    for picture in report.pictures:
        if picture.name in PICTURES:
            clouds.setdefault(picture.encoder, {}).setdefault(picture.method, []).append(picture)
    return _template().render(
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
        title=report.title,
        facts=report.facts,
        boards=boards(report.rows("leaderboard"), report.rows("significance"), report.tasks),
        leakages=list(_leakages(report)),
        curves=list(_curves(report.rows("training_curve"))),
        clouds=clouds,
        papers=paper_tables(report.views, report.rows("coverage")),
        coverage=report.rows("coverage"),
        claims=report.rows("claim_verdicts"),
        cases=case_studies(report.rows("disagreements")),
    )


def _template() -> Any:
    page = Environment(
        loader=PackageLoader("disent_core.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_as_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters |= {"unit": scores.unit, "count": "{:,}".format, "interval": interval, "bar": _bar}
    page.filters |= {"counted": _counted, "tally": lambda words: _counted(Counter(words))}
    return page.get_template("page.html.j2")


def _counted(counts: Mapping[str, int]) -> str:
    """Return the counts that are not 0: `2 held, 3 undecided`."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _as_text(value: Any) -> Any:
    """Format a value: numbers with three decimals, None and numbers that are not finite as the empty text."""
    if isinstance(value, float):
        return f"{value:.3f}" if math.isfinite(value) else ""
    return "" if value is None else value


def _bar(row: Row) -> str:
    """Return where the dark and the light part of the bar in a cell end, as CSS custom properties."""
    ends = {"low": row["ci_low"], "high": row["ci_high"]}
    shares = {name: row["value"] if end is None else end for name, end in ends.items()}
    return "; ".join(f"--{name}: {min(max(share, 0), 1):.1%}" for name, share in shares.items())


def _leakages(report: RunReport) -> Iterator[tuple[Group, Markup]]:
    """Yield, for each task, the largest group with both embeddings, and its drawing."""
    board, drawn_tasks = report.rows("leaderboard"), set[str]()
    marks = style.method_marks((*report.methods, *sorted({row["method"] for row in board})))
    for group, rows in scores.ordered_groups(board, report.tasks):
        drawn = None if group.task in drawn_tasks or group.hubness else scores.leakage(rows, marks)
        if drawn is not None:
            drawn_tasks.add(group.task)
            yield group, Markup(style.svg(drawn, f"Leakage, {' '.join(filter(None, group))}"))


def _curves(rows: Sequence[Row]) -> Iterator[tuple[str, Markup]]:
    for encoder in sorted({row["encoder"] for row in rows}):
        drawn = curves.learning_curves([row for row in rows if row["encoder"] == encoder])
        if drawn is not None:
            yield encoder, Markup(style.svg(drawn, f"Learning curves, {encoder}"))


# --- leaderboards: one per task, data set, encoder and metric, with the best method first -----------------

_PROBLEM = ("task", "dataset", "encoder", "evaluated_on", "metric", "settings")
_SIDE = ("method", "trained_on", "embedding")
System = tuple[str, ...]  # a trained method on a problem: the values of `_PROBLEM` and `_SIDE`


@dataclass
class Standing:
    """Number of systems a system was compared with, number it beats significantly, and those it ties with."""

    compared: int = 0
    beaten: int = 0
    level: set[System] = field(default_factory=set)


def standings(comparisons: Iterable[Row]) -> dict[System, Standing]:
    """Return the standing of every system from the rows of the view `significance`."""
    by_system: dict[System, Standing] = {}
    for row in comparisons:
        problem = tuple(row[name] for name in _PROBLEM)
        first, second = (problem + tuple(row[f"{name}_{side}"] for name in _SIDE) for side in "ab")
        first_is_better = (row["difference"] > 0) != row["lower_is_better"]
        for system, other, is_better in ((first, second, first_is_better), (second, first, not first_is_better)):
            standing = by_system.setdefault(system, Standing())
            standing.compared += 1
            standing.beaten += row["stands"] and is_better
            if not row["stands"]:
                standing.level.add(other)
    return by_system


def boards(rows: Iterable[Row], comparisons: Iterable[Row], tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Return a board for each group, in the order of the tasks, larger groups first.

    A board has its `group`, `direction` (`scores.direction`) and number of `methods`, as `columns` the best row of each
    language or direction, as `lines` the ranked methods with the best of the first column first, and all its `rows`.
    """
    by_system = standings(comparisons)
    return [_board(group, numbers, by_system) for group, numbers in ordered_groups(rows, tasks)]


def _board(group: Group, rows: Sequence[Row], by_system: Mapping[System, Standing]) -> dict[str, Any]:
    cells = {(row["method"], row["evaluated_on"]): row for row in ranked(rows)}
    best: dict[str, Row] = {}
    for row in sorted(cells.values(), key=lambda row: (row["evaluated_on"], row["rank"], row["method"])):
        best.setdefault(row["evaluated_on"], row)
    by_method = {method: [cells.get((method, name)) for name in best] for method, _ in cells}
    ranks = {method: [row["rank"] if row else inf for row in numbers] for method, numbers in by_method.items()}
    lines = []
    for method in sorted(ranks, key=lambda method: (ranks[method], method)):
        numbers = by_method[method]
        shown = [row and {**row, "emphasis": _emphasis(row, best[row["evaluated_on"]], by_system)} for row in numbers]
        is_cut_short = any(row is not None and row.get("converged") is False for row in numbers)
        lines.append({"first": next(filter(None, shown)), "cells": shown, "is_cut_short": is_cut_short})
    return {
        "group": group,
        "direction": direction(rows),
        "methods": len({row["method"] for row in rows}),
        "columns": list(best.values()),
        "lines": lines,
        "rows": [_shown(row, by_system.get(_system(row))) for row in rows],
    }


def _shown(row: Row, standing: Standing | None) -> Row:
    return {
        **row,
        "n": f"{row['n']:,}",
        "seeds": row["seeds"] or None,
        "seed_std": None if row["seed_std"] is None else f"{row['seed_std']:.4f}",
        "interval": interval(row),
        "beats": standing and f"{standing.beaten} of {standing.compared}",
    }


def interval(row: Row) -> str:
    low, high = row["ci_low"], row["ci_high"]
    return "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def _system(row: Row) -> System:
    return tuple(row[name] for name in (*_PROBLEM, *_SIDE))


def _emphasis(row: Row, best: Row, by_system: Mapping[System, Standing]) -> str:
    """Return `best`, `tied` if no test finds a difference from the best row, or empty."""
    if row["rank"] == 1:
        return "best"
    standing = by_system.get(_system(row))
    return "tied" if standing is not None and _system(best) in standing.level else ""


# --- tables of the papers: published numbers beside measured ones, and how many cells are measured --------

TABLE_VIEW = re.compile(r"([a-z]+)_table(\d+)")  # names of the views that are tables of a paper

_KINDS = {"published": "number", "measured": "number", "difference": "signed"}
_PROSE = ("why_missing", "trained_on", "note")
_ASIDE = ("published_encoder", "dataset", "trained_on", "training", "note", "why_missing")
"""Columns shown after the numbers, so that the numbers stay in sight."""


def paper_tables(views: Mapping[str, Sequence[Row]], coverage: Sequence[Row]) -> list[dict[str, Any]]:
    """Return every view that is a paper's table, ordered by paper and table.

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
    """Return heading, title and kind: for `en_de_published`, `en-de`, `published` and a number."""
    label, _, last = name.rpartition("_")
    if label and last in _KINDS:
        return label.replace("_", "-"), last, _KINDS[last]
    return "", name.replace("_", " "), "prose" if name in _PROSE else ""


# --- case studies, like FMDA's tables 7 and 8: a query, its gold answer, and the first result of each method


def case_studies(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the queries on which methods disagree, for each task, data set and encoder.

    `rows` are those of the view `disagreements`, in its order. Queries without a text are left out.
    """
    rows_with_text = [row for row in rows if row["query_text"] is not None]
    return [
        {
            **dict(zip(("task", "dataset", "encoder"), group, strict=True)),
            "cases": [_case(list(case_rows)) for _, case_rows in groupby(group_rows, key=lambda row: row["place"])],
        }
        for group, group_rows in groupby(rows_with_text, key=lambda row: (row["task"], row["dataset"], row["encoder"]))
    ]


def _case(rows: Sequence[Row]) -> dict[str, Any]:
    """Return a query with the methods grouped by answer, right answers first."""
    answers: dict[tuple[bool, str], list[str]] = {}
    for row in rows:
        answers.setdefault((row["is_gold"], row["top_text"] or "(no text)"), []).append(row["method"])
    order = sorted(answers.items(), key=lambda answer: (not answer[0][0], -len(answer[1]), answer[0][1]))
    shown = [{"is_right": is_right, "text": text, "methods": sorted(names)} for (is_right, text), names in order]
    return {**rows[0], "answers": shown}
