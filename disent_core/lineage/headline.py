"""Choose the few figures of a method that the UI plots over training sets, and tabulate one per task.

The names of the figures do not contain the languages, so that a plot has a point for each training set.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from disent_core.evaluation.contract import hubness_of, task

Row = Mapping[str, Any]

RETRIEVAL = ("crosslingual_retrieval", "tatoeba_retrieval", "heldout_retrieval", "code_switched_retrieval")
"""Tasks that find translations; figures are shown for the first that a method was measured on."""
LANGUAGE = "language"
"""Embedding with which finding a translation is a leak."""


def headline(rows: Iterable[Row], pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return the available figures.

    `rows` are one method's rows of `metrics`; rows of single seeds are ignored. `pairs` are the language pairs the
    method was trained on.
    """
    chosen = _figures(rows, pairs)
    return {name: fmean(row["value"] for row in of_figure) for name, of_figure in chosen.items() if of_figure}


def result_line(rows: Iterable[Row], pairs: Sequence[tuple[str, str]]) -> str:
    """Return the first figure in words, for each language or direction, with intervals; arguments as in `headline`."""
    chosen = _figures(rows, pairs)
    first = [*chosen.pop("accuracy_at_1"), *chosen.pop("accuracy_at_1_reverse")]
    shown = first or next(filter(None, chosen.values()), [])
    values = ", ".join(f"{row['evaluated_on']} {row['value']:.3f}{_interval(row)}" for row in shown)
    return f"{shown[0]['task']}, {shown[0]['metric']}: {values}".replace("_", " ") if shown else ""


def _interval(row: Row) -> str:
    has_interval = None not in (row["ci_low"], row["ci_high"])
    return f" ({row['ci_low']:.3f} to {row['ci_high']:.3f})" if has_interval else ""


def _figures(rows: Iterable[Row], pairs: Sequence[tuple[str, str]]) -> dict[str, list[Row]]:
    """Return the rows of each figure, a mean over the languages, or directions, of a training set."""
    chosen = partial(_chosen, _means(rows))
    forth, back = (["-".join(pair) for pair in turned] for turned in (pairs, [pair[::-1] for pair in pairs]))
    languages = [language for pair in pairs for language in pair]
    return {
        "accuracy_at_1": chosen(RETRIEVAL, "accuracy_at_1", forth),
        "accuracy_at_1_reverse": chosen(RETRIEVAL, "accuracy_at_1", back),
        "leakage": chosen(RETRIEVAL, "accuracy_at_1", [*forth, *back], LANGUAGE),
        "language_in_meaning": chosen(["language_leakage"], "accuracy", [*forth, *back], "meaning"),
        "template_accuracy_at_1": chosen(["template_retrieval"], "accuracy_at_1", languages),
        "template_map": chosen(["multi_target_template_retrieval"], "map", languages),
        "sts_spearman": chosen(["sts"], "spearman", [*forth, *back]),
        "span_f1": chosen(["slot_labelling", "ner"], "span_f1", languages),
    }


def _means(rows: Iterable[Row]) -> list[Row]:
    """Keep means over the seeds, without those of corrected retrieval."""
    means = [row for row in rows if row["seed"] is None and row["value"] is not None]
    return [row for row in means if hubness_of(row["settings"]) == "none"]


def _chosen(
    rows: Sequence[Row], tasks: Sequence[str], metric: str, where: Sequence[str], embedding: str = ""
) -> list[Row]:
    """Return the rows of some languages or pairs, all from the first corpus of the first task that has any.

    They are of `embedding` or, without one, of that which the task ranks the method by.
    """
    for name in tasks:
        of_task = [row for row in rows if (row["task"], row["metric"]) == (name, metric)]
        measured = [row["embedding"] for row in of_task]
        wanted = embedding or next((ranked for ranked in task(name).ranked if ranked in measured), "")
        kept = [row for row in of_task if row["embedding"] == wanted and row["evaluated_on"] in where]
        if kept:
            return [row for row in kept if row["dataset"] == kept[0]["dataset"]]
    return []


def table(rows: Iterable[Row], ranked: Mapping[str, Sequence[str]]) -> list[dict[str, str | float]]:
    """Return one number for every task, corpus and language or direction of a method.

    It is the first metric, for the task's preferred embedding in `ranked`. UI tables are neither sorted nor scaled, so
    this one has three columns; the view `headline` has all.
    """

    def preference(row: Row) -> int:
        embeddings = ranked[row["task"]]
        return embeddings.index(row["embedding"]) if row["embedding"] in embeddings else len(embeddings)

    candidates: dict[tuple[str, str, str], list[Row]] = {}
    for row in _means(rows):
        candidates.setdefault((row["task"], row["dataset"], row["evaluated_on"]), []).append(row)
    return [
        {"measured": f"{name}, {where}", "value": round(min(of_name, key=preference)["value"], 4), "corpus": corpus}
        for (name, corpus, where), of_name in candidates.items()
    ]
