"""The leaderboard as tables: one a task, data set, encoder and metric, best method first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from disent_core.report import html
from disent_core.report.html import Html
from disent_core.report.scores import Group, Row, ordered_groups, ranked, unit

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


def boards(rows: Iterable[Row], comparisons: Iterable[Row], tasks: Sequence[str]) -> Html:
    """A part for each group, in the order of the tasks; those with most numbers first."""
    found = standings(comparisons)
    parts = []
    for group, own in ordered_groups(rows, tasks):
        methods = f"{len({row['method'] for row in own})} methods"
        parts.append(html.details(heading(group, methods), _wide(own, found), _long(own, found), is_open=not parts))
    return html.join(parts)


def heading(group: Group, more: str = "") -> Html:
    """Names of a group, as the line that opens its part."""
    task, dataset, encoder, metric = group
    told = " · ".join((dataset, encoder, unit(metric), more) if more else (dataset, encoder, unit(metric)))
    return html.join([html.text(task.replace("_", " ")), html.element("small", html.text(told))], " ")


def _entry(row: Row) -> Entry:
    return tuple(row[name] for name in (*_PROBLEM, *_SIDE))


def _wide(rows: Sequence[Row], found: Mapping[Entry, Standing]) -> Html:
    """A line for each method, a column for each language or direction."""
    cells = {(row["method"], row["evaluated_on"]): row for row in ranked(rows)}
    if not cells:
        return html.paragraph(html.text("No method is ranked by this; what was measured is under every number."))
    columns = sorted({column for _, column in cells})
    best = {column: min((row for (_, c), row in cells.items() if c == column), key=_rank) for column in columns}

    def place(method: str) -> list[float]:
        return [
            float(cells[method, column]["rank"]) if (method, column) in cells else float("inf") for column in columns
        ]

    methods = sorted({method for method, _ in cells}, key=lambda method: (place(method), method))
    head = [html.text("method"), html.text("embedding"), html.text("seeds"), *(_column(best[each]) for each in columns)]
    lines = []
    for method in methods:
        own = {column: cells[method, column] for column in columns if (method, column) in cells}
        told = next(iter(own.values()))
        values = (_cell(own[each], best[each], found) if each in own else Html("") for each in columns)
        lines.append([html.text(method), html.text(told["embedding"]), html.text(told["seeds"] or None), *values])
    return html.table(head, lines, numbers=range(2, len(head)))


def _rank(row: Row) -> tuple[int, str]:
    return row["rank"], row["method"]


def _column(row: Row) -> Html:
    return html.join([html.text(row["evaluated_on"]), html.element("small", html.text(f"n = {row['n']:,}"))], "<br>")


def _cell(row: Row, best: Row, found: Mapping[Entry, Standing]) -> Html:
    """The value; the best in bold, one that can't be told apart from it underlined."""
    value = html.text(row["value"])
    standing = found.get(_entry(row))
    if row["rank"] == 1:
        value = html.element("span", value, class_="best")
    elif standing is not None and _entry(best) in standing.level:
        value = html.element("span", value, class_="tied")
    return html.join([value, html.element("small", _interval(row))], " ")


def _interval(row: Row) -> Html:
    if row["ci_low"] is None or row["ci_high"] is None:
        return Html("")
    return html.text(f"[{row['ci_low']:.3f}, {row['ci_high']:.3f}]")


_LONG = (
    "on",
    "rank",
    "method",
    "trained on",
    "embedding",
    "value",
    "95 % interval",
    "n",
    "seeds",
    "std",
    "above",
    "reads as",
)


def _long(rows: Sequence[Row], found: Mapping[Entry, Standing]) -> Html:
    """Every number of a group, those of other embeddings too."""
    lines = ([*_line(row), _above(found.get(_entry(row))), html.text(row["reads_as"])] for row in rows)
    told = html.table([html.text(name) for name in _LONG], lines, numbers=(1, 5, 6, 7, 8, 9, 10))
    return html.details(html.text(f"Every number: {len(rows):,} of all embeddings"), told)


def _line(row: Row) -> list[Html]:
    names = ("evaluated_on", "rank", "method", "trained_on", "embedding")
    std = None if row["seed_std"] is None else f"{row['seed_std']:.4f}"
    rest = (f"{row['n']:,}", row["seeds"] or None, std)
    return [*(html.text(row[name]) for name in names), html.text(row["value"]), _interval(row), *map(html.text, rest)]


def _above(standing: Standing | None) -> Html:
    return Html("") if standing is None else html.text(f"{standing.above} of {standing.compared}")
