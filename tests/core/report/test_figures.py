"""Figures are readable files of bounded size, the same for the same input, whose colours have contrast."""

import itertools
import re
from html import escape
from io import BytesIO
from itertools import product

import numpy as np
import pytest
from PIL import Image

from disent_core.evaluation.metrics.statistics import STATISTICS
from disent_core.report import scores, style
from disent_core.report.clouds import POINTS_PER_CLOUD, _pca, _Projection, _sample, _tsne, pca, tsne
from disent_core.report.curves import POINTS, _lines, _thinned, learning_curves, training_curve
from disent_core.report.style import COLOURS, INK, MOST_BYTES, PAPER, method_marks, png, png_made_of, svg
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


@pytest.mark.parametrize("terms", [["total"], ["total", *"abcdefgh"]])
def test_a_training_curve_is_a_small_png_with_a_panel_for_each_kind_of_term(terms):
    encoded = png(training_curve(curve(terms)))
    image = opened(encoded)
    assert (image.format, len(encoded) <= MOST_BYTES) == ("PNG", True)
    assert image.width == {1: 528, 9: 792}[len(terms)]
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


@pytest.mark.parametrize(("draw", "rows"), [(tsne, 20), (pca, 1_000)])
def test_clouds_are_a_small_png_and_the_same_each_time(draw, rows):
    encoded = png(draw(clouds(rows), "fmda"))
    assert (opened(encoded).width <= 792, len(encoded) <= MOST_BYTES) == (True, True)
    assert encoded == png(draw(clouds(rows), "fmda"))


@pytest.mark.parametrize("draw", [tsne, pca])
def test_collapsed_embeddings_are_plotted(draw):
    assert opened(png(draw({"en": np.ones((10, 3)), "de": np.ones((10, 3))}, "collapsed")))
    assert np.isfinite(_tsne(np.ones((20, 1))).positions).all()


def test_clouds_of_equal_length_are_sampled_alike():
    rows = np.arange(2_000.0)[:, None]
    assert len(_sample(rows)) == POINTS_PER_CLOUD
    assert (_sample(rows) == _sample(-rows) * -1).all()


@pytest.mark.parametrize("draw", [tsne, pca])
@pytest.mark.parametrize("few", [{}, clouds(20) | {"en other": np.ones((3, 2))}])
def test_too_few_points_give_no_plot(draw, few):
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


def test_small_multiples_have_a_panel_per_trained_head():
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


METHODS = [f"method_{number}" for number in range(26)]
BASE = {"task": "crosslingual_retrieval", "dataset": "massive", "encoder": "tiny", "metric": "accuracy_at_1",
        "settings": "{}", "trained_on": "en-de", "n": 100, "seed": None}  # fmt: skip


def row(method="dream", value=0.5, rank=1, embedding="meaning", **more):
    reads_as = "leakage, lower is better" if embedding == "language" else "higher is better"
    columns = {"evaluated_on": "en-de", "method": method, "value": value, "rank": rank, "embedding": embedding}
    return {**BASE, **columns, "ci_low": value - 0.02, "ci_high": value + 0.02, "reads_as": reads_as, **more}


DIRECTIONS = ("de-en", "en-de", "en-ja", "ja-en", "en-es", "es-en")


def board():
    return [
        scored
        for direction in DIRECTIONS
        for place, method in enumerate(METHODS)
        for scored in (
            row(method, 0.9 / (1 + place), place + 1, evaluated_on=direction),
            row(method, 0.01 * place, None, "language", evaluated_on=direction),
        )
    ]


def seeds(rows):
    return [{**scored, "seed": seed, "value": scored["value"] + 0.001 * seed} for scored in rows for seed in range(3)]


def test_pictures_of_26_methods_and_of_a_method_with_every_task_are_small():
    rows, marks = board(), method_marks(METHODS)
    panels = scores.by_method(rows, seeds(rows), marks)
    drawn = [scores.leaderboard(rows, METHODS), scores.spread(panels, most=6), scores.leakage(rows, marks, most=4)]
    assert max(len(png(figure)) for figure in drawn) <= MOST_BYTES
    rows = [
        row(task=f"task_{task}", evaluated_on=direction, embedding=embedding)
        for task in range(12)
        for direction in DIRECTIONS
        for embedding in ("meaning", "language")
    ]
    panels = scores.by_embedding(rows, seeds(rows))
    assert (len(panels), len(png(scores.bars(panels))) <= MOST_BYTES) == (12, True)


def test_every_metric_of_a_statistic_has_a_unit():
    assert [name for name in STATISTICS if name not in scores.UNITS] == []


def test_a_method_is_ranked_by_its_best_training():
    rows = [row(value=0.4, rank=3), row(value=0.6, rank=1, trained_on="en-de+en-es"), row("raw", 0.5, 2)]
    assert [(ranked["method"], ranked["value"]) for ranked in scores.ranked(rows)] == [("dream", 0.6), ("raw", 0.5)]


def test_panel_items_are_sorted_best_first_with_their_seeds():
    rows = [row("raw", 0.3, 2), row("dream", 0.5, 1)]
    other_training_set = row("dream", 0.9, 1, trained_on="en-ja")
    panels = scores.by_method(rows, seeds([rows[1], other_training_set]), method_marks(["raw", "dream"]))
    items = [(item.label, item.seeds) for item in panels["en-de"]]
    assert items == [("dream", pytest.approx((0.5, 0.501, 0.502))), ("raw", ())]


