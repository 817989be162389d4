"""Case studies, as FMDA's tables 7 and 8: a query, its gold answer, and what each method finds first."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from disent_core.report.scores import Row


def case_studies(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """For each task, data set and encoder the queries on which methods disagree.

    Args:
        rows: of the view `disagreements`, in its order. Queries without a text are left out.
    """
    known = [row for row in rows if row["query_text"] is not None]
    return [
        {
            **dict(zip(("task", "dataset", "encoder"), group, strict=True)),
            "cases": [_case(list(each)) for _, each in groupby(found, key=lambda row: row["place"])],
        }
        for group, found in groupby(known, key=lambda row: (row["task"], row["dataset"], row["encoder"]))
    ]


def _case(rows: Sequence[Row]) -> dict[str, Any]:
    """One query; methods with the same answer stand together, the right ones first."""
    answers: dict[tuple[bool, str], list[str]] = {}
    for row in rows:
        answers.setdefault((row["is_gold"], row["top_text"] or "(no text)"), []).append(row["method"])
    order = sorted(answers.items(), key=lambda each: (not each[0][0], -len(each[1]), each[0][1]))
    shown = [{"is_right": is_right, "text": text, "methods": sorted(names)} for (is_right, text), names in order]
    return {**rows[0], "answers": shown}
