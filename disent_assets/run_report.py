"""The report of a run: rows of the warehouse and pictures of the heads -> one HTML file.

What belongs here: which views are asked and where pictures lie. What does not: HTML, drawing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from disent_assets.duckdb_warehouse import query
from disent_core.experiment.evaluation import task_names
from disent_core.experiment.workspace import Workspace
from disent_core.report.document import PICTURES, Picture, RunReport, document
from disent_core.report.papers import TABLE_VIEW
from disent_core.storage.atomic import atomic_path

Rows = list[dict[str, Any]]

_QUERIES = {
    "leaderboard": """
        select * from leaderboard
        order by
            task, dataset, encoder, evaluated_on, metric, rank nulls last, reads_as,
            value desc, method, trained_on, embedding, settings""",
    "seed_values": "select * from metrics where seed is not null order by all",
    "significance": """
        select
            task, dataset, encoder, evaluated_on, metric, settings, difference, stands,
            method_a, trained_on_a, embedding_a, method_b, trained_on_b, embedding_b
        from significance
        order by all""",
    "training_curve": "select * from heads.training_curve where term = 'total' order by all",
    "coverage": "select * from coverage",
    "claim_verdicts": "select * from claim_verdicts",
    "disagreements": "select * from disagreements",
}
_READS = {"seed_values": "metrics"}
"""Relations that stand in the warehouse under another name than the report's."""


def write_report(workspace: Workspace, output: Path, title: str) -> None:
    """Write the report of what the warehouse holds; sections whose view is missing or empty say so.

    Raises:
        TableError: if there is no warehouse, or a damaged one.
    """
    page = document(
        RunReport(
            title=title,
            facts=_facts(workspace),
            tasks=task_names(workspace.config),
            methods=workspace.config.experiment.methods,
            views=_views(workspace.warehouse),
            pictures=tuple(_pictures(workspace)),
        )
    )
    with atomic_path(output.absolute()) as beside:
        beside.write_text(page, encoding="utf-8")


def _views(warehouse: Path) -> dict[str, Rows]:
    known = {row["table_name"] for row in _ask(warehouse, "select table_name from information_schema.tables")}
    queries = {name: sql for name, sql in _QUERIES.items() if _READS.get(name, name) in known}
    queries |= {name: f"select * from {name}" for name in sorted(known) if TABLE_VIEW.fullmatch(name)}
    return {name: _ask(warehouse, sql) for name, sql in queries.items()}


def _ask(warehouse: Path, sql: str) -> Rows:
    return query(warehouse, sql).to_pylist()


def _facts(workspace: Workspace) -> list[tuple[str, str]]:
    """What the run is of. Times are those of the measurements: an unchanged run has an unchanged report."""
    config = workspace.config
    days = "select min(created_at)::date as first, max(created_at)::date as last from metrics"
    when = _ask(workspace.warehouse, days)[0]
    corpora = (f"{corpus.name} ({', '.join(corpus.pairs or corpus.languages)})" for corpus in config.corpora)
    return [
        ("configuration", config.path.name),
        ("measured", " to ".join(dict.fromkeys(str(day) for day in when.values()))),
        ("corpora", ", ".join(corpora)),
        ("encoders", ", ".join(config.encoders)),
        ("trained on", ", ".join(config.training_sets)),
        ("methods", f"{len(config.experiment.methods)}: {', '.join(config.experiment.methods)}"),
        ("seeds", ", ".join(map(str, config.experiment.seeds))),
    ]


def _pictures(workspace: Workspace) -> Iterator[Picture]:
    """Pictures of the heads that the configuration has, as far as they were drawn."""
    config = workspace.config
    for encoder in config.encoders:
        for method in config.methods_of(encoder):
            for training_set in config.training_sets_of(method):
                for name in PICTURES:
                    path = workspace.plot(encoder, method.name, training_set, name=name)
                    if path.is_file():
                        yield Picture(encoder, method.name, training_set, name, path.read_bytes())
