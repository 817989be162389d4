"""Case studies, as FMDA's tables 7 and 8: a query, its gold answer, and what each method finds first."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from disent_core.report import html
from disent_core.report.html import Html
from disent_core.report.scores import Row


def case_studies(rows: Iterable[Row]) -> Html:
    """A part for each task, data set and encoder, of queries on which methods disagree.

    Args:
        rows: of the view `disagreements`, in its order. Queries without a text are left out.
    """
    told = [row for row in rows if row["query_text"] is not None]
    parts = []
    for group, own in groupby(told, key=lambda row: (row["task"], row["dataset"], row["encoder"])):
        cases = [_case(list(each)) for _, each in groupby(own, key=lambda row: row["place"])]
        task, dataset, encoder = group
        more = html.element("small", html.text(f"{dataset} · {encoder} · {len(cases)} queries"))
        summary = html.join([html.text(task.replace("_", " ")), more], " ")
        parts.append(html.details(summary, *cases, is_open=not parts))
    return html.join(parts)


def _case(rows: Sequence[Row]) -> Html:
    """One query; methods with the same answer stand together, the right ones first."""
    first = rows[0]
    query = html.join(
        [
            html.element("small", html.text(f"{first['place']}. {first['evaluated_on']}, query {first['query_id']}")),
            html.element("strong", html.text(first["query_text"])),
        ],
        "<br>",
    )
    gold = html.join([html.element("small", html.text("gold")), html.text(first["gold_text"])], " ")
    answers: dict[tuple[bool, str], list[str]] = {}
    for row in rows:
        answers.setdefault((row["is_gold"], row["top_text"] or "(no text)"), []).append(row["method"])
    order = sorted(answers.items(), key=lambda each: (not each[0][0], -len(each[1]), each[0][1]))
    boxes = (_answer(is_right, wording, methods) for (is_right, wording), methods in order)
    box = html.element("div", *boxes, class_="answers")
    return html.element("div", html.element("p", query), html.element("p", gold), box, class_="case")


def _answer(is_right: bool, wording: str, methods: Sequence[str]) -> Html:
    names = html.element("small", html.text(", ".join(sorted(methods))))
    sign = html.element(
        "span", html.text("✓ right" if is_right else "✗ wrong"), class_="right" if is_right else "wrong"
    )
    return html.element("div", sign, html.text(f" {wording}"), names, class_=f"answer{' is-right' * is_right}")
