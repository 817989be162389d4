"""Draw learning curves: of one head in full, and of many heads as small multiples."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from disent_core.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOTAL, RETRIEVAL = "total", "dev_accuracy_at_1"  # terms of a training curve that have their own panel

POINTS = 60  # largest number of epochs per line in a small panel
_DASHES = {"train": "-", "dev": (0, (4, 1.5))}
_COLUMNS = ("term", "split", "seed", "epoch", "value", "is_best")

_Points = Float[np.ndarray, "_ 3"]  # epoch, value, whether the epoch is the best so far
_Lines = Mapping[tuple[str, str], Mapping[int, _Points]]  # by term and split, then by seed


def training_curve(curve: pa.Table) -> "Figure":
    """Draw the total training loss, its terms, and dev retrieval if it was measured.

    Thick lines are means over seeds, thin lines are single seeds. Dots mark the epoch that each seed keeps: the last
    one that was the best so far. The rows of `training_curve` are of one method, encoder and `trained_on`.
    """
    if not curve.num_rows:
        raise ValueError("the training curve has no rows")
    lines = _lines(curve.select(_COLUMNS).to_pylist())
    panels = {
        "Total loss": [key for key in lines if key[0] == TOTAL],
        "Loss terms (solid: train, dashed: dev)": [key for key in lines if key[0] not in (TOTAL, RETRIEVAL)],
        "Dev retrieval": [key for key in lines if key[0] == RETRIEVAL],
    }
    panels = {title: keys for title, keys in panels.items() if keys}
    names = [curve.column(name)[0].as_py() for name in ("method", "encoder", "trained_on")]
    seeds = len(curve.column("seed").unique())
    names.append(f"{seeds} seed{'s' * (seeds > 1)}, dots: epochs kept")
    figure, row = style.row_of_panels(f"{' · '.join(name for name in names[:3] if name)}\n{names[3]}", len(panels))
    for axes, (title, keys) in zip(row, panels.items(), strict=True):
        _draw(axes, title, {key: lines[key] for key in keys})
    return figure


def learning_curves(rows: Sequence[Mapping[str, Any]]) -> "Figure | None":
    """Draw the total loss of every head as small multiples, at most 60 epochs per line; None if no head has it."""
    wanted = sorted((row for row in rows if row["term"] == TOTAL), key=_head)
    heads = {head: list(head_rows) for head, head_rows in groupby(wanted, key=_head)}
    heads = {head: head_rows for head, head_rows in heads.items() if len({row["epoch"] for row in head_rows}) > 1}
    if not heads:
        return None
    figure, panels = style.grid_of_panels(len(heads), 5, 2.4, 1.9, style.Margins(bottom=0.42))
    for axes, (head, head_rows) in zip(panels, heads.items(), strict=True):
        _draw(axes, f"{head[1]}\n{head[2]}", _thinned(_lines(head_rows)), small=True)
    style.legend(panels[0])
    return figure


def _head(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["encoder"], row["method"], row["trained_on"]


def _lines(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[int, _Points]]:
    """Return the points of each seed by (term, split), with terms in order of first appearance."""
    values = [tuple(row[name] for name in _COLUMNS) for row in rows]
    order = {term: index for index, term in enumerate(dict.fromkeys(row[0] for row in values))}
    values.sort(key=lambda row: (order[row[0]], row[1] != "train", row[1], row[2], row[3]))
    lines: dict[tuple[str, str], dict[int, _Points]] = {}
    for (term, split, seed), points in groupby(values, key=lambda row: row[:3]):
        lines.setdefault((term, split), {})[seed] = np.array([row[3:] for row in points], dtype=float)
    return lines


def _thinned(lines: _Lines) -> dict[tuple[str, str], dict[int, _Points]]:
    def thinned(points: _Points) -> _Points:
        chosen = np.linspace(0, len(points) - 1, min(POINTS, len(points))).round().astype(int)
        return points[np.union1d(chosen, np.flatnonzero(points[:, 2])[-1:])]

    return {key: {seed: thinned(points) for seed, points in seeds.items()} for key, seeds in lines.items()}


def _draw(axes: "Axes", title: str, lines: _Lines, *, small: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    terms = list(dict.fromkeys(term for term, _ in lines))
    by_split = len(terms) == 1
    for number, ((term, split), seeds) in enumerate(lines.items()):
        colour = style.COLOURS[(number if by_split else terms.index(term)) % len(style.COLOURS)]
        dashes = _DASHES.get(split, "-") if not by_split else "-"
        label = split if by_split else (term if split == next(s for t, s in lines if t == term) else None)
        for points in seeds.values() if len(seeds) > 1 else ():
            axes.plot(*points[:, :2].T, color=colour, linewidth=0.7, alpha=0.55, linestyle=dashes)
        axes.plot(*_mean(list(seeds.values())), color=colour, linewidth=1.8, linestyle=dashes, label=label)
        if by_split:
            best = np.concatenate([points[points[:, 2] > 0][-1:] for points in seeds.values()])
            axes.scatter(*best[:, :2].T, s=22, color=colour, edgecolors=style.PAPER, linewidths=0.7, zorder=3)
    style.decorate(axes, title, size=7.5 if small else 9.5)
    is_accuracy = terms == [RETRIEVAL]
    style.label_axes(axes, "epoch", "" if small else "accuracy at 1, fraction" if is_accuracy else "loss")
    axes.xaxis.set_major_locator(MaxNLocator(4 if small else 7, integer=True))
    values = np.concatenate([points[:, 1] for seeds in lines.values() for points in seeds.values()])
    values = values[np.isfinite(values)]
    if values.size and values.min() > 0 and values.max() > 100 * values.min():
        axes.set_yscale("log")
    if len(lines) > 1 and not small:
        style.legend(axes, 1 + (len(terms) > 6))


def _mean(seeds: Sequence[_Points]) -> tuple[np.ndarray, np.ndarray]:
    """Return the epochs, and the mean value over the seeds that reached each of them."""
    points = np.concatenate(seeds)
    epochs, index = np.unique(points[:, 0], return_inverse=True)
    return epochs, np.bincount(index, points[:, 1]) / np.bincount(index)
