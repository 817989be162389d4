"""A stored picture shows the current result of its step, also after a killed run."""

import re

import pytest
from PIL import Image

from disent_assets.lineage.metadata import literal, markdown_table, pictures
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
            return None if empty else figure(made_of, 8.0, 4.0)

        return path, pictures(tmp_path, made_of, {path: draw})

    return show


def test_a_picture_is_drawn_once_and_shown_again(show, drawn):
    (path, first), (_, again) = show("a"), show("a")
    assert drawn == ["a"]
    assert first == again
    assert png_made_of(path) == "a"


def test_a_picture_of_an_earlier_result_is_drawn_again(show, drawn):
    path, old = show("a")
    _, new = show("b")
    assert drawn == ["a", "b"]
    assert old != new
    assert png_made_of(path) == "b"


def test_a_half_written_picture_is_redrawn(show, drawn):
    path, shown = show("a")
    path.write_bytes(path.read_bytes()[:100])
    assert show("a") == (path, shown)
    assert drawn == ["a", "a"]


def test_a_picture_is_shown_in_a_width_that_fits_and_opens_in_full(show):
    path, metadata = show("a")
    inline, full = re.fullmatch(r"\[!\[curve\]\((.+)\)\]\((.+)\)", metadata["curve"].value).groups()
    assert full.startswith("/pictures/head/curve.png?v=")
    assert inline.startswith("/pictures/head/curve.small.png?v=")
    widths = [Image.open(path.parent / name).width for name in ("curve.png", "curve.small.png")]
    assert widths == [880, 460]


def test_a_small_picture_that_is_missing_is_made_from_the_full_one(show, drawn):
    path, _ = show("a")
    small = path.with_name("curve.small.png")
    before = small.read_bytes()
    small.unlink()
    show("a")
    assert (small.read_bytes(), drawn) == (before, ["a"])


def test_no_name_becomes_a_link_or_html_in_the_ui():
    assert literal("[a](b) <img> x_y|z") == r"\[a\]\(b\) \<img\> x\_y\|z"


def test_a_table_is_cut_to_what_the_ui_shows_without_a_click():
    rows = [[f"direction {number}", "a method", "0.123"] for number in range(100)]
    short, long = (markdown_table("Best", ("on", "method", "value"), rows[:count]).value for count in (3, 100))
    assert "direction 2" in short
    assert "(the first" not in short
    assert 900 < len(long) < 1000
    shown = int(re.search(r"\(the first (\d+) of 100\)", long)[1])
    assert long.count("direction") == shown


def test_a_picture_that_can_no_longer_be_drawn_is_removed(show):
    path, _ = show("a")
    assert show("b", empty=True) == (path, {})
    assert list(path.parent.glob("*.png")) == []
