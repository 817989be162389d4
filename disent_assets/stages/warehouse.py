"""Assets of the stage `warehouse`: all metric rows and the published figures -> one DuckDB file."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

import dagster as dg

from disent_assets.asset_results import literal, markdown_table, pictures
from disent_assets.factory import Stored, dep, spec, table_asset
from disent_assets.instance import BEGAN
from disent_assets.placement import COMPUTING, on_processor
from disent_assets.refresh_warehouse import CODE_VERSION, refresh_warehouse, warehouse_checks
from disent_core.config.model import Config
from disent_core.experiment.evaluation import task_names
from disent_core.experiment.keys import comparisons_key
from disent_core.experiment.result import StepResult
from disent_core.experiment.tables import OF_LANGUAGES
from disent_core.experiment.workspace import MTEB_RESULTS, SENTENCE_PAIRS, SWITCHED, Key, Workspace
from disent_core.report import PICTURES_VERSION
from disent_core.report.scores import leaderboard, leakage, ordered_groups, unit
from disent_core.report.style import method_marks
from disent_core.storage.tables import fingerprint

DATABASE: Key = ("warehouse", "database")
FRESHNESS = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=25))
"""A refresh without failures looks at everything each night."""
LARGEST_CHANGES = """
select
    method, encoder, task, evaluated_on, metric, value_before, value, coalesce(stands, false) as stands,
    if((difference > 0) = (reads_as = 'higher is better'), 'better', 'worse') as change
from changes
inner join readings using (task, embedding, metric, settings)
semi join scored_embeddings using (task, embedding)
where refresh = (select max(refresh) from runs) and event = 'changed' and seed is null and metric != 'threshold'
    and hubness = 'none'
order by stands desc, abs(difference) desc, method, encoder, task, evaluated_on, metric
limit 10"""


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """The assets of the stage."""
    database = table_asset(
        spec(
            DATABASE,
            "One DuckDB file: `metrics`, `published_metrics`, the stages' tables and the views over them. "
            "It is built beside the old one and swapped in, so readers are never blocked.",
            code_version=CODE_VERSION,
            deps=[dep(key) for key in _sources(workspace.config)],
            kinds={"duckdb", "sql"},
            stored=Stored(workspace.warehouse, "duckdb"),
        ).replace_attributes(freshness_policy=FRESHNESS),
        lambda _: refresh_warehouse(workspace, *_run()),
        place=on_processor(COMPUTING),
        checks=list(warehouse_checks().values()),
        show=lambda _, result: {
            **_best_methods(workspace),
            **_largest_changes(workspace, result),
            **_pictures(workspace, result),
        },
        workspace=workspace,
    )
    return [database]


def _run() -> tuple[str, datetime | None]:
    """Dagster's id of the run, and when its command began; unknown where the runner only looks at the warehouse."""
    try:
        run = dg.AssetExecutionContext.get().run
    except dg.DagsterInvariantViolationError:
        return "", None
    return run.run_id, datetime.fromisoformat(run.tags[BEGAN]) if BEGAN in run.tags else None


def _sources(config: Config) -> list[Key]:
    """Keys of what is loaded; the comparisons of an encoder stand for its metrics and training curves too."""
    sources = list(OF_LANGUAGES) if config.utterance_languages else []
    sources += [SENTENCE_PAIRS] if config.pair_names else []
    sources += [SWITCHED] if config.pair_names and config.targets.code_switching.dictionaries else []
    sources += [MTEB_RESULTS] if config.mteb.results else []
    return [*sources, *(comparisons_key(encoder) for encoder in config.encoders)]


def _rows(workspace: Workspace, sql: str) -> list[dict[str, Any]]:
    from disent_assets.duckdb_warehouse import query

    return query(workspace.warehouse, sql).to_pylist()


def _best_methods(workspace: Workspace) -> dict[str, dg.MetadataValue]:
    """The best method of each direction of the first leaderboard, in bold if it is significantly better."""
    best = _rows(workspace, "select * from best")
    group = next((rows for _, rows in ordered_groups(best, task_names(workspace.config))), None)
    if group is None:
        return {}
    task, data, metric = (group[0][name] for name in ("task", "dataset", "metric"))
    rows = [row for row in best if (row["task"], row["dataset"], row["metric"]) == (task, data, metric)]
    title = literal(f"{task.replace('_', ' ')}, {data}: {unit(metric)}. Bold: p < 0.05 against the runner-up")
    header = ("direction", "best", "runner-up", "encoder")[: 4 if len(workspace.config.encoders) > 1 else 3]
    lines = [_best_line(row)[: len(header)] for row in sorted(rows, key=lambda row: row["encoder"])]
    return {"best_methods": markdown_table(title, header, lines)}


def _best_line(row: Mapping[str, Any]) -> list[str]:
    method = f"**{literal(row['method'])}**" if row["stands"] else literal(row["method"])
    runner_up = "" if row["runner_up"] is None else f"{literal(row['runner_up'])} {row['runner_up_value']:.3f}"
    return [literal(row["evaluated_on"]), f"{method} {row['value']:.3f}", runner_up, literal(row["encoder"])]


def _largest_changes(workspace: Workspace, result: StepResult) -> dict[str, dg.MetadataValue]:
    """What this refresh has changed: the largest changes of numbers by which methods are ranked."""
    if not result.figures["numbers/changed"]:
        return {}
    lines = [
        [
            f"**{literal(row['method'])}**" if row["stands"] else literal(row["method"]),
            *(literal(row[name]) for name in ("encoder", "task", "evaluated_on", "metric")),
            f"{row['value_before']:.3f} to {row['value']:.3f}, {row['change']}",
        ]
        for row in _rows(workspace, LARGEST_CHANGES)
    ]
    title = "Largest changes. Bold: the 95 % intervals before and after do not overlap. All: disent diff"
    header = ("method", "encoder", "task", "direction", "metric", "change")
    return {"largest_changes": markdown_table(title, header, lines)} if lines else {}


def _pictures(workspace: Workspace, result: StepResult) -> dict[str, dg.MetadataValue]:
    """The first leaderboard, and the leakage in it."""
    place, methods = partial(workspace.plot, "warehouse"), workspace.config.experiment.methods
    rows = cache(lambda: _rows(workspace, "select * from leaderboard"))
    board = cache(lambda: next((group for _, group in ordered_groups(rows(), task_names(workspace.config))), []))
    drawings = {
        place(name="leaderboard"): lambda: leaderboard(board(), methods),
        place(name="leakage"): lambda: leakage(board(), method_marks(methods), most=4, width=4.1),
    }
    return pictures(workspace.plots, fingerprint(PICTURES_VERSION, result.content, methods), drawings)
