"""Draw scores: bars by language, spread over seeds, and leakage of meaning into the language embedding.

Rows are those of the view `leaderboard`: numbers of methods over their seeds, with intervals.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from disent_core.evaluation.contract import hubness_of
from disent_core.report import style
from disent_core.report.style import Mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


class Group(NamedTuple):
    """Key of comparable numbers. `hubness` is the correction for hubs, empty where there is none."""

    task: str
    dataset: str
    encoder: str
    metric: str
    hubness: str


PANELS, ITEMS = 12, 40  # largest number of panels in a picture and of items in a panel; tables show the rest

UNITS = {
    "accuracy_at_1": "accuracy at 1, fraction of queries",
    "map": "mean average precision, 0 to 1",
    "accuracy": "accuracy, fraction of texts",
    "pearson": "Pearson's r, -1 to 1",
    "spearman": "Spearman's rho, -1 to 1",
    "f1": "F1, 0 to 1",
    "precision": "precision, 0 to 1",
    "recall": "recall, 0 to 1",
    "silhouette_cosine": "silhouette by cosine distance, -1 to 1",
    "silhouette_euclidean": "silhouette by Euclidean distance, -1 to 1",
    "micro_f1": "F1 of words with a label, 0 to 1",
    "span_f1": "F1 of spans, 0 to 1",
    "seqeval_f1": "F1 of spans by seqeval, 0 to 1",
}
CUT_SHORT = "†"  # marks a method with a head whose training was cut short
CUT_SHORT_NOTE = "† cut short: a seed was still improving in its last epoch, so more epochs may give more"
_EMBEDDINGS = ("sentence", "meaning", "template", "residual", "language")
_IDENTITY = ("task", "dataset", "encoder", "metric", "settings", "method", "trained_on", "evaluated_on", "embedding")


@dataclass(frozen=True)
class Item:
    """One bar: a value with its 95 % interval, and the values of its seeds."""

    label: str
    mark: Mark
    value: float
    low: float | None
    high: float | None
    seeds: tuple[float, ...] = ()


Panels = Mapping[str, Sequence[Item]]  # items by the title of their panel


def unit(metric: str) -> str:
    return UNITS.get(metric, metric.replace("_", " "))


def direction(rows: Iterable[Row]) -> str:
    """Return `lower is better` if that holds for the ranked rows of a group, else an empty string."""
    readings = {row["reads_as"] for row in rows if row["rank"] is not None}
    return "lower is better" if readings and all(text.endswith("lower is better") for text in readings) else ""


def marked(name: str, rows: Iterable[Row]) -> str:
    """Return the name of a method, with `CUT_SHORT` if a head behind its rows was cut short."""
    return f"{name} {CUT_SHORT}" if any(row.get("converged") is False for row in rows) else name


def axis(rows: Sequence[Row]) -> str:
    """Return the axis label of a group's scores: unit and direction."""
    return ", ".join(filter(None, (unit(rows[0]["metric"]), direction(rows))))


def _hubness(row: Row) -> str:
    name = hubness_of(row["settings"])
    return "" if name == "none" else name


def ordered_groups(rows: Iterable[Row], tasks: Iterable[str]) -> list[tuple[Group, list[Row]]]:
    """Return comparable rows in task order (unknown tasks last), plain before corrected, larger groups first."""
    order = {name: index for index, name in enumerate(tasks)}
    groups: dict[Group, list[Row]] = {}
    for row in rows:
        hubness = _hubness(row) and f"hubness: {_hubness(row)}"
        group = Group(row["task"], row["dataset"], row["encoder"], row["metric"], hubness)
        groups.setdefault(group, []).append(row)

    def sort_key(group: tuple[Group, list[Row]]) -> tuple[Any, ...]:
        return order.get(group[0].task, len(order)), group[0].hubness != "", -len(group[1])

    return sorted(groups.items(), key=sort_key)


def ranked(rows: Iterable[Row]) -> list[Row]:
    """Return the best row of each method on each language or direction, by the embedding that the task ranks."""
    names = ("task", "dataset", "encoder", "metric", "evaluated_on", "method")
    best: dict[tuple[str, ...], Row] = {}
    for row in (row for row in rows if row["rank"] is not None and row["value"] is not None):
        key = *(row[name] for name in names), _hubness(row)
        if key not in best or row["rank"] < best[key]["rank"]:
            best[key] = row
    return list(best.values())


