"""Tests the style of pictures: colours with contrast, small files that name what they show, safe SVG."""

import itertools
from html.parser import HTMLParser

import pytest

from disent_core.report import style
from disent_core.report.style import COLOURS, INK, PAPER, method_marks, png, png_made_of, svg

HOSTILE = '<script>alert(1)</script> $x^2$ & "q"'


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


def test_a_picture_says_what_it_was_made_of_unless_it_is_missing_damaged_or_silent(tmp_path):
    encoded = png(titled("a"), "inputs")
    for name, data in (("whole", encoded), ("damaged", encoded[:400]), ("silent", png(titled("a")))):
        (tmp_path / name).write_bytes(data)
    names = ("whole", "damaged", "silent", "missing")
    assert [png_made_of(tmp_path / name) for name in names] == ["inputs", None, None, None]


def test_png_and_svg_are_the_same_for_the_same_figure():
    assert png(titled("a")) == png(titled("a"))
    assert svg(titled("a"), "a") == svg(titled("a"), "a")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.words = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


def test_svg_shows_hostile_names_as_text():
    parsed = Tags()
    parsed.feed(svg(titled(HOSTILE), HOSTILE))
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert HOSTILE in "".join(parsed.words)
    assert parsed.tags[0][1]["aria-label"] == HOSTILE


def test_svg_takes_its_colours_from_the_page_and_asks_nothing_of_others():
    drawn = svg(titled("a"), "a")
    assert "var(--ink)" in drawn
    assert INK not in drawn
    assert all(word not in drawn for word in ("http", "xmlns", "<style", "<!", "<?"))


def test_ids_of_two_figures_of_a_page_differ():
    ids = []
    for name in ("a", "b"):
        parsed = Tags()
        parsed.feed(svg(titled("a"), name))
        ids.append({attributes["id"] for _, attributes in parsed.tags if "id" in attributes})
    assert ids[0]
    assert not ids[0] & ids[1]
