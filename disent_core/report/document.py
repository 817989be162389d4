"""The report of a run as one HTML file: what was measured, pictures, the papers, claims and case studies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disent_core.report import curves, html, scores, style
from disent_core.report.cases import case_studies
from disent_core.report.html import Html
from disent_core.report.leaderboards import boards, heading
from disent_core.report.papers import claims, paper_tables
from disent_core.report.scores import Row
from disent_core.report.style import Mark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VIEWS = (
    "leaderboard",
    "seed_values",
    "significance",
    "training_curve",
    "coverage",
    "claim_verdicts",
    "disagreements",
)
"""Rows that the report is made of, beside those of every paper's table; each may be missing."""

PICTURES = {"t_sne": "t-SNE", "pca": "PCA"}
"""Pictures of a head that the report shows, by the names of their files."""

_COLUMNS = {
    "value": "the measure, as a mean over the seeds; in brackets its 95 % interval over queries of the same source",
    "n": "queries, texts or pairs that were measured; en-de reads: query English, candidates German",
    "seeds, std": "how many trainings the mean is of, and their standard deviation; no seeds where nothing is random",
    "embedding": "what of a method is measured: its meaning is scored; its language embedding should find nothing, "
    "and what it finds has leaked",
    "trained on": "the pair (or mixture) of the head; empty where nothing is trained",
    "bold, underlined": "the best, and those that a paired test can't tell from it (p of at least 0.05 after Holm)",
    "above": "how many of the methods that it was compared with it is significantly above",
}


@dataclass(frozen=True)
class Picture:
    """A PNG of one head, by the name of its file."""

    encoder: str
    method: str
    trained_on: str
    name: str
    png: bytes


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that a report shows.

    Attributes:
        title: of the page.
        facts: what a newcomer should know first, as pairs of name and value.
        tasks: in the order in which they are shown.
        methods: in the order that gives them their colours, as in the pictures of the UI.
        views: rows by the names in `VIEWS` and of the papers' tables; what is missing is left out, with a note.
        pictures: of the heads.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    tasks: Sequence[str] = ()
    methods: Sequence[str] = ()
    views: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()

    def rows(self, view: str) -> Sequence[Row]:
        """Rows of a view, none where it is missing."""
        return self.views.get(view, ())


def document(run: Run) -> str:
    """The whole page, without any request to elsewhere. Equal runs give equal pages."""
    board = run.rows("leaderboard")
    tables = paper_tables(run.views, run.rows("coverage"))
    covered = run.rows("coverage")
    parts = (
        ("run", "This run", _header(run)),
        ("leaderboard", "Leaderboard", boards(board, run.rows("significance"), run.tasks)),
        ("pictures", "Pictures", html.join(_score_pictures(run))),
        ("curves", "Learning curves", html.join(_curve_pictures(run.rows("training_curve")))),
        ("clouds", "Embedding spaces", html.join(_clouds(run.pictures))),
        ("papers", "The papers' tables", tables),
        ("coverage", "Coverage of the papers", html.plain_table(covered) if covered else Html("")),
        (
            "claims",
            "The papers' claims",
            claims(run.rows("claim_verdicts")) if run.rows("claim_verdicts") else Html(""),
        ),
        ("cases", "Case studies", case_studies(run.rows("disagreements"))),
    )
    return html.page(run.title, [(anchor, title, _part(anchor, content)) for anchor, title, content in parts])


_NOTES = {
    "leaderboard": "Best method first, by the first column. Open a line to see a task.",
    "pictures": "Colours and shapes are the same for a method in every picture.",
    "curves": "Total loss by epoch. Thick lines are means over seeds, thin lines seeds; dots are epochs kept.",
    "clouds": "Translations of dev utterances, a colour for each language. In the meaning embedding languages should "
    "lie on each other, in the language embedding apart. t-SNE keeps neighbours, PCA distances.",
    "papers": "A published figure beside what was measured here, and the difference; encoder and data are not always "
    "the paper's: see its columns. Rows that nothing was measured for say why.",
    "coverage": "How many cells of each printed table have a measured one; comparable: same data set and encoder.",
    "claims": "What the papers claim of one method against another, and whether it holds in the means over all cells.",
    "cases": "Queries on which methods disagree most, as in FMDA's tables 7 and 8: what each method ranks first.",
}


