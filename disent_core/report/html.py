"""The elements of an HTML page that needs nothing but itself. Text is escaped here and nowhere else."""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NewType

Html = NewType("Html", str)
"""Markup that is ready for a page; every other string is text."""


def text(value: object) -> Html:
    """A value as text: escaped, numbers with three decimals, nothing for None."""
    if isinstance(value, float):
        return Html(f"{value:.3f}" if math.isfinite(value) else "")
    return Html("" if value is None else escape(str(value)))


def join(parts: Iterable[Html], between: str = "\n") -> Html:
    """Elements one after the other."""
    return Html(between.join(part for part in parts if part))


def element(tag: str, *inner: Html, **attributes: str) -> Html:
    """`<tag class="...">inner</tag>`; `class_` stands for `class`, and an attribute "" has no value."""
    told = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' if value else f" {name}"
        for name, value in attributes.items()
    )
    return Html(f"<{tag}{told}>{''.join(inner)}</{tag}>")


def paragraph(*inner: Html, class_: str = "note") -> Html:
    """A line of explanation."""
    return element("p", *inner, class_=class_)


def details(summary: Html, *inner: Html, is_open: bool = False) -> Html:
    """A part that opens with a click, without JavaScript."""
    return element("details", element("summary", summary), *inner, **({"open": ""} if is_open else {}))


def table(
    head: Sequence[Html], rows: Iterable[Sequence[Html]], *, numbers: Iterable[int] = (), above: Html = Html("")
) -> Html:
    """A table that scrolls by itself where the screen is narrow.

    Args:
        head: names of the columns.
        rows: cells.
        numbers: places of the columns that are set to the right.
        above: a row above the head, for columns that belong together.
    """
    right = frozenset(numbers)

    def cell(tag: str, place: int, inner: Html) -> Html:
        return element(tag, inner, **({"class_": "number"} if place in right else {}))

    header = element("tr", *(cell("th", place, name) for place, name in enumerate(head)))
    body = (element("tr", *(cell("td", place, inner) for place, inner in enumerate(row))) for row in rows)
    inner = element("table", element("thead", above, header), element("tbody", join(body)))
    return element("div", inner, class_="scroll", tabindex="0")


def plain_table(rows: Sequence[Mapping[str, Any]]) -> Html:
    """Rows of a query as they are: a column for each of theirs."""
    names = list(rows[0]) if rows else []
    numbers = [place for place, name in enumerate(names) if any(isinstance(row[name], int | float) for row in rows)]
    head = [text(name.replace("_", " ")) for name in names]
    return table(head, ([text(row[name]) for name in names] for row in rows), numbers=numbers)


def figure(picture: Html, caption: Html) -> Html:
    """A picture with what it shows."""
    return element("figure", element("div", picture, class_="scroll", tabindex="0"), element("figcaption", caption))


def image(png: bytes, alternative: str) -> Html:
    """A PNG inside the page."""
    source = base64.b64encode(png).decode()
    return Html(f'<img loading="lazy" alt="{escape(alternative)}" src="data:image/png;base64,{source}">')


_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""No script runs and nothing is asked of elsewhere, even if a text were to become markup."""


def page(title: str, parts: Sequence[tuple[str, str, Html]]) -> str:
    """A whole document: its title, where each part is found, and the parts.

    Args:
        title: of the page.
        parts: anchor (letters only), heading and content of each.
    """
    links = (element("a", text(heading), href=f"#{anchor}") for anchor, heading, _ in parts)
    sections = (
        element("section", element("h2", text(heading)), content, id=anchor) for anchor, heading, content in parts
    )
    folder = files("disent_core.report")
    styles = folder.joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>\n{styles}</style>\n</head>\n<body>\n"
        f"<h1>{text(title)}</h1>\n{element('nav', *links)}\n<main>\n{join(sections)}\n</main>\n</body>\n</html>\n"
    )
