"""A stored picture shows the current result of its step, also after a killed run."""

import pytest

from disent_assets.asset_results import pictures
from disent_core.report.style import figure, png_made_of


@pytest.fixture
def drawn():
    return []


@pytest.fixture
def show(tmp_path, drawn):
    path = tmp_path / "head" / "curve.png"

    def show(made_of, *, empty=False):
        def draw():
            drawn.append(made_of)
            return None if empty else figure(made_of, 2.0, 1.0)

        return path, pictures(made_of, {path: draw})

    return show


def test_a_picture_is_drawn_once_and_shown_again(show, drawn):
    (path, first), (_, again) = show("a"), show("a")
    assert drawn == ["a"]
    assert first == again
    assert first["curve"].value.startswith("![curve](data:image/png;base64,")
    assert png_made_of(path) == "a"


def test_a_picture_of_an_earlier_result_is_drawn_again(show, drawn):
    path, old = show("a")
    _, new = show("b")
    assert drawn == ["a", "b"]
    assert old != new
    assert png_made_of(path) == "b"


def test_a_picture_that_a_killed_run_left_half_written_is_drawn_again(show, drawn):
    path, shown = show("a")
    path.write_bytes(path.read_bytes()[:100])
    assert show("a") == (path, shown)
    assert drawn == ["a", "a"]


def test_a_picture_that_can_no_longer_be_drawn_is_removed(show):
    path, _ = show("a")
    assert show("b", empty=True) == (path, {})
    assert not path.exists()
