"""Tests that scores are drawn once per method, with their intervals and seeds."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from disent_core.evaluation.metrics.statistics import STATISTICS
from disent_core.report import scores
from disent_core.report.style import MOST_BYTES, method_marks, png

METHODS = [f"method_{number}" for number in range(26)]
BASE = {"task": "crosslingual_retrieval", "dataset": "massive", "encoder": "tiny", "metric": "accuracy_at_1",
        "settings": "{}", "trained_on": "en-de", "n": 100, "seed": None}  # fmt: skip


def row(method="dream", value=0.5, rank=1, embedding="meaning", **more):
    reads_as = "leakage, lower is better" if embedding == "language" else "higher is better"
    columns = {"evaluated_on": "en-de", "method": method, "value": value, "rank": rank, "embedding": embedding}
    return {**BASE, **columns, "ci_low": value - 0.02, "ci_high": value + 0.02, "reads_as": reads_as, **more}


def board(directions=("de-en", "en-de", "en-ja", "ja-en", "en-es", "es-en")):
    return [
        scored
        for direction in directions
        for place, method in enumerate(METHODS)
        for scored in (
            row(method, 0.9 / (1 + place), place + 1, evaluated_on=direction),
            row(method, 0.01 * place, None, "language", evaluated_on=direction),
        )
    ]


def seeds(rows):
    return [{**scored, "seed": seed, "value": scored["value"] + 0.001 * seed} for scored in rows for seed in range(3)]


def size(figure):
    encoded = png(figure)
    Image.open(BytesIO(encoded)).load()
    return len(encoded)


def test_pictures_of_26_methods_and_of_a_method_with_every_task_are_small():
    rows, marks = board(), method_marks(METHODS)
    panels = scores.by_method(rows, seeds(rows), marks)
    drawn = [scores.leaderboard(rows, METHODS), scores.spread(panels, "x", most=6), scores.leakage(rows, marks, most=4)]
    assert max(map(size, drawn)) <= MOST_BYTES
    rows = [
        row(task=f"task_{task}", evaluated_on=direction, embedding=embedding)
        for task in range(12)
        for direction in ("de-en", "en-de", "en-ja", "ja-en", "en-es", "es-en")
        for embedding in ("meaning", "language")
    ]
    panels = scores.by_embedding(rows, seeds(rows))
    assert (len(panels), size(scores.bars(panels)) <= MOST_BYTES) == (12, True)


def test_every_metric_of_a_statistic_has_a_unit():
    assert [name for name in STATISTICS if name not in scores.UNITS] == []


def test_a_method_is_ranked_by_its_best_training():
    rows = [row(value=0.4, rank=3), row(value=0.6, rank=1, trained_on="en-de+en-es"), row("raw", 0.5, 2)]
    assert [(ranked["method"], ranked["value"]) for ranked in scores.ranked(rows)] == [("dream", 0.6), ("raw", 0.5)]


def test_items_of_a_panel_go_from_best_to_worst_and_bring_their_own_seeds():
    rows = [row("raw", 0.3, 2), row("dream", 0.5, 1)]
    other_training_set = row("dream", 0.9, 1, trained_on="en-ja")
    panels = scores.by_method(rows, seeds([rows[1], other_training_set]), method_marks(["raw", "dream"]))
    items = [(item.label, item.seeds) for item in panels["en-de"]]
    assert items == [("dream", pytest.approx((0.5, 0.501, 0.502))), ("raw", ())]


def test_no_leakage_is_drawn_without_a_language_embedding_or_of_one_that_should_know_the_language():
    useful = row(embedding="language", reads_as="higher is better")
    for rows in ([row(), row("raw", embedding="sentence")], [row(reads_as="leakage, lower is better"), useful]):
        assert scores.leakage(rows, method_marks(["dream", "raw"])) is None


def test_leakage_pairs_the_embeddings_of_one_training():
    rows = [row(value=value, trained_on=name) for name, value in (("a", 0.5), ("b", 0.8), ("c", 0.9))]
    rows += [row("dream", value, None, "language", trained_on=name) for name, value in (("a", 0.1), ("b", 0.2))]
    [(language, meaning)] = scores._both(rows)["en-de"]
    assert (language["value"], meaning["value"]) == (0.2, 0.8)


def test_nothing_is_drawn_of_nothing_and_no_spread_without_seeds():
    drawn = (scores.bars({}), scores.leaderboard([], []),
             scores.spread(scores.by_method([row()], [], method_marks(["dream"]))))  # fmt: skip
    assert drawn == (None, None, None)


@pytest.mark.parametrize("heights", [[0.9, 0.5, 0.1], [0.5] * 6, [0.02, 0.01, 0.0], [1.0, 1.0, 0.99]])
def test_labels_keep_their_order_and_a_gap_and_stay_in_the_panel(heights):
    placed = scores._apart(heights, 0.1)
    assert (np.diff(placed) <= -0.1 + 1e-9).all()
    assert (placed.min() >= -1e-9, placed.max() <= 1 + 1e-9) == (True, True)


def test_labels_that_have_room_stay_where_they_are():
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
