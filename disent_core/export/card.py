"""Render the model card of an exported folder, with what a run has measured for the head."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from disent_core.embedding_names import without_slots
from disent_core.export.routes import Routes
from disent_core.export.saved_folder import RECORD, read_record
from disent_core.lineage.headline import LANGUAGE
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.spec import ENCODER_CONFIG
from disent_core.storage.results import fetch, list_results


@dataclass(frozen=True)
class Measured:
    """One measured number of an embedding on a task and data set, with its 95 % interval if it has one."""

    task: str
    dataset: str
    evaluated_on: str
    embedding: str
    metric: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    gold: str = ""  # the human score that it is compared with, if the task has several

    @property
    def score(self) -> str:
        """The metric with the human score."""
        return f"{self.metric} with {self.gold}" if self.gold else self.metric


@dataclass(frozen=True)
class Rounding:
    """The number format of a head that does not compute in float32, as its exported folder does.

    `difference` is the largest difference between the two, as a share of the largest value in float32.
    """

    precision: str
    difference: float


def card(
    head: SavedHead,
    seed: int | None,
    routes: Routes,
    measured: Sequence[Measured],
    *,
    onnx: bool = False,
    rounding: Rounding | None = None,
) -> str:
    """Return the card of a head, or of a tagger if there are no routes, as Markdown with a YAML header."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    description: Any = head.description
    title = f"{description['name']} on {description['encoder']}, {description['trained_on']}"
    library, pipeline = "sentence-transformers", "sentence-similarity"
    if not routes.steps:
        library, pipeline = "transformers", "token-classification"
    rows = [row for row in measured if not routes.steps or routes.by_language or row.embedding in routes.steps]
    header: dict[str, Any] = {
        "library_name": library,
        "pipeline_tag": pipeline,
        "language": list(dict.fromkeys(name.split("-")[0] for name in description["languages"])),
    }
    base = description[ENCODER_CONFIG].get("id") if head.method.reads_encoder else None
    if base:
        header["base_model"] = base
    if licence := description.get("licence"):
        header["license"] = licence.lower()
    header["tags"] = [library, "disent", head.method.name]
    if rows:
        header["model-index"] = [{"name": title, "results": [_result(row) for row in rows]}]
    # Markdown, not HTML: nothing is escaped.
    templates = Environment(
        loader=PackageLoader("disent_core.export", "."),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    templates.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    return templates.get_template("card.md.j2").render(
        head=head, title=title, header=header.items(), seed=seed, routes=routes, measured=rows, onnx=onnx, base=base,
        outside=outside_of_graph(head, routes), rounding=rounding, without_slots=without_slots("This head"),
    )  # fmt: skip


def outside_of_graph(head: SavedHead, routes: Routes) -> str:
    """Describe which steps from texts to the inputs of a head's ONNX graph are not part of the graph."""
    steps = []
    if head.method.reads_encoder:
        steps.append(f"the tokeniser of this folder, with at most {head.source.saved_config.max_length} tokens a text")
    if routes.reads_words:
        steps.append("word_rows of word_rows.py in this folder, which needs numpy")
    return " and ".join(steps)


def _result(row: Measured) -> dict[str, Any]:
    return {
        "task": {"type": row.task},
        "dataset": {"type": row.dataset, "name": f"{row.dataset} {row.evaluated_on}"},
        "metrics": [{"type": row.metric, "value": row.value, "name": f"{row.score} of {row.embedding or 'tags'}"}],
    }


_NAMES = ("task", "dataset", "evaluated_on", "embedding", "metric")
_VALUES = ("value", "ci_low", "ci_high", "n")
_MAIN = ("accuracy_at_1", "map", "spearman", "span_f1", "accuracy")  # metrics of the figures in `experiment.headline`


def measured_of(head: SavedHead, seed: int | None) -> Sequence[Measured]:
    """Return the numbers with an interval for these weights and this seed in the history of the head's run.

    Numbers of other weights under the same name are left out. A head outside a folder of results has none; an exported
    folder keeps those that it was written with.
    """
    if head.path.name == RECORD:
        return [Measured(**row) for row in read_record(head.path.parent)["measured"]]
    files = list_results(head.path.resolve().parents[3] / "tables" / "warehouse" / "history", "[!.]*.parquet")
    tables = [pq.read_table(fetch(file)) for file in files]  # noqa: TID251 - fetched files
    with_weights = [table for table in tables if "weights" in table.column_names]
    rows = [row for table in with_weights for row in table.filter(pc.field("weights") == head.content).to_pylist()]
    return measured_in(rows, seed)


def measured_in(rows: Iterable[Mapping[str, Any]], seed: int | None) -> Sequence[Measured]:
    """Return the latest of each number with an interval of a seed, from rows of `metrics` or its history."""
    latest = {
        (*(row[name] for name in _NAMES), row["settings"], row["seed"]): row
        for row in sorted(rows, key=lambda row: row.get("refresh", 0))
    }
    kept = [
        row
        for row in latest.values()
        if row["seed"] == seed and row["value"] is not None and row["ci_low"] is not None
        if _settings(row).get("hubness", "none") == "none"  # without a correction
    ]
    return [
        Measured(**{name: row[name] for name in (*_NAMES, *_VALUES)}, gold=_settings(row).get("gold", ""))
        for row in sorted(kept, key=_order)
    ]


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(row["settings"] or "{}")


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort main scores first, leakage of the language embedding last."""
    return row["embedding"] == LANGUAGE, row["metric"] not in _MAIN, *(row[name] or "" for name in _NAMES)