def by_method(rows: Sequence[Row], seed_rows: Iterable[Row], marks: Mapping[str, Mark]) -> Panels:
    """Return a panel for each language or direction of a group, its methods from best to worst."""
    seeds = _seeds(seed_rows)
    kept = sorted(ranked(rows), key=lambda row: (row["evaluated_on"], row["rank"], row["method"]))
    return {
        title: [_item(row["method"], marks[row["method"]], row, seeds) for row in panel_rows]
        for title, panel_rows in groupby(kept, key=lambda row: row["evaluated_on"])
    }


def by_embedding(rows: Sequence[Row], seed_rows: Iterable[Row], tasks: Iterable[str] = ()) -> Panels:
    """Return a panel per task and metric of a method, in the order of `tasks`, with an item per language and embedding.

    Corrected retrieval has none: its numbers would be mixed with the plain ones.
    """
    seeds, colours = _seeds(seed_rows), style.method_marks(_EMBEDDINGS)
    kept = [row for row in rows if row["value"] is not None and not _hubness(row)]
    order = {name: index for index, name in enumerate(_EMBEDDINGS)}
    of_task = {name: index for index, name in enumerate(tasks)}

    def sort_key(row: Row) -> tuple[Any, ...]:
        task = of_task.get(row["task"], len(of_task)), row["task"]
        return *task, row["dataset"], row["metric"], row["evaluated_on"], order[row["embedding"]]

    kept.sort(key=sort_key)
    return {
        f"{title[0]}, {title[1]}\n{unit(title[2])}": [
            _item(f"{row['evaluated_on']} {row['embedding']}", colours[row["embedding"]], row, seeds)
            for row in panel_rows
        ]
        for title, panel_rows in groupby(kept, key=lambda row: (row["task"], row["dataset"], row["metric"]))
    }


def _seeds(rows: Iterable[Row]) -> dict[tuple[str, ...], list[float]]:
    values: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if row["seed"] is not None and row["value"] is not None:
            values.setdefault(_identity(row), []).append(row["value"])
    return values


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in _IDENTITY)


def _item(label: str, mark: Mark, row: Row, seeds: Mapping[tuple[str, ...], list[float]]) -> Item:
    return Item(label, mark, row["value"], row["ci_low"], row["ci_high"], tuple(seeds.get(_identity(row), ())))


# --- drawing ----------------------------------------------------------------------------------------------


def bars(panels: Panels, x: str = "", *, most: int = PANELS) -> "Figure | None":
    """Draw horizontal bars with their 95 % intervals; None if there is nothing to draw."""
    return _draw(panels, x, most, _bar_panel)


def leaderboard(rows: Sequence[Row], methods: Iterable[str]) -> "Figure | None":
    """Draw bars of the methods on the first six languages or directions of one group."""
    panels = by_method(rows, [], style.method_marks(methods))
    return bars(panels, axis(rows), most=6) if panels else None


def spread(panels: Panels, *, most: int = PANELS) -> "Figure | None":
    """Draw how far each seed lies from the mean of its method, with the interval of that mean; None without seeds."""
    seeded = {title: [item for item in items if len(item.seeds) > 1] for title, items in panels.items()}
    seeded = {title: items for title, items in seeded.items() if items}
    return _draw(seeded, "seed minus mean, in units of the metric", most, _spread_panel)


def _draw(
    panels: Panels, x: str, most: int, draw: "Callable[[Axes, Sequence[Item]], None]", columns: int = 2
) -> "Figure | None":
    shown = {title: list(items)[:ITEMS] for title, items in list(panels.items())[:most]}
    if not shown:
        return None
    height = 0.95 + 0.19 * max(4, *map(len, shown.values()))
    longest = style.text_width((item.label for items in shown.values() for item in items), 8.5)
    top = 0.3 + 0.15 * any("\n" in title for title in shown)
    margins = style.Margins(left=0.15 + min(longest, 2.2), right=0.12, top=top)
    figure, grid = style.grid_of_panels(len(shown), columns, 4.1, height, margins)
    for axes, (title, items) in zip(grid, shown.items(), strict=True):
        draw(axes, items)
        style.decorate(axes, title, grid="x")
        style.label_axes(axes, x)
        axes.set_yticks(range(len(items)), [style.plain(item.label) for item in items], color=style.INK)
        axes.set_ylim(max(len(items), 4) - 0.4, -0.6)  # so that a single bar does not fill the panel
        axes.tick_params(axis="y", length=0)
    return figure


