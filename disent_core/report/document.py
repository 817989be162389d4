"""Write the report of a run as one HTML file: scores, pictures, tables of the papers, claims and case studies.

This module chooses and orders what the report shows; `page.html.j2` has the markup and escapes every text.
"""

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from disent_core.report import curves, scores, style
from disent_core.report.scores import Group, Row
from disent_core.report.tables import boards, case_studies, interval, paper_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = {"t_sne": "t-SNE", "pca": "PCA"}  # titles of the pictures of a head that the report shows, by file name

Drawings = list[tuple[Markup, str]]  # SVG elements with their captions


@dataclass(frozen=True)
class Picture:
    """A PNG of one head; `name` is its file name."""

    encoder: str
    method: str
    trained_on: str
    name: str
    png: bytes

    @property
    def alternative(self) -> str:
        return f"{PICTURES[self.name]} of {self.method} on {self.encoder}, trained on {self.trained_on}"

    @property
    def base64(self) -> str:
        """The file in base64, for a data URL."""
        return base64.b64encode(self.png).decode()


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Everything that a report shows.

    `facts` are what a reader should know first, as names and values. `tasks` are in display order, `methods` in the
    order that decides their colours, as in the pictures of the UI. `views` has the rows of the warehouse's views by
    name; the page notes a missing view.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    tasks: Sequence[str] = ()
    methods: Sequence[str] = ()
    views: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()

    def rows(self, view: str) -> Sequence[Row]:
        """Return the rows of a view; none if it is missing."""
        return self.views.get(view, ())


def document(report: RunReport) -> str:
    """Return the whole page, which loads nothing from elsewhere. Equal reports give equal pages."""
    script = (files("disent_core.report") / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    clouds: dict[str, dict[str, list[Picture]]] = {}  # by encoder and method
    for picture in report.pictures:
        if picture.name in PICTURES:
            clouds.setdefault(picture.encoder, {}).setdefault(picture.method, []).append(picture)
    return _template().render(
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
        title=report.title,
        facts=report.facts,
        boards=boards(report.rows("leaderboard"), report.rows("significance"), report.tasks),
        leakages=list(_leakages(report)),
        curves=list(_curve_pictures(report.rows("training_curve"))),
        clouds=clouds,
        papers=paper_tables(report.views, report.rows("coverage")),
        coverage=report.rows("coverage"),
        claims=report.rows("claim_verdicts"),
        cases=case_studies(report.rows("disagreements")),
    )


def _template() -> Any:
    page = Environment(
        loader=PackageLoader("disent_core.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_as_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters |= {"unit": scores.unit, "count": "{:,}".format, "interval": interval, "bar": _bar}
    page.filters |= {"counted": _counted, "tally": lambda words: _counted(Counter(words))}
    return page.get_template("page.html.j2")


def _counted(counts: Mapping[str, int]) -> str:
    """Return the counts that are not 0: `2 held, 3 undecided`."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _as_text(value: Any) -> Any:
    """Format a value: numbers with three decimals, None and numbers that are not finite as the empty text."""
    if isinstance(value, float):
        return f"{value:.3f}" if math.isfinite(value) else ""
    return "" if value is None else value


def _bar(row: Row) -> str:
    """Return where the dark part of the bar in a cell ends, and the light one, as custom properties of CSS."""
    ends = {"low": row["ci_low"], "high": row["ci_high"]}
    shares = {name: row["value"] if end is None else end for name, end in ends.items()}
    return "; ".join(f"--{name}: {min(max(share, 0), 1):.1%}" for name, share in shares.items())


def _leakages(report: RunReport) -> Iterator[tuple[Group, Drawings]]:
    """Yield, for each task, the largest group that has both embeddings, with its drawing."""
    board, drawn_tasks = report.rows("leaderboard"), set[str]()
    marks = style.method_marks((*report.methods, *sorted({row["method"] for row in board})))
    for group, rows in scores.ordered_groups(board, report.tasks):
        drawn = None if group.task in drawn_tasks or group.hubness else scores.leakage(rows, marks)
        if drawings := list(_drawing(drawn, f"Leakage, {' '.join(filter(None, group))}", "")):
            drawn_tasks.add(group.task)
            yield group, drawings


def _drawing(drawn: "Figure | None", name: str, caption: str) -> Iterator[tuple[Markup, str]]:
    if drawn is not None:
        yield Markup(style.svg(drawn, name)), caption


def _curve_pictures(rows: Sequence[Row]) -> Iterator[tuple[str, Drawings]]:
    for encoder in sorted({row["encoder"] for row in rows}):
        drawn = curves.learning_curves([row for row in rows if row["encoder"] == encoder])
        caption = f"Heads on {encoder}: method and training set."
        if drawings := list(_drawing(drawn, f"Learning curves, {encoder}", caption)):
            yield encoder, drawings
