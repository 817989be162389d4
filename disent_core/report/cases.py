"""Show case studies, like FMDA's tables 7 and 8: a query, its gold answer, and the first result of each method."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from disent_core.report.scores import Row


def case_studies(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the queries on which methods disagree, for each task, data set and encoder.

    Args:
        rows: of the view `disagreements`, in its order. Queries without a text are left out.
    """
    rows_with_text = [row for row in rows if row["query_text"] is not None]
    return [
        {
            **dict(zip(("task", "dataset", "encoder"), group, strict=True)),
            "cases": [_case(list(case_rows)) for _, case_rows in groupby(group_rows, key=lambda row: row["place"])],
        }
        for group, group_rows in groupby(rows_with_text, key=lambda row: (row["task"], row["dataset"], row["encoder"]))
    ]


def _case(rows: Sequence[Row]) -> dict[str, Any]:
    """One query: methods by their answer, right answers first."""
    answers: dict[tuple[bool, str], list[str]] = {}
    for row in rows:
        answers.setdefault((row["is_gold"], row["top_text"] or "(no text)"), []).append(row["method"])
    order = sorted(answers.items(), key=lambda answer: (not answer[0][0], -len(answer[1]), answer[0][1]))
    shown = [{"is_right": is_right, "text": text, "methods": sorted(names)} for (is_right, text), names in order]
    return {**rows[0], "answers": shown}
