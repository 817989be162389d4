"""Make tables of the leaderboard: one per task, data set, encoder and metric, with the best method first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from disent_core.report.scores import Group, Row, direction, ordered_groups, ranked

_PROBLEM = ("task", "dataset", "encoder", "evaluated_on", "metric", "settings")
_SIDE = ("method", "trained_on", "embedding")
System = tuple[str, ...]
"""A trained method on a problem: the values of `_PROBLEM` and `_SIDE`."""


@dataclass
class Standing:
    """How many systems a system was compared with, how many it beats significantly, and which ones it ties with."""

    compared: int = 0
    beaten: int = 0
    level: set[System] = field(default_factory=set)


def standings(comparisons: Iterable[Row]) -> dict[System, Standing]:
    """The standing of every system, from the rows of the view `significance`."""
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
    """Return a board for each group, in the order of the tasks; larger groups come first.

    A board has its `group`, `direction` (`scores.direction`) and number of `methods`, as `columns` the best row of each
    language or direction, as `lines` the ranked methods with the best of the first column first, and all its `rows`.
    """
    by_system = standings(comparisons)
    return [_board(group, numbers, by_system) for group, numbers in ordered_groups(rows, tasks)]


def _board(group: Group, rows: Sequence[Row], by_system: Mapping[System, Standing]) -> dict[str, Any]:
    cells = {(row["method"], row["evaluated_on"]): row for row in ranked(rows)}
    names = sorted({name for _, name in cells})
    best = {name: min((row for (_, column), row in cells.items() if column == name), key=_rank) for name in names}
    ranks = {method: [cells[method, name]["rank"] if (method, name) in cells else inf for name in names]
             for method, _ in cells}  # fmt: skip
    lines = []
    for method in sorted(ranks, key=lambda method: (ranks[method], method)):
        numbers = [cells.get((method, name)) for name in names]
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
    """A row of the table of all numbers, as it is shown."""
    return {
        **row,
        "n": f"{row['n']:,}",
        "seeds": row["seeds"] or None,
        "seed_std": None if row["seed_std"] is None else f"{row['seed_std']:.4f}",
        "interval": interval(row),
        "beats": standing and f"{standing.beaten} of {standing.compared}",
    }


def interval(row: Row) -> str:
    """Format the interval of the row; empty if it has none."""
    low, high = row["ci_low"], row["ci_high"]
    return "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def _system(row: Row) -> System:
    return tuple(row[name] for name in (*_PROBLEM, *_SIDE))


def _rank(row: Row) -> tuple[int, str]:
    return row["rank"], row["method"]


def _emphasis(row: Row, best: Row, by_system: Mapping[System, Standing]) -> str:
    """`best`, `tied` if no test finds a difference from the best row, or empty."""
    if row["rank"] == 1:
        return "best"
    standing = by_system.get(_system(row))
    return "tied" if standing is not None and _system(best) in standing.level else ""
