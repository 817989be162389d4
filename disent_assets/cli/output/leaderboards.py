"""Lay out the leaderboard for a terminal: one board per task, data set, encoder and metric, best method first.

A board has a line for each method and a column for each language or direction. The leaderboard rows passed in have one
number for each method and column.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from statistics import mean

from disent_assets.cli.output.tables import lines_of
from disent_assets.counted import counted
from disent_core.evaluation.contract import TASKS
from disent_core.report.scores import CUT_SHORT, CUT_SHORT_NOTE, Group, Row, direction, marked, ordered_groups

_METHODS, _COLUMNS, _NAME = 10, 6, 20
"""Most methods and columns of a board in the summary, and characters of a name, to fit 100 columns."""


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the largest boards of the first two tasks, in hundredths: at most 25 lines of 100 columns, and notes.

    Among encoders, choose the best of the boards with the most columns.
    """
    largest: dict[str, list[str]] = {}
    ordered = ordered_groups(rows, TASKS)
    for first, _ in ordered:
        if len(largest) < 2 and first.task not in largest:
            alike = [board for board in ordered if board[0]._replace(encoder=first.encoder) == first]
            group, numbers = max(alike, key=lambda board: (len(best := _best(board[1])), mean(best.values())))
            others = len({each.encoder for each, _ in ordered if each.task == first.task}) - 1
            largest[first.task] = [_title(group, numbers, "in %"), *_brief(first.task, numbers, others)]
    return _with_notes([line for board in largest.values() for line in ("", *board)][1:], rows)


def shown_tasks(rows: Iterable[Row]) -> list[str]:
    """Return the tasks that have a board, in display order."""
    return list(dict.fromkeys(group[0] for group, _ in ordered_groups(rows, TASKS)))


def boards(rows: Sequence[Row], width: int | None) -> list[str]:
    """Return the lines of all boards, with three decimals; a board wider than `width` is continued below."""
    lines = []
    for group, numbers in ordered_groups(rows, TASKS):
        cells = _cells(numbers, 1, ".3f")
        lines += ["", _title(group, numbers), *_folded([*cells, *_ceilings(numbers, cells[0], 1, ".3f")], width)]
    return _with_notes(lines[1:], rows)


def _with_notes(lines: list[str], rows: Sequence[Row]) -> list[str]:
    """Add a line explaining the mark of a method, if one is marked, and a line if numbers are stale."""
    stale = sum(row["is_stale"] for row in rows)
    is_old = f"stale: {stale:,} of {len(rows):,} numbers. Why: disent status; to make them again: disent materialize"
    notes = {CUT_SHORT_NOTE: any(CUT_SHORT in line for line in lines), is_old: stale > 0}
    return [*lines, *(note for note, holds in notes.items() if holds)]


def _best(rows: Sequence[Row]) -> dict[str, float]:
    best: dict[str, float] = {}
    for row in rows:
        best[row["evaluated_on"]] = max(best.get(row["evaluated_on"], -inf), _goodness(row))
    return best


def _brief(task: str, rows: Sequence[Row], encoders: int) -> list[str]:
    """Return the first methods and columns of a board; count the others, and the `encoders` omitted, in a last line."""
    cells = _cells(rows, 100, ".0f")
    methods, columns = len(cells) - 1, len(cells[0]) - 1
    kept = cells if methods <= _METHODS and columns <= _COLUMNS and not encoders else cells[:_METHODS]
    shown = [*kept, *_ceilings(rows, cells[0], 100, ".0f")]
    short = [[_shortened(row[0]), *row[1 : _COLUMNS + 1]] for row in shown]
    more = [
        counted(count, kind)
        for kind, count in (("method", methods + 1 - len(kept)), ("column", columns - _COLUMNS), ("encoder", encoders))
        if count > 0
    ]
    return [*_lines(short), *([f"and {', '.join(more)} more: disent leaderboard {task}"] if more else [])]


def _shortened(name: str) -> str:
    """Cut a name to `_NAME` characters, including the mark of a method."""
    stem, mark = (name[:-2], name[-2:]) if name.endswith(CUT_SHORT) else (name, "")
    room = _NAME - len(mark)
    return name if len(stem) <= room else f"{stem[: room - 1]}…{mark}"