def test_leakage_is_plotted_only_with_a_leaking_and_a_language_embedding():
    useful = row(embedding="language", reads_as="higher is better")
    for rows in ([row(), row("raw", embedding="sentence")], [row(reads_as="leakage, lower is better"), useful]):
        assert scores.leakage(rows, method_marks(["dream", "raw"])) is None


def test_leakage_pairs_embeddings_of_the_same_training():
    rows = [row(value=value, trained_on=name) for name, value in (("a", 0.5), ("b", 0.8), ("c", 0.9))]
    rows += [row("dream", value, None, "language", trained_on=name) for name, value in (("a", 0.1), ("b", 0.2))]
    [(language, meaning)] = scores._both(rows)["en-de"]
    assert (language["value"], meaning["value"]) == (0.2, 0.8)


def test_empty_input_and_spread_without_seeds_give_no_plot():
    drawn = (scores.bars({}), scores.leaderboard([], []),
             scores.spread(scores.by_method([row()], [], method_marks(["dream"]))))  # fmt: skip
    assert drawn == (None, None, None)


@pytest.mark.parametrize("heights", [[0.5] * 6, [0.02, 0.01, 0.0], [1.0, 1.0, 0.99]])
def test_labels_are_spread_within_the_panel_in_order_and_not_moved_where_there_is_room(heights):
    placed = scores._apart(heights, 0.1)
    assert (np.diff(placed) <= -0.1 + 1e-9).all()
    assert (placed.min() >= -1e-9, placed.max() <= 1 + 1e-9) == (True, True)
    assert scores._apart([0.9, 0.5, 0.1], 0.1) == pytest.approx([0.9, 0.5, 0.1])


def test_groups_follow_the_order_of_the_tasks():
    rows = [*(row(task=task) for task in "bza"), *(row(name, task="a", encoder="big") for name in ("dream", "raw"))]
    groups = [(group[0], group[2]) for group, _ in scores.ordered_groups(rows, ["a", "b"])]
    assert groups == [("a", "big"), ("a", "tiny"), ("b", "tiny"), ("z", "tiny")]


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("value", [-0.6, 0.0, 0.4])
def test_scores_of_any_sign_are_drawn(value):
    rows = [row(value=value), row("dream", -0.3, None, "language"), row("raw", 0.1, 2)]
    marks = method_marks(["dream", "raw"])
    bars = scores.bars(scores.by_method(rows, [], marks))
    assert bars.axes[0].get_xlim()[0] <= min(value - 0.02, 0)
    assert all(map(png, (scores.leakage(rows, marks), bars)))


def luminance(code):
    parts = [int(code[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first, second):
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def titled(title):
    drawn = style.figure(title, 3.0, 2.0)
    axes = drawn.subplots()
    axes.plot([1, 2], [1, 2], color=INK, label=style.plain(title))
    style.decorate(axes, title)
    style.legend(axes)
    return drawn


@pytest.mark.parametrize("paper", [PAPER, "#1a1d21"])
@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_stands_out_on_white_and_on_dark_paper(colour, paper):
    assert contrast(colour, paper) >= 3


def test_methods_differ_in_colour_or_shape_and_keep_their_marks():
    names = [f"m{number}" for number in range(56)]
    marks = method_marks(names)
    assert len(set(marks.values())) == 56
    assert method_marks([*names, "m0", "more"])["m0"] == marks["m0"]
    assert all(marks[name].colour != marks[next_name].colour for name, next_name in itertools.pairwise(names))


def test_a_png_records_the_fingerprint_of_its_inputs(tmp_path):
    encoded = png(titled("a"), "inputs")
    for name, data in (("whole", encoded), ("damaged", encoded[:400]), ("silent", png(titled("a")))):
        (tmp_path / name).write_bytes(data)
    names = ("whole", "damaged", "silent", "missing")
    assert [png_made_of(tmp_path / name) for name in names] == ["inputs", None, None, None]


def test_svg_shows_hostile_names_as_text():
    hostile = '<script>alert(1)</script> $x^2$ & "q"'
    drawn = svg(titled(hostile), hostile)
    assert "<script" not in drawn
    assert f'aria-label="{escape(hostile)}"' in drawn


def test_svg_uses_page_colours_and_no_external_resources():
    drawn = svg(titled("a"), "a")
    assert "var(--ink)" in drawn
    assert INK not in drawn
    assert all(word not in drawn for word in ("http", "xmlns", "<style", "<!", "<?"))


def test_tsne_of_full_clouds_is_a_small_png_with_a_panel_for_each_embedding(monkeypatch):
    # Another test covers the projection; this one draws the largest figure.
    points = np.random.default_rng(0).normal(size=(2 * POINTS_PER_CLOUD, 2))
    there = lambda rows: _Projection(points[: len(rows)], ("", ""))  # noqa: E731
    monkeypatch.setattr("disent_core.report.clouds._tsne", there)
    encoded = png(tsne(clouds(1_000), "fmda"))
    assert (opened(encoded).width <= 792, len(encoded) <= MOST_BYTES) == (True, True)


def test_tsne_keeps_groups_apart():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(40, 6)) + 4, rng.normal(size=(40, 6)) - 4])
    left, right = np.split(_tsne(rows).positions, 2)
    within = max(np.ptp(left, axis=0).max(), np.ptp(right, axis=0).max())
    assert np.linalg.norm(left.mean(axis=0) - right.mean(axis=0)) > within / 2


def test_ids_of_two_figures_of_a_page_differ():
    first, second = (set(re.findall(r' id="([^"]+)"', svg(titled("a"), name))) for name in ("a", "b"))
    assert first
    assert not first & second