def _bar_panel(axes: "Axes", items: Sequence[Item]) -> None:
    ends = [max(0.0, item.value, item.value if item.high is None else item.high) for item in items]
    colours = [item.mark.colour for item in items]
    axes.barh(range(len(items)), [item.value for item in items], height=0.68, color=colours, alpha=0.85)
    with_interval = [(index, item) for index, item in enumerate(items) if None not in (item.low, item.high)]
    lows, highs = ([getattr(item, end) for _, item in with_interval] for end in ("low", "high"))
    axes.hlines([index for index, _ in with_interval], lows, highs, color=style.INK, linewidth=1)
    for index, (item, end) in enumerate(zip(items, ends, strict=True)):
        axes.annotate(
            f"{item.value:.3f}", (end, index), (3, 0), textcoords="offset points",
            va="center", fontsize=7.5, color=style.GREY,
        )  # fmt: skip
    low = min(0.0, *(item.value if item.low is None else item.low for item in items))
    axes.set_xlim(low, max(*ends, 1e-3) + 0.15 * (max(*ends, 1e-3) - low))


def _spread_panel(axes: "Axes", items: Sequence[Item]) -> None:
    for index, item in enumerate(items):
        if item.low is not None and item.high is not None:
            interval = [item.low - item.value, item.high - item.value]
            axes.plot(interval, [index, index], color=style.RULE, linewidth=7, solid_capstyle="butt")
        off = np.array(item.seeds) - item.value
        colour, marker = item.mark.colour, item.mark.marker
        axes.scatter(off, np.full(len(off), index), s=16, color=colour, marker=marker, zorder=3, linewidths=0)
    axes.axvline(0, color=style.GREY, linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)  # more labels of five characters would touch


def changes(rows: Iterable[Row], most: int = PANELS) -> "Figure | None":
    """Draw how far each changed number moved, with the interval of the difference; None if there is none.

    Rows are those of `history.events`; a number without a paired test has no interval.
    """
    marks = {
        change: Mark(colour, "o") for change, colour in (("better", style.COLOURS[0]), ("worse", style.COLOURS[1]))
    }
    problem = itemgetter("task", "dataset", "metric")
    panels = {
        f"{title[0]}, {title[1]}\n{title[2]}": [
            Item(
                f"{row['method']} {row['evaluated_on']} ({row['refresh']})", marks[row["change"]], row["difference"],
                row["difference_low"], row["difference_high"],
            )
            for row in of
        ]
        for title, of in groupby(sorted(rows, key=problem), key=problem)
    }  # fmt: skip
    return _draw(panels, "after minus before (blue: better, orange: worse)", most, _change_panel, 1)


def _change_panel(axes: "Axes", items: Sequence[Item]) -> None:
    for index, item in enumerate(items):
        if item.low is not None and item.high is not None:
            axes.plot([item.low, item.high], [index, index], color=item.mark.colour, linewidth=1.5)
        axes.plot(item.value, index, color=item.mark.colour, marker=item.mark.marker, markersize=5)
    axes.axvline(0, color=style.GREY, linewidth=0.8)


# --- leakage ----------------------------------------------------------------------------------------------


def leakage(
    rows: Iterable[Row], marks: Mapping[str, Mark], *, most: int = PANELS, width: float = 6.0
) -> "Figure | None":
    """Draw the score of the meaning embedding against that of the language embedding, one point per method.

    A method that disentangles is at the upper left: its meaning embedding retrieves translations, its language
    embedding does not. Crosses are 95 % intervals. `rows` are of one group; its first `most` directions are panels of
    `width` inches. Return None if no method has both embeddings.
    """
    by_direction = dict(list(_both(rows).items())[:most])
    if not by_direction:
        return None
    metric = next(iter(next(iter(by_direction.values()))))[1]["metric"]
    names = (row["method"] for points in by_direction.values() for row, _ in points)
    margins = style.Margins(left=0.65, right=0.35 + style.text_width(names, 8.0))
    figure, grid = style.grid_of_panels(len(by_direction), 2, width, 3.9, margins)
    for axes, (title, points) in zip(grid, by_direction.items(), strict=True):
        _leakage_panel(axes, points, marks)
        style.decorate(axes, title, grid="both")
        style.label_axes(axes, f"language embedding: {unit(metric)}", f"meaning embedding: {unit(metric)}")
    return figure