def _title(group: Group, rows: Sequence[Row], unit: str = "") -> str:
    task, dataset, encoder, metric, hubness = group
    sizes = _span({row["n"] for row in rows})
    seeds = {row["seeds"] for row in rows} - {0}
    trainings = f", {_span(seeds)} seeds" if seeds else ""
    measured = " ".join(filter(None, (metric, unit, "[95 % interval]")))
    shown = ", ".join(filter(None, (measured, direction(rows), hubness)))
    return f"{task}: {shown}; {dataset} on {encoder}, n {sizes}{trainings}"


def _span(numbers: set[int]) -> str:
    return "-".join(f"{number:,}" for number in dict.fromkeys((min(numbers), max(numbers))))


def _cells(rows: Sequence[Row], factor: int, form: str) -> list[list[str]]:
    """Return a line of column names and a line for each method, best first."""
    columns = list(dict.fromkeys(row["evaluated_on"] for row in sorted(rows, key=_by_pair)))
    cells = {(row["method"], row["evaluated_on"]): _with_interval(row, factor, form) for row in rows}
    names = {method: marked(method, [row for row in rows if row["method"] == method]) for method in _best_first(rows)}
    lines = ([name, *(cells.get((method, column), "") for column in columns)] for method, name in names.items())
    return [["", *columns], *lines]


def _ceilings(rows: Sequence[Row], columns: Sequence[str], factor: int, form: str) -> list[list[str]]:
    """Return a line with the score of a perfect method where indistinguishable candidates keep it below 1."""
    ceilings = {row["evaluated_on"]: row["ceiling"] for row in rows if (row.get("ceiling") or 1.0) < 1}
    cells = [format(factor * ceilings[column], form) if column in ceilings else "" for column in columns[1:]]
    return [["(at most)", *cells]] if ceilings else []


def _by_pair(row: Row) -> tuple[str, bool, str]:
    """Sort key that keeps the two directions of a pair together, the one that methods are trained on first."""
    direction = row["evaluated_on"]
    return "-".join(sorted(direction.split("-"))), row["trained_on"] != direction, direction


def _best_first(rows: Sequence[Row]) -> list[str]:
    """Sort methods by their mean distance from the best of each column, over the columns that they have.

    As in the view `headline`, a method ranks below any that has all its columns, and more, and beats it in them.
    """
    best = _best(rows)
    lags: dict[str, dict[str, float]] = {row["method"]: {} for row in rows}
    for row in rows:
        lags[row["method"]][row["evaluated_on"]] = best[row["evaluated_on"]] - _goodness(row)
    means = {method: mean(lag.values()) for method, lag in lags.items()}

    def rank(method: str) -> tuple[float, int, str]:
        lag = lags[method]
        betters = [
            other
            for other, of_other in lags.items()
            if lag.keys() < of_other.keys() and round(sum(lag[column] - of_other[column] for column in lag), 9) > 0
        ]
        return round(max(means[name] for name in (method, *betters)), 9), -len(lag), method

    return sorted(lags, key=rank)


def _goodness(row: Row) -> float:
    return row["value"] if row["reads_as"] == "higher is better" else -row["value"]


def _folded(cells: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """Yield the lines of a table; columns that do not fit continue below, with the first column repeated."""
    start, end = 1, len(cells[0])
    while start < len(cells[0]):
        lines = _lines([[row[0], *row[start:end]] for row in cells])
        if width is None or max(map(len, lines)) <= width or end == start + 1:
            yield from lines
            start, end = end, len(cells[0])
        else:
            end -= 1


def _lines(cells: Sequence[Sequence[str]]) -> list[str]:
    return lines_of(cells, right=[False, *[True] * (len(cells[0]) - 1)])


def _with_interval(row: Row, factor: int, form: str) -> str:
    """Return `0.324 [0.309, 0.341]`, a value and its interval, or in hundredths `32 [31, 34]`."""
    value, *bounds = (row[name] for name in ("value", "ci_low", "ci_high"))
    shown = [format(factor * number, form) for number in (value, *bounds) if number is not None]
    return shown[0] if None in bounds else f"{shown[0]} [{shown[1]}, {shown[2]}]"
