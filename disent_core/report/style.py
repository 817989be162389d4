"""Style all pictures alike, and write them in two formats: PNG for the UI, SVG for the report."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image as Picture

INK, GREY, RULE, PAPER = "#22262b", "#5f6670", "#dde0e4", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#c05a94", "#b07a00", "#3a8fc0", "#8468b8", "#9c5c3b")
"""Okabe and Ito's colour-blind safe palette, adjusted to a contrast of 3 : 1 on white and on black paper."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_THEME = {INK: "var(--ink)", GREY: "var(--muted)", RULE: "var(--rule)", PAPER: "var(--paper)"}
MOST_BYTES = 74_000  # largest PNG: the report embeds two per head
PREVIEW = 460
"""Width of small pictures: the UI does not scale them, and has this much for a value in a window of 1,600 pixels."""
_MADE_OF = "disent.inputs"


@dataclass(frozen=True)
class Mark:
    """Colour and marker of one method, the same in every picture."""

    colour: str
    marker: str


def method_marks(methods: Iterable[str]) -> dict[str, Mark]:
    """Return a mark for each method by position: the first 56 differ, and neighbours differ in colour."""
    return {
        name: Mark(COLOURS[index % len(COLOURS)], MARKERS[index // len(COLOURS) % len(MARKERS)])
        for index, name in enumerate(dict.fromkeys(methods))
    }


def plain(text: str) -> str:
    """Escape dollar signs, so that matplotlib shows the text as it is and not as a formula."""
    return text.replace("$", r"\$")


def figure(title: str, width: float, height: float, *, layout: str | None = "constrained") -> "Figure":
    """Return an empty figure, made without pyplot so that calls share no state; sizes are in inches."""
    from matplotlib.figure import Figure

    empty_figure = Figure(figsize=(width, height), dpi=110, layout=layout, facecolor=PAPER)  # pyright: ignore[reportArgumentType]
    if title:
        empty_figure.suptitle(plain(title), fontsize=10, color=INK, x=0.01, ha="left")
    return empty_figure


def row_of_panels(title: str, panels: int) -> "tuple[Figure, list[Axes]]":
    empty_figure = figure(title, max(3.6 * panels, 4.8), 3.6)
    return empty_figure, list(empty_figure.subplots(1, panels, squeeze=False)[0])


@dataclass(frozen=True)
class Margins:
    """Room around a panel for its title, ticks and labels, in inches."""

    left: float = 0.4
    right: float = 0.08
    top: float = 0.38
    bottom: float = 0.48


def grid_of_panels(
    panels: int, columns: int, width: float, height: float, margins: Margins
) -> "tuple[Figure, list[Axes]]":
    """Return a figure without title, with panels of `width` by `height` inches, margins included, in rows of `columns`.

    The margins are given because Matplotlib would draw everything three times to find them.
    """
    columns = min(columns, panels)
    rows = -(-panels // columns)
    across, down = width * columns, height * rows
    beside, above = margins.left + margins.right, margins.top + margins.bottom
    empty_figure = figure("", across, down, layout=None)
    empty_figure.subplots_adjust(
        left=margins.left / across, right=1 - margins.right / across, wspace=beside / (width - beside),
        bottom=margins.bottom / down, top=1 - margins.top / down, hspace=above / (height - above),
    )  # fmt: skip
    indices = range(1, panels + 1)
    return empty_figure, [empty_figure.add_subplot(rows, columns, index) for index in indices]


def text_width(texts: Iterable[str], size: float) -> float:
    """Estimate the width of the longest text in inches: a letter is 0.6 times as wide as the font is high."""
    return max(map(len, texts), default=0) * size * 0.6 / 72


def decorate(axes: "Axes", title: str, *, grid: str = "y", size: float = 9.5) -> None:
    """Set title, ticks, grid lines along one axis, and two spines."""
    axes.set_facecolor("none")
    axes.set_title(plain(title), fontsize=size, color=INK, loc="left", y=1)  # without y, everything is measured
    axes.tick_params(labelsize=8.5, colors=GREY, length=2.5)
    axes.grid(visible=True, axis=grid, color=RULE, linewidth=0.7)  # pyright: ignore[reportArgumentType]
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(RULE)


def label_axes(axes: "Axes", x: str = "", y: str = "") -> None:
    axes.set_xlabel(plain(x), color=GREY, fontsize=8.5)
    axes.set_ylabel(plain(y), color=GREY, fontsize=8.5)


def legend(axes: "Axes", columns: int = 1) -> None:
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, ncols=columns, handletextpad=0.4)


# --- formats ----------------------------------------------------------------------------------------------


def png(drawn: "Figure", made_of: str = "") -> bytes:
    """Encode the figure as a PNG of few colours, at a lower resolution if it is too large.

    `made_of`, the fingerprint of what it shows, is stored in the file, where `png_made_of` reads it.
    """
    for dots_per_inch in (110, 90, 70):
        encoded = _png(drawn, made_of, dots_per_inch)
        if len(encoded) <= MOST_BYTES:
            break
    return encoded


def preview(encoded: bytes) -> bytes:
    """Scale a picture from `png` down to the width that the UI has for it; a smaller one is unchanged."""
    from PIL import Image

    with Image.open(BytesIO(encoded)) as image:
        if image.width <= PREVIEW:
            return encoded
        size = (PREVIEW, round(image.height * PREVIEW / image.width))
        return _in_palette(image.convert("RGB").resize(size, Image.Resampling.LANCZOS))


def _png(drawn: "Figure", made_of: str, dots_per_inch: int) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    drawn.set_dpi(dots_per_inch)
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    return _in_palette(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"), made_of)


def _in_palette(image: "Picture", made_of: str = "") -> bytes:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    if made_of:
        notes.add_text(_MADE_OF, made_of)
    # A fixed palette, 14 tints of each colour and 16 of ink, from full to paper: an adaptive one would drop the colour
    # of a method that has a single dot.
    colours = [[int(code[index : index + 2], 16) for index in (1, 3, 5)] for code in (INK, *COLOURS)]
    tints = [np.linspace(colour, (255, 255, 255), 14 if index else 16).round() for index, colour in enumerate(colours)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate(tints).astype(int).ravel().tolist())
    buffer = BytesIO()
    quantized = image.quantize(palette=palette, dither=Image.Dither.NONE)
    quantized.save(buffer, "PNG", optimize=True, pnginfo=notes)
    return buffer.getvalue()


def png_made_of(path: Path) -> str | None:
    """Return the fingerprint of what a picture shows; None if it is missing, damaged or has no fingerprint."""
    from PIL import Image

    if not path.is_file():
        return None
    try:
        with Image.open(path) as image:
            image.load()
            return image.info.get(_MADE_OF)
    except (OSError, SyntaxError):  # PIL raises these for a truncated file
        return None


def svg(drawn: "Figure", name: str) -> str:
    """Encode the figure as an SVG element for an HTML page, with the font and the colour variables of the page.

    The name is unique on the page; its hash is part of the ids of the elements.
    """
    import matplotlib as mpl

    text = StringIO()
    drawn.set_facecolor("none")
    no_notes = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        drawn.savefig(text, format="svg", metadata=no_notes)
    document = text.getvalue()
    for pattern, replacement in _CUTS:
        document = pattern.sub(replacement, document)
    for colour, variable in _THEME.items():
        document = document.replace(colour, variable)
    return document.replace("<svg ", f'<svg role="img" aria-label="{escape(name)}" ', 1).strip()


_CUTS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"^.*?(?=<svg\b)", re.DOTALL), ""),
    (re.compile(r"<style.*?</style>", re.DOTALL), ""),
    (re.compile(r' xmlns(:xlink)?="[^"]*"| version="1.1"'), ""),
    (re.compile(r"\bxlink:href="), "href="),
    (re.compile(r'<g id="[^"]*"'), "<g"),  # numbered anew in every figure
    (re.compile(r" font-family: [^;\"]*;?"), ""),
    (re.compile(r' transform="rotate\(-0 [^"]*"'), ""),
    (re.compile(r"(?<=\d\.\d\d)\d+(?=[ \"\n)])"), ""),  # a hundredth of a point is finer than any screen
    (re.compile(r"\n\s*"), " "),
)
