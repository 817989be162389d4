"""Render the model card of an exported folder."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from disent_core.export.routes import Routes
from disent_core.lineage.saved_heads import SavedHead
from disent_core.methods.spec import ENCODER_CONFIG


@dataclass(frozen=True)
class Measured:
    """One measured number: of an embedding, on a task and data set, with its 95 % interval if it has one."""

    task: str
    dataset: str
    evaluated_on: str
    embedding: str
    metric: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    gold: str = ""
    """The human score that it is compared with, of a task that has several."""

    @property
    def score(self) -> str:
        """The metric with the human score."""
        return f"{self.metric} with {self.gold}" if self.gold else self.metric


_ABOUT = {
    "meaning": "what the text says, whatever its language",
    "language": "the language of the text",
    "template": "what the text says without its slot values",
    "residual": "the slot values of the text",
    "sentence": "the text",
}


def card(head: SavedHead, seed: int | None, routes: Routes, measured: Sequence[Measured], *, onnx: bool = False) -> str:
    """Return the card: Markdown with a YAML header, whose values are JSON, which is YAML too."""
    rows = [row for row in measured if routes.by_language or row.embedding in routes.steps]
    header = _header(head, rows, "sentence-transformers", "sentence-similarity")
    first = routes.default or next(iter(routes.steps))
    return _render(head, seed, rows, header, onnx=onnx, routes=routes, first=first, about=_ABOUT)


def tagger_card(head: SavedHead, seed: int | None, measured: Sequence[Measured], *, onnx: bool) -> str:
    """Return the card of a tagger."""
    header = _header(head, measured, "transformers", "token-classification")
    return _render(head, seed, measured, header, onnx=onnx, routes=None)


def _render(
    head: SavedHead, seed: int | None, rows: Sequence[Measured], header: Iterator[tuple[str, Any]], **values: Any
) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Markdown, not HTML: nothing is escaped.
    templates = Environment(
        loader=PackageLoader("disent_core.export", "."),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    templates.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    description: Any = head.description
    return templates.get_template("card.md.j2").render(
        header=header,
        title=_title(head),
        method=description["name"],
        encoder=description["encoder"],
        trained_on=description["trained_on"],
        languages=", ".join(description["languages"]),
        max_length=head.source.saved_config.max_length,  # pyright: ignore[reportAttributeAccessIssue]
        seed=seed,
        fingerprint=head.content,
        measured=[_row(row) for row in rows],
        **values,
    )


def _title(head: SavedHead) -> str:
    description: Any = head.description
    return f"{description['name']} on {description['encoder']}, {description['trained_on']}"


def _header(head: SavedHead, rows: Sequence[Measured], library: str, pipeline: str) -> Iterator[tuple[str, Any]]:
    yield "library_name", library
    yield "pipeline_tag", pipeline
    yield "language", list(dict.fromkeys(name.split("-")[0] for name in head.description["languages"]))
    if base := head.description[ENCODER_CONFIG].get("id"):
        yield "base_model", base
    yield "tags", [library, "disent", head.method.name]
    if rows:
        yield "model-index", [{"name": _title(head), "results": [_result(row) for row in rows]}]


def _result(row: Measured) -> dict[str, Any]:
    where = f"{row.dataset} {row.evaluated_on}"
    metric = {"type": row.metric, "value": row.value, "name": f"{row.score} of {row.embedding or 'tags'}"}
    return {
        "task": {"type": row.task},
        "dataset": {"type": row.dataset, "name": where},
        "metrics": [metric],
    }


def _row(row: Measured) -> str:
    interval = "" if row.ci_low is None else f" [{row.ci_low:.3f}, {row.ci_high:.3f}]"
    where = f"{row.task} | {row.dataset} | {row.evaluated_on} | {row.embedding} | {row.score}"
    return f"| {where} | {row.value:.3f}{interval} | {row.n} |"
