"""Render the shapes of a log as one self-contained HTML file; the template escapes every text."""

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from disent_assets.counted import counted
from disent_core.shapes import Shape


def render(shapes: Sequence[Shape], title: str) -> str:
    """Return the page of shapes, largest first, with new ones marked."""
    page = Environment(loader=PackageLoader("disent_assets.web", "."), autoescape=True, undefined=StrictUndefined)
    page.globals["counted"] = counted
    texts = sum(shape.count for shape in shapes)
    style = Markup((files("disent_assets.web") / "wordings.css").read_text(encoding="utf-8"))
    return page.get_template("shapes.html.j2").render(shapes=shapes, title=title, texts=texts, style=style)
