"""Figures are readable PNG files of bounded size, the same for the same input."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from disent_core.evaluation.plots import POINTS_PER_CLOUD, _sample, _tsne, training_curve_png, tsne_png
from disent_core.tables import SCHEMAS, rows_table

SIZE = 100_000


def curve(terms, *, seeds=3, epochs=40):
    rng = np.random.default_rng(0)
    rows = [
        {
            "method": "fmda",
            "encoder": "tiny",
            "trained_on": "en-de",
            "seed": seed,
            "epoch": epoch,
            "split": split,
            "term": term,
            "value": float(np.exp(-epoch / 9) + 0.02 * rng.random()),
            "is_best": epoch == 20 + seed,
        }
        for seed in range(seeds)
        for epoch in range(epochs)
        for split in ("train", "dev")
        for term in terms
    ]
    return rows_table(rows, "training_curve")


def opened(png):
    image = Image.open(BytesIO(png))
    image.load()
    return image


@pytest.mark.parametrize("terms", [["total"], ["total", "dev_accuracy_at_1"], ["total", *"abcdefgh"]])
def test_a_training_curve_is_a_small_png_with_a_panel_for_each_kind_of_term(terms):
    png = training_curve_png(curve(terms))
    image = opened(png)
    assert (image.format, len(png) < SIZE) == ("PNG", True)
    assert image.width == {1: 528, 2: 792, 9: 792}[len(terms)]
    assert np.asarray(image.convert("L")).std() > 5  # something is drawn


def test_a_training_curve_with_values_that_are_not_finite_is_drawn():
    table = curve(["total"], seeds=1, epochs=4)
    values = table.column("value").to_numpy().copy()
    values[2:] = np.nan
    place = table.schema.get_field_index("value")
    assert opened(training_curve_png(table.set_column(place, "value", [values])))


def test_an_empty_training_curve_is_rejected():
    with pytest.raises(ValueError, match="no rows"):
        training_curve_png(SCHEMAS["training_curve"].empty_table())


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
    # The projection has a test of its own; the largest figure is what counts here.
    points = np.random.default_rng(0).normal(size=(2 * POINTS_PER_CLOUD, 2))
    monkeypatch.setattr("disent_core.evaluation.plots._tsne", lambda rows, seed: points[: len(rows)])
    png = tsne_png(clouds(1_000), "fmda")
    assert (opened(png).width, len(png) < SIZE) == (792, True)


def test_tsne_is_the_same_for_the_same_seed():
    assert tsne_png(clouds(20), "a") == tsne_png(clouds(20), "a")


def test_tsne_keeps_groups_apart():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(40, 6)) + 4, rng.normal(size=(40, 6)) - 4])
    left, right = np.split(_tsne(rows, 0), 2)
    within = max(np.ptp(left, axis=0).max(), np.ptp(right, axis=0).max())
    assert np.linalg.norm(left.mean(axis=0) - right.mean(axis=0)) > within / 2


def test_collapsed_embeddings_are_drawn_as_well():
    assert opened(tsne_png({"en": np.ones((10, 3)), "de": np.ones((10, 3))}, "collapsed"))
    assert np.isfinite(_tsne(np.ones((20, 1)), 0)).all()


def test_clouds_of_equal_length_are_sampled_alike():
    rows = np.arange(2_000.0)[:, None]
    assert len(_sample(rows, 1)) == POINTS_PER_CLOUD
    assert (_sample(rows, 1) == _sample(-rows, 1) * -1).all()


def test_too_few_points_are_rejected():
    with pytest.raises(ValueError, match="t-SNE of 3 points"):
        tsne_png({"en": np.ones((3, 2))}, "few")
