"""The leaderboard as tables: one for each task, data set, encoder and metric, the best method first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from disent_core.report.scores import Group, Row, ordered_groups, ranked

_PROBLEM = ("task", "dataset", "encoder", "evaluated_on", "metric", "settings")
_SIDE = ("method", "trained_on", "embedding")
Entry = tuple[str, ...]
"""A method on a problem: the values of `_PROBLEM` and `_SIDE`."""


@dataclass
class Standing:
    """How an entry compares: how many it is significantly above, and whom it can't be told apart from."""

    compared: int = 0
    above: int = 0
    level: set[Entry] = field(default_factory=set)


def standings(comparisons: Iterable[Row]) -> dict[Entry, Standing]:
    """Of every entry, from the rows of the view `significance`."""
    found: dict[Entry, Standing] = {}
    for row in comparisons:
        problem = tuple(row[name] for name in _PROBLEM)
        first, second = (problem + tuple(row[f"{name}_{side}"] for name in _SIDE) for side in "ab")
        for own, other, is_higher in ((first, second, row["difference"] > 0), (second, first, row["difference"] < 0)):
            standing = found.setdefault(own, Standing())
            standing.compared += 1
            standing.above += row["stands"] and is_higher
            if not row["stands"]:
                standing.level.add(other)
    return found


def boards(rows: Iterable[Row], comparisons: Iterable[Row], tasks: Sequence[str]) -> list[dict[str, Any]]:
    """A board for each group, in the order of the tasks; those with most numbers first.

    A board has its `group`, the number of `methods`, as `columns` the best row of each language or direction, as
    `lines` the methods that are ranked, the best of the first column first, and all its `rows`.
    """
    found = standings(comparisons)
    return [_board(group, numbers, found) for group, numbers in ordered_groups(rows, tasks)]


def _board(group: Group, rows: Sequence[Row], found: Mapping[Entry, Standing]) -> dict[str, Any]:
    cells = {(row["method"], row["evaluated_on"]): row for row in ranked(rows)}
    names = sorted({name for _, name in cells})
    best = {name: min((row for (_, column), row in cells.items() if column == name), key=_rank) for name in names}
    ranks = {method: [cells[method, name]["rank"] if (method, name) in cells else inf for name in names]
             for method, _ in cells}  # fmt: skip
    lines = []
    for method in sorted(ranks, key=lambda method: (ranks[method], method)):
        numbers = [cells.get((method, name)) for name in names]
        shown = [row and {**row, "emphasis": _emphasis(row, best[row["evaluated_on"]], found)} for row in numbers]
        lines.append({"first": next(filter(None, shown)), "cells": shown})
    return {
        "group": group,
        "methods": len({row["method"] for row in rows}),
        "columns": list(best.values()),
        "lines": lines,
        "rows": [_shown(row, found.get(_entry(row))) for row in rows],
    }


def _shown(row: Row, standing: Standing | None) -> Row:
    """A row as the table of every number has it."""
    return {
        **row,
        "n": f"{row['n']:,}",
        "seeds": row["seeds"] or None,
        "seed_std": None if row["seed_std"] is None else f"{row['seed_std']:.4f}",
        "interval": interval(row),
        "above": standing and f"{standing.above} of {standing.compared}",
    }


def interval(row: Row) -> str:
    """The ends of the row's interval, if it has one."""
    low, high = row["ci_low"], row["ci_high"]
    return "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def _entry(row: Row) -> Entry:
    return tuple(row[name] for name in (*_PROBLEM, *_SIDE))


def _rank(row: Row) -> tuple[int, str]:
    return row["rank"], row["method"]


def _emphasis(row: Row, best: Row, found: Mapping[Entry, Standing]) -> str:
    """`best`, `tied` where a test can't tell the row from the best, or nothing."""
    if row["rank"] == 1:
        return "best"
    standing = found.get(_entry(row))
    return "tied" if standing is not None and _entry(best) in standing.level else ""
