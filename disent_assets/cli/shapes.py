"""The command that groups the texts of a log by shape."""

from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from disent.model import SMALL
from disent_assets.cli.group import after_the_bar, main, short
from disent_assets.cli.queries import Style, format_option, print_table
from disent_assets.cli.search import HEAD_HELP, SHA256, input_file, open_model
from disent_assets.counted import counted

if TYPE_CHECKING:
    from disent_core.shapes import Shape, Wording

_VALUES, _WORDINGS = 5, 3  # shown values of a slot, and shown wordings of a shape in a table
_REMEDY = (
    "If requests that belong together are in different shapes, join more with --threshold 0.5, or train a "
    "model on yours and their translations: disent train, then --head FOLDER"
)


@main.command()
@click.argument("texts", metavar="LOG")
@click.option("--since", metavar="OLD", help="An earlier log; shapes and wordings not in it are new.")
@click.option("--head", default=SMALL, show_default=True, metavar="HEAD", help=HEAD_HELP)
@SHA256
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True),
    help="Minimum mean cosine for wordings to be one shape; 0.7 by default.",
)
@click.option(
    "--most", type=click.IntRange(1), default=30, show_default=True, help="Maximum number of shapes in a table."
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Also write all shapes as an HTML file.")
@click.option("--column", default="text", show_default=True, help="Column or key with the texts.")
@format_option
def shapes(
    texts: str,
    since: str | None,
    head: str,
    threshold: float | None,
    most: int,
    page: Path | None,
    column: str,
    style: Style,
) -> None:
    """Group the texts of a log by shape, across languages: patterns with slots, their values, and what is new.

    LOG is a .txt or .log file (one text per line), a .jsonl, .csv or .parquet file, or - for lines from standard input;
    lines without text are skipped. Case and the punctuation around words are ignored. Slots are proposed from the texts
    themselves. Each row is a wording of a shape; a table shows three per shape, other formats all. json and csv also
    have every value of each slot, the line numbers, and `slots_are`, which marks the slots as proposed.
    """
    import pyarrow as pa

    from disent import shapes as shapes_of
    from disent_core.search.texts import TABLES
    from disent_core.shapes import compared

    if page is not None:
        import_module("jinja2")  # before the work; if it is missing, the error says how to install it
    model = open_model(head)
    listed: list[str] = []
    lines: dict[str, list[int]] = {}
    with input_file(texts, column, None, skip_empty=True) as log:
        log.count()
        for line, text in log.numbered():
            listed.append(text.text)
            lines.setdefault(compared(text.text), []).append(line)
    earlier = None
    if since is not None:
        column = column if Path(since).suffix.lower() in TABLES else "text"
        with input_file(since, column, None, skip_empty=True) as old:
            earlier = [text.text for text in old]
    with after_the_bar():
        listed_shapes = shapes_of(listed, model, earlier=earlier, threshold=threshold, show_progress=True)
    shown = listed_shapes[:most] if style == "table" else listed_shapes
    wordings = _WORDINGS if style == "table" else None
    rows = [
        _row(number, shape, wording) | (_for_programs(wording, lines) if style in ("json", "csv") else _shown(wording))
        for number, shape in enumerate(shown, 1)
        for wording in shape.wordings[:wordings]
    ]
    table = pa.Table.from_pylist(rows)
    print_table(table if earlier is not None else table.drop_columns("new"), style)
    if style == "table":
        new = "" if earlier is None else f", {sum(bool(shape.is_new) for shape in listed_shapes):,} of them new"
        click.echo(
            f"\n{counted(len(listed), 'text')}, {counted(len(listed_shapes), 'shape')}{new}; the slots are proposals"
        )
        if head == SMALL and threshold is None:
            click.echo(_REMEDY)
        cut = {
            "smaller shape": len(listed_shapes) - len(shown),
            "wording": sum(max(0, len(shape.wordings) - _WORDINGS) for shape in shown),
        }
        if hidden := " and ".join(counted(count, noun) for noun, count in cut.items() if count):
            click.echo(f"not shown: {hidden}; --format csv has all")
    if page is not None:
        page.write_text(render(listed_shapes, Path(texts).name), encoding="utf-8")
        click.echo(short(page.resolve()), err=True)


def _row(number: int, shape: "Shape", wording: "Wording") -> dict[str, object]:
    return {
        "shape": number,
        "count": wording.count,
        "new": "new" if shape.is_new else "new wording" if wording.is_new else "",
        "pattern": wording.pattern,
    }


def _shown(wording: "Wording") -> dict[str, object]:
    values = "; ".join(f"{{{slot}}}: {_values(values)}" for slot, values in enumerate(wording.slots, 1))
    return {"values": values, "example": wording.examples[0]}


def _for_programs(wording: "Wording", lines: dict[str, list[int]]) -> dict[str, object]:
    from disent_core.shapes import compared

    return {
        "slots_are": "proposed",  # derived from the texts, not annotated
        "slots": [[{"value": value, "count": n} for value, n in values.items()] for values in wording.slots],
        "examples": list(wording.examples),
        "lines": sorted(line for text in wording.texts for line in lines[compared(text)]),
    }


def _values(values: dict[str, int]) -> str:
    listed = list(values.items())
    shown = ", ".join(value if count == 1 else f"{value} ({count})" for value, count in listed[:_VALUES])
    return shown + (f", {len(listed) - _VALUES} more" if len(listed) > _VALUES else "")


def render(shapes: "Sequence[Shape]", title: str) -> str:
    """Return the shapes as one self-contained HTML file, new ones marked; the template escapes every text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    page = Environment(loader=PackageLoader("disent_assets.web", "."), autoescape=True, undefined=StrictUndefined)
    page.globals["counted"] = counted
    texts = sum(shape.count for shape in shapes)
    style = Markup((files("disent_assets.web") / "wordings.css").read_text(encoding="utf-8"))
    return page.get_template("shapes.html.j2").render(shapes=shapes, title=title, texts=texts, style=style)
