"""Tests that figures are readable PNG files of bounded size, the same for the same input."""

from io import BytesIO
from itertools import product

import numpy as np
import pytest
from PIL import Image

from disent_core.report.clouds import POINTS_PER_CLOUD, _pca, _Projection, _sample, _tsne, pca, tsne
from disent_core.report.curves import POINTS, _lines, _thinned, learning_curves, training_curve
from disent_core.report.style import MOST_BYTES, png
from disent_core.storage.tables import SCHEMAS, rows_table


def curve(terms, *, seeds=3, epochs=40):
    rng = np.random.default_rng(0)
    rows = [
        {"method": "fmda", "encoder": "tiny", "trained_on": "en-de", "seed": seed, "epoch": epoch, "split": split,
         "term": term, "value": float(np.exp(-epoch / 9) + 0.02 * rng.random()), "is_best": epoch == 20 + seed}
        for seed, epoch, split, term in product(range(seeds), range(epochs), ("train", "dev"), terms)
    ]  # fmt: skip
    return rows_table(rows, "training_curve")


def opened(png):
    image = Image.open(BytesIO(png))
    image.load()
    return image


@pytest.mark.parametrize("terms", [["total"], ["total", "dev_accuracy_at_1"], ["total", *"abcdefgh"]])
def test_a_training_curve_is_a_small_png_with_a_panel_for_each_kind_of_term(terms):
    encoded = png(training_curve(curve(terms)))
    image = opened(encoded)
    assert (image.format, len(encoded) <= MOST_BYTES) == ("PNG", True)
    assert image.width == {1: 528, 2: 792, 9: 792}[len(terms)]
    assert np.asarray(image.convert("L")).std() > 5  # something is drawn


def test_a_training_curve_with_values_that_are_not_finite_is_drawn_and_an_empty_one_rejected():
    table = curve(["total"], seeds=1, epochs=4)
    values = table.column("value").to_numpy().copy()
    values[2:] = np.nan
    place = table.schema.get_field_index("value")
    assert opened(png(training_curve(table.set_column(place, "value", [values]))))
    with pytest.raises(ValueError, match="no rows"):
        training_curve(SCHEMAS["training_curve"].empty_table())


def clouds(rows):
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(rows, 24))
    return {
        "en meaning": meaning,
        "de meaning": meaning + 0.1 * rng.normal(size=meaning.shape),
        "en language": rng.normal(size=(rows, 6)) + 3,
        "de language": rng.normal(size=(rows, 6)) - 3,
    }


def test_tsne_of_full_clouds_is_a_small_png_with_a_panel_for_each_embedding(monkeypatch):
    # Another test covers the projection; this one draws the largest figure.
    points = np.random.default_rng(0).normal(size=(2 * POINTS_PER_CLOUD, 2))
    there = lambda rows: _Projection(points[: len(rows)], ("", ""))  # noqa: E731
    monkeypatch.setattr("disent_core.report.clouds._tsne", there)
    encoded = png(tsne(clouds(1_000), "fmda"))
    assert (opened(encoded).width <= 792, len(encoded) <= MOST_BYTES) == (True, True)


@pytest.mark.parametrize(("draw", "rows"), [(tsne, 20), (pca, 1_000)])
def test_clouds_are_a_small_png_and_the_same_each_time(draw, rows):
    encoded = png(draw(clouds(rows), "fmda"))
    assert len(encoded) <= MOST_BYTES
    assert encoded == png(draw(clouds(rows), "fmda"))


def test_tsne_keeps_groups_apart():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(40, 6)) + 4, rng.normal(size=(40, 6)) - 4])
    left, right = np.split(_tsne(rows).positions, 2)
    within = max(np.ptp(left, axis=0).max(), np.ptp(right, axis=0).max())
    assert np.linalg.norm(left.mean(axis=0) - right.mean(axis=0)) > within / 2


@pytest.mark.parametrize("draw", [tsne, pca])
def test_collapsed_embeddings_are_drawn_as_well(draw):
    assert opened(png(draw({"en": np.ones((10, 3)), "de": np.ones((10, 3))}, "collapsed")))
    assert np.isfinite(_tsne(np.ones((20, 1))).positions).all()


def test_clouds_of_equal_length_are_sampled_alike():
    rows = np.arange(2_000.0)[:, None]
    assert len(_sample(rows)) == POINTS_PER_CLOUD
    assert (_sample(rows) == _sample(-rows) * -1).all()


@pytest.mark.parametrize("draw", [tsne, pca])
@pytest.mark.parametrize("few", [{}, {"en meaning": np.ones((7, 2))}, clouds(20) | {"en other": np.ones((3, 2))}])
def test_too_few_points_are_no_picture(draw, few):
    assert draw(few, "few") is None


def test_pca_keeps_the_distances_of_flat_clouds_tells_their_variance_and_is_blind_to_signs():
    rows = np.random.default_rng(0).normal(size=(50, 2)) * [3, 1]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    places, labels = _pca(rows)
    expected = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(places[:, None] - places[None], axis=2), expected, atol=1e-6)
    assert sum(int(label.split()[2].rstrip("%")) for label in labels) in (99, 100, 101)
    rows = np.random.default_rng(0).normal(size=(30, 5))
    places = _pca(rows).positions
    assert (places[np.abs(places).argmax(axis=0), [0, 1]] > 0).all()


def test_small_multiples_have_a_panel_for_each_head_that_learned():
    rows = [{**row, "method": method} for method in ("dream", "fmda") for row in curve(["total", "other"]).to_pylist()]
    of_one_epoch = {**rows[0], "method": "centered"}
    titles = [axes.get_title("left") for axes in learning_curves([*rows, of_one_epoch]).axes]
    assert titles == ["dream\nen-de", "fmda\nen-de"]
    assert learning_curves([of_one_epoch]) is None


def test_thinned_curves_keep_their_ends_and_the_epoch_that_counts():
    rows = curve(["total"], seeds=1, epochs=500).to_pylist()
    for row in rows:
        row["is_best"] = row["epoch"] in (3, 301)
    [points, _] = [seeds[0] for seeds in _thinned(_lines(rows)).values()]
    assert (points[0, 0], points[-1, 0], 301 in points[:, 0]) == (0, 499, True)
    assert len(points) <= POINTS + 1