def _part(anchor: str, content: Html) -> Html:
    note = html.paragraph(html.text(_NOTES[anchor])) if anchor in _NOTES else Html("")
    nothing = html.paragraph(html.text("Nothing of this was measured in this run."))
    return html.join([note, content or nothing])


def _header(run: Run) -> Html:
    facts = _definitions(run.facts)
    return html.join([facts, html.element("h3", html.text("How to read the columns")), _definitions(_COLUMNS.items())])


def _definitions(pairs: Iterable[tuple[str, str]]) -> Html:
    lines = (
        html.join([html.element("dt", html.text(name)), html.element("dd", html.text(told))], "")
        for name, told in pairs
    )
    return html.element("dl", html.join(lines))


# --- pictures ---------------------------------------------------------------------------------------------


def _score_pictures(run: Run) -> Iterator[Html]:
    board = run.rows("leaderboard")
    marks = style.method_marks((*run.methods, *sorted({row["method"] for row in board})))
    seeds = scores.groups(run.rows("seed_values"))
    for place, (group, rows) in enumerate(scores.ordered_groups(board, run.tasks)):
        drawn = [each for each in _group_pictures(" ".join(group), rows, seeds.get(group, []), marks) if each]
        if drawn:
            yield html.details(heading(group), *drawn, is_open=place == 0)


def _group_pictures(name: str, rows: list[Row], seeds: Sequence[Row], marks: Mapping[str, Mark]) -> Iterator[Html]:
    panels, unit = scores.by_method(rows, seeds, marks), scores.unit(rows[0]["metric"])
    yield _figure(
        scores.leakage(rows, marks),
        f"Leakage, {name}",
        "Leakage: what the meaning embedding finds against what the language embedding finds. Upper left is best. "
        "Crosses are 95 % intervals.",
    )
    more = f" The first {scores.PANELS} of {len(panels)}." if len(panels) > scores.PANELS else ""
    yield _figure(scores.bars(panels, unit), f"Scores, {name}", f"By language or direction, with 95 % intervals.{more}")
    yield _figure(
        scores.spread(panels, f"seed minus mean: {unit.split(',')[0]}"),
        f"Seeds, {name}",
        "Seed spread: each dot is one training, as its distance from the mean of the method; the band is the 95 % "
        f"interval of that mean over other queries.{more}",
    )


def _figure(drawn: "Figure | None", name: str, caption: str) -> Html:
    return Html("") if drawn is None else html.figure(Html(style.svg(drawn, name)), html.text(caption))


def _curve_pictures(rows: Sequence[Row]) -> Iterator[Html]:
    for encoder in sorted({row["encoder"] for row in rows}):
        drawn = curves.learning_curves([row for row in rows if row["encoder"] == encoder])
        if drawn is not None:
            shown = _figure(
                drawn, f"Learning curves, {encoder}", f"Heads on {encoder}: the name, and what it is trained on."
            )
            yield html.details(html.text(encoder), shown, is_open=True)


def _clouds(pictures: Sequence[Picture]) -> Iterator[Html]:
    """A part for each encoder, with one for each method."""
    told = [picture for picture in pictures if picture.name in PICTURES]
    for encoder in dict.fromkeys(picture.encoder for picture in told):
        own = [picture for picture in told if picture.encoder == encoder]
        methods = dict.fromkeys(picture.method for picture in own)
        parts = [_method_clouds(method, [each for each in own if each.method == method]) for method in methods]
        yield html.details(html.text(encoder), *parts)


def _method_clouds(method: str, pictures: Sequence[Picture]) -> Html:
    shown = (
        html.image(each.png, f"{PICTURES[each.name]} of {method} on {each.encoder}, trained on {each.trained_on}")
        for each in pictures
    )
    return html.details(html.text(method), html.element("div", *shown, class_="clouds"))
