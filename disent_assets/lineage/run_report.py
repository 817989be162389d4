"""Write the report of a run: warehouse rows and pictures of the heads -> one HTML file.

This module decides which views to query and where pictures come from; HTML and drawing belong elsewhere.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from disent.query import query
from disent_assets.lineage.shown import draw_tsne
from disent_assets.settings.environment import SQL
from disent_assets.warehouse.sql_files import require_same_sql
from disent_core.lineage.evaluation_inputs import task_names
from disent_core.lineage.workspace import Workspace
from disent_core.report import TITLE
from disent_core.report.document import PICTURES, TABLE_VIEW, Picture, RunReport, document
from disent_core.storage.files import atomic_path
from disent_core.storage.results import fetch

Rows = list[dict[str, Any]]

_QUERIES = {
    "leaderboard": """
        select * from leaderboard
        order by
            task, dataset, encoder, evaluated_on, metric, rank nulls last, reads_as,
            value desc, method, trained_on, embedding, settings""",
    "significance": """
        select
            task, dataset, encoder, evaluated_on, metric, settings, difference, stands, lower_is_better,
            method_a, trained_on_a, embedding_a, method_b, trained_on_b, embedding_b
        from significance
        order by all""",
    "training_curve": "select * from heads.training_curve where term = 'total' order by all",
    "coverage": "select * from coverage",
    "claim_verdicts": "select * from claim_verdicts",
    "disagreements": "select * from disagreements",
}


def write_report(workspace: Workspace, output: Path, title: str = TITLE, *, t_sne: bool = False) -> None:
    """Write the report of the warehouse; a section notes if its view is missing or empty.

    With `t_sne`, draw the missing t-SNE clouds of heads first.
    """
    require_same_sql(workspace.warehouse, SQL)
    for head in tqdm([*workspace.config.measured()], desc="t-SNE", unit=" heads") if t_sne else ():
        draw_tsne(workspace, *head)
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
    relations = {row["table_name"] for row in _rows(warehouse, "select table_name from information_schema.tables")}
    queries = {name: sql for name, sql in _QUERIES.items() if name in relations}
    queries |= {name: f"select * from {name}" for name in sorted(relations) if TABLE_VIEW.fullmatch(name)}
    return {name: _rows(warehouse, sql) for name, sql in queries.items()}


def _rows(warehouse: Path, sql: str) -> Rows:
    return query(warehouse, sql).to_pylist()


def _facts(workspace: Workspace) -> list[tuple[str, str]]:
    """Return facts about the run. Dates are those of measurements, so that an unchanged run gives the same report."""
    config = workspace.config
    days = "select min(as_of)::date as first, max(as_of)::date as last from metrics"
    period = _rows(workspace.warehouse, days)[0]
    corpora = (f"{corpus.name} ({', '.join(corpus.pairs or corpus.languages)})" for corpus in config.corpora)
    return [
        ("configuration", config.path.name),
        ("measured", " to ".join(dict.fromkeys(str(day) for day in period.values()))),
        ("corpora", ", ".join(corpora)),
        ("encoders", ", ".join(config.encoders)),
        ("trained on", ", ".join(config.training_sets)),
        ("methods", f"{len(config.experiment.methods)}: {', '.join(config.experiment.methods)}"),
        ("seeds", ", ".join(map(str, config.experiment.seeds))),
    ]


def _pictures(workspace: Workspace) -> Iterator[Picture]:
    for encoder, method, training_set in workspace.config.measured():
        for name in PICTURES:
            path = workspace.plot(encoder, method.name, training_set, name=name)
            if fetch(path).is_file():
                yield Picture(encoder, method.name, training_set, name, path.read_bytes())