def _both(rows: Iterable[Row]) -> dict[str, list[tuple[Row, Row]]]:
    """Return language and meaning rows of every method with both, by direction, from its best training set."""
    sides: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        leaks = row["reads_as"].startswith("leakage")  # a task may want the language embedding to know the language
        if row["value"] is not None and (row["embedding"], leaks) in (("meaning", False), ("language", True)):
            sides.setdefault((row["evaluated_on"], row["method"], row["trained_on"]), {})[row["embedding"]] = row
    complete = {key: row_of for key, row_of in sides.items() if len(row_of) == 2}
    by_direction: dict[str, dict[str, tuple[Row, Row]]] = {}
    for (direction, method, _), row_of in sorted(complete.items(), key=lambda side: -side[1]["meaning"]["value"]):
        by_direction.setdefault(direction, {}).setdefault(method, (row_of["language"], row_of["meaning"]))
    return {direction: list(by_direction[direction].values()) for direction in sorted(by_direction)}


def _leakage_panel(axes: "Axes", points: Sequence[tuple[Row, Row]], marks: Mapping[str, Mark]) -> None:
    for language, meaning in points:
        x, y, mark = language["value"], meaning["value"], marks[meaning["method"]]
        cross = [((language["ci_low"], language["ci_high"]), (y, y)), ((x, x), (meaning["ci_low"], meaning["ci_high"]))]
        for ends in cross:
            if None not in (*ends[0], *ends[1]):
                axes.plot(*ends, color=style.GREY, linewidth=0.7)
        axes.scatter(
            x, y, s=42, color=mark.colour, marker=mark.marker, edgecolors=style.PAPER, linewidths=0.6, zorder=3
        )
    left, right = _limits([language for language, _ in points])
    bottom, top = _limits([meaning for _, meaning in points])
    axes.set(xlim=(left, right), ylim=(bottom, top))
    span, height_of_panel = right - left, top - bottom
    heights = bottom + height_of_panel * _apart(
        [(meaning["value"] - bottom) / height_of_panel for _, meaning in points], 0.052
    )
    for (language, meaning), height in zip(points, heights, strict=True):
        mark = marks[meaning["method"]]
        beside = {"color": mark.colour, "clip_on": False}
        ends = (language["value"], right + 0.03 * span), (meaning["value"], height)
        axes.plot(*ends, **beside, linewidth=0.6, alpha=0.4)
        axes.plot(ends[0][1], height, **beside, marker=mark.marker, markersize=5, markeredgewidth=0)
        axes.text(right + 0.05 * span, height, style.plain(meaning["method"]), va="center", fontsize=8, color=style.INK)


def _limits(rows: Sequence[Row]) -> tuple[float, float]:
    """Return limits of an axis that leave room for every interval and for zero."""
    low = min(0.0, *(row["value"] if row["ci_low"] is None else row["ci_low"] for row in rows))
    high = max(1e-3, *(row["value"] if row["ci_high"] is None else row["ci_high"] for row in rows))
    return low - 0.03 * (high - low), high + 0.06 * (high - low)


def _apart(heights: Sequence[float], gap: float) -> Float[np.ndarray, " labels"]:
    """Move descending heights as little as possible to lie `gap` apart (less if there is no room) within 0 to 1."""
    from scipy.optimize import isotonic_regression

    # With the gaps subtracted, labels only have to keep their order: an isotonic regression.
    shift = min(gap, 1 / max(len(heights) - 1, 1)) * np.arange(len(heights))
    closed = isotonic_regression(np.array(heights) + shift, increasing=False).x
    return np.clip(closed, shift[-1], 1.0) - shift
