"""Draw embeddings in two dimensions: by t-SNE, which preserves neighbours, and by PCA, which preserves distances."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from disent_core.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS_PER_CLOUD = 800
FEWEST_POINTS = 8  # a panel with fewer points is not drawn
SEED = 0  # for the samples, the drawing order and t-SNE

_Rows = Float[np.ndarray, "points dim"]
_Flat = Float[np.ndarray, "points 2"]
_Clouds = Mapping[str, Float[np.ndarray, "_ _"]]  # embeddings by language and name


class _Projection(NamedTuple):
    positions: _Flat
    labels: tuple[str, str]  # labels of the axes; empty if the axes have no meaning


def tsne(points: _Clouds, title: str) -> "Figure | None":
    """Draw clouds of embeddings by t-SNE of unit vectors (so by cosine); None if a panel has fewer than 8 points.

    van der Maaten and Hinton 2008, https://jmlr.org/papers/v9/vandermaaten08a.html. The label of a cloud is a language
    and an embedding, `en meaning`: each embedding is a panel, each language a colour. Clouds of a panel share one
    projection, so their matrices have the same dimension. Larger clouds are sampled to 800 rows; clouds of equal length
    keep the same rows, so that translations stay together.
    """
    return _panels(points, title, _tsne)


def pca(points: _Clouds, title: str) -> "Figure | None":
    """Draw the same clouds as `tsne`, by the first two principal components of their unit vectors."""
    return _panels(points, title, _pca)


def _panels(points: _Clouds, title: str, project: Callable[[np.ndarray], _Projection]) -> "Figure | None":
    panels: dict[str, dict[str, np.ndarray]] = {}
    languages: dict[str, int] = {}
    for label, matrix in points.items():
        language, _, embedding = label.rpartition(" ") if " " in label else (label, "", "")
        languages.setdefault(language, len(languages))
        panels.setdefault(embedding, {})[language] = _sample(matrix)
    if min((sum(map(len, members.values())) for members in panels.values()), default=0) < FEWEST_POINTS:
        return None
    figure, row = style.row_of_panels(title, len(panels))
    for axes, (name, members) in zip(row, panels.items(), strict=True):
        _draw(axes, name, members, languages, project(np.concatenate(list(members.values()))))
    return figure


def _sample(matrix: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "sample dim"]:
    if len(matrix) <= POINTS_PER_CLOUD:
        return matrix
    chosen = np.random.default_rng(SEED).choice(len(matrix), POINTS_PER_CLOUD, replace=False)
    return matrix[np.sort(chosen)]


def _draw(
    axes: "Axes",
    name: str,
    members: Mapping[str, np.ndarray],
    languages: Mapping[str, int],
    projection: _Projection,
) -> None:
    positions, labels = projection
    colour_of = {language: style.COLOURS[languages[language] % len(style.COLOURS)] for language in members}
    colours = np.repeat(list(colour_of.values()), [len(rows) for rows in members.values()])
    # In random order, so that no cloud covers another one.
    order = np.random.default_rng(SEED).permutation(len(positions))
    axes.scatter(*positions[order].T, s=7, c=colours[order].tolist(), alpha=0.65, linewidths=0)
    for language, colour in colour_of.items():
        axes.scatter([], [], s=22, color=colour, label=language)
    style.decorate(axes, name)
    style.label_axes(axes, *labels)
    axes.grid(visible=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    style.legend(axes)


def _components(rows: _Rows, most: int) -> tuple[Float[np.ndarray, "points kept"], Float[np.ndarray, " rank"]]:
    """Return coordinates of unit rows along the first `most` principal components, and all shares of variance."""
    from disent_core.evaluation.metrics.ranking import unit_rows

    centred = unit_rows(rows, "points of a picture")
    centred = centred - centred.mean(axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    return left[:, :most] * size[:most], size**2 / max(float((size**2).sum()), 1e-12)


def _pca(rows: _Rows) -> _Projection:
    components, share = _components(rows, 2)
    positions = np.zeros((len(rows), 2))
    positions[:, : components.shape[1]] = components
    # The sign of a component is arbitrary. Make its largest value positive, so that pictures are reproducible.
    positions *= np.where(positions[np.abs(positions).argmax(axis=0), [0, 1]] < 0, -1, 1)
    first, second = (*share[:2], 0.0)[:2]
    return _Projection(positions, (f"PC 1, {first:.0%} of variance", f"PC 2, {second:.0%} of variance"))


def _tsne(rows: _Rows) -> _Projection:
    from sklearn.manifold import TSNE

    components, _ = _components(rows, 50)
    # Initialised with principal components; collapsed embeddings have none and start in one point.
    start = np.zeros((len(rows), 2), dtype=np.float32)
    width = min(2, components.shape[1])
    start[:, :width] = components[:, :width] / max(float(components[:, 0].std()), 1e-6) * 1e-4
    model = TSNE(
        perplexity=min(30.0, (len(rows) - 1) / 3),
        init=start,  # pyright: ignore[reportArgumentType] - scikit-learn documents an array
        random_state=SEED,
        max_iter=500,
    )
    return _Projection(model.fit_transform(components), ("", ""))
