"""PNG figures of a training and of an embedding space. No pyplot: nothing is shared between calls."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOTAL, RETRIEVAL = "total", "dev_accuracy_at_1"
"""Terms of a training curve that have a panel of their own."""

POINTS_PER_CLOUD = 800
_INK, _GREY = "#22262b", "#8a9099"
_COLOURS = ("#2a6fb0", "#e07b39", "#3a9d74", "#b5487a", "#8468b8", "#c9a227", "#4aa8b8", "#9c5c3b", "#6b7a2f")
_DASHES = {"train": "-", "dev": (0, (4, 1.5))}


def training_curve_png(curve: pa.Table) -> bytes:
    """The course of a training: total loss, its terms, and dev retrieval where it was measured.

    Thick lines are means over seeds, thin lines single seeds, dots the epoch that each seed keeps.

    Args:
        curve: rows of `training_curve`, of one method, encoder and `trained_on`.

    Raises:
        ValueError: if there is no row.
    """
    if not curve.num_rows:
        raise ValueError("the training curve has no rows")
    lines = _lines(curve)
    terms = [key for key in lines if key[0] not in (TOTAL, RETRIEVAL)]
    panels = {
        "Total loss": [key for key in lines if key[0] == TOTAL],
        "Loss terms (solid: train, dashed: dev)": terms,
        "Dev retrieval, accuracy at 1": [key for key in lines if key[0] == RETRIEVAL],
    }
    panels = {title: keys for title, keys in panels.items() if keys}
    names = [curve.column(name)[0].as_py() for name in ("method", "encoder", "trained_on")]
    seeds = len(curve.column("seed").unique())
    names.append(f"{seeds} seed{'s' * (seeds > 1)}, dots: epochs kept")
    figure = _figure(" · ".join(name for name in names if name), len(panels))
    for axes, (title, keys) in zip(_row_of_axes(figure, len(panels)), panels.items(), strict=True):
        _draw_curves(axes, title, {key: lines[key] for key in keys})
    return _png(figure)


_Points = Float[np.ndarray, "epochs 3"]  # epoch, value, whether it is the best epoch


def _lines(curve: pa.Table) -> dict[tuple[str, str], dict[int, _Points]]:
    """Points of each seed by (term, split), terms in order of first appearance."""
    order = {name: place for place, name in enumerate(curve.column("term").unique().to_pylist())}
    columns = ("term", "split", "seed", "epoch", "value", "is_best")
    rows = list(zip(*(curve.column(name).to_pylist() for name in columns), strict=True))
    rows.sort(key=lambda row: (order[row[0]], row[1] != "train", row[1], row[2], row[3]))
    lines: dict[tuple[str, str], dict[int, _Points]] = {}
    for (term, split, seed), points in groupby(rows, key=lambda row: row[:3]):
        lines.setdefault((term, split), {})[seed] = np.array([row[3:] for row in points], dtype=float)
    return lines


def _draw_curves(axes: "Axes", title: str, lines: Mapping[tuple[str, str], Mapping[int, _Points]]) -> None:
    from matplotlib.ticker import MaxNLocator

    terms = list(dict.fromkeys(term for term, _ in lines))
    by_split = len(terms) == 1
    for number, ((term, split), seeds) in enumerate(lines.items()):
        colour = _COLOURS[(number if by_split else terms.index(term)) % len(_COLOURS)]
        dashes = _DASHES.get(split, "-") if not by_split else "-"
        label = split if by_split else (term if split == next(s for t, s in lines if t == term) else None)
        for points in seeds.values() if len(seeds) > 1 else ():
            axes.plot(*points[:, :2].T, color=colour, linewidth=0.7, alpha=0.55, linestyle=dashes)
        axes.plot(*_mean(list(seeds.values())), color=colour, linewidth=1.8, linestyle=dashes, label=label)
        if by_split:
            best = np.concatenate([points[points[:, 2] > 0] for points in seeds.values()])
            axes.scatter(*best[:, :2].T, s=22, color=colour, edgecolors="white", linewidths=0.7, zorder=3)
    _style(axes, title)
    axes.set_xlabel("epoch", color=_GREY, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    values = np.concatenate([points[:, 1] for seeds in lines.values() for points in seeds.values()])
    values = values[np.isfinite(values)]
    if values.size and values.min() > 0 and values.max() > 100 * values.min():
        axes.set_yscale("log")
    if len(lines) > 1:
        axes.legend(fontsize=7, frameon=False, labelcolor=_INK, ncols=1 + (len(terms) > 6))


def _mean(seeds: Sequence[_Points]) -> tuple[np.ndarray, np.ndarray]:
    """Epochs, and the mean value over the seeds that reached them."""
    points = np.concatenate(seeds)
    epochs, place = np.unique(points[:, 0], return_inverse=True)
    return epochs, np.bincount(place, points[:, 1]) / np.bincount(place)


# --- embedding spaces -------------------------------------------------------------------------------------


def tsne_png(points: Mapping[str, Float[np.ndarray, "_ _"]], title: str, *, seed: int = 0) -> bytes:
    """Clouds of embeddings in two dimensions, by t-SNE of unit vectors (so by cosine).

    van der Maaten and Hinton 2008, https://jmlr.org/papers/v9/vandermaaten08a.html. A cloud's label is a
    language and an embedding, `en meaning`: each embedding is a panel, each language a colour. Clouds of a panel
    share one projection. Of larger clouds 800 rows are drawn, the same ones of clouds of equal length, so that
    translations stay together.

    Args:
        points: matrix by label; those of one panel have the same dimensions.
        title: of the figure.
        seed: of the sample and the projection.

    Raises:
        ValueError: if a panel has fewer than 8 points.
    """
    clouds = {label: _sample(matrix, seed) for label, matrix in points.items()}
    names = list(dict.fromkeys(_panel(label) for label in clouds))
    languages = list(dict.fromkeys(_cloud(label) for label in clouds))
    figure = _figure(title, len(names))
    for axes, name in zip(_row_of_axes(figure, len(names)), names, strict=True):
        members = {_cloud(label): cloud for label, cloud in clouds.items() if _panel(label) == name}
        _draw_clouds(axes, name, members, languages, seed)
    return _png(figure)


def _panel(label: str) -> str:
    return label.rpartition(" ")[2] if " " in label else ""


def _cloud(label: str) -> str:
    return label.rpartition(" ")[0] or label


def _sample(matrix: Float[np.ndarray, "rows dim"], seed: int) -> Float[np.ndarray, "sample dim"]:
    if len(matrix) <= POINTS_PER_CLOUD:
        return matrix
    chosen = np.random.default_rng(seed).choice(len(matrix), POINTS_PER_CLOUD, replace=False)
    return matrix[np.sort(chosen)]


def _draw_clouds(
    axes: "Axes", name: str, members: Mapping[str, np.ndarray], languages: Sequence[str], seed: int
) -> None:
    places = _tsne(np.concatenate(list(members.values())), seed)
    owner = np.repeat([languages.index(language) for language in members], [len(m) for m in members.values()])
    colours = np.array(_COLOURS)[owner % len(_COLOURS)]
    # In random order: no cloud lies on top of another as a whole.
    order = np.random.default_rng(seed).permutation(len(places))
    axes.scatter(*places[order].T, s=7, c=colours[order].tolist(), alpha=0.65, linewidths=0)
    for language in members:
        colour = _COLOURS[languages.index(language) % len(_COLOURS)]
        axes.scatter([], [], s=22, color=colour, label=language)
    _style(axes, name)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.legend(fontsize=8, frameon=False, labelcolor=_INK, loc="best", handletextpad=0.1)


def _tsne(rows: Float[np.ndarray, "points dim"], seed: int) -> Float[np.ndarray, "points 2"]:
    from sklearn.manifold import TSNE

    from disent_core.evaluation.retrieval import unit_rows

    if len(rows) < 8:
        raise ValueError(f"t-SNE of {len(rows)} points says nothing; at least 8 are needed")
    centred = unit_rows(rows, "points of t-SNE")
    centred = centred - centred.mean(axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    components = left[:, :50] * size[:50]
    # Started by principal components; collapsed embeddings have none, and stay the one point that they are.
    start = np.zeros((len(rows), 2), dtype=np.float32)
    width = min(2, components.shape[1])
    start[:, :width] = components[:, :width] / max(float(components[:, 0].std()), 1e-6) * 1e-4
    model = TSNE(
        perplexity=min(30.0, (len(rows) - 1) / 3),
        init=start,  # pyright: ignore[reportArgumentType] - an array is documented
        random_state=seed,
        max_iter=500,
    )
    return model.fit_transform(components)


# --- the look ---------------------------------------------------------------------------------------------


def _figure(title: str, panels: int) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(3.6 * panels, 4.8), 3.6), dpi=110, layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=11, color=_INK, x=0.01, ha="left")
    return figure


def _row_of_axes(figure: "Figure", panels: int) -> list["Axes"]:
    return list(figure.subplots(1, panels, squeeze=False)[0])


def _style(axes: "Axes", title: str) -> None:
    axes.set_title(title, fontsize=9, color=_INK, loc="left")
    axes.tick_params(labelsize=7.5, colors=_GREY, length=2.5)
    axes.grid(visible=True, axis="y", color="#e6e8eb", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c9cdd2")


def _png(figure: "Figure") -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    buffer = BytesIO()
    # 128 colours are enough for a chart and make the file a third as large.
    drawn.quantize(128, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
