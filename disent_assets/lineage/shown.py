"""Choose what the UI shows of a result in addition to its figures: pictures, and tables of the warehouse."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from disent_assets.lineage.factory import Show
from disent_assets.lineage.metadata import literal, markdown_table, pictures
from disent_core.config.model import MethodConfig
from disent_core.lineage import head_spec
from disent_core.lineage.evaluation_inputs import task_names
from disent_core.lineage.headline import result_line
from disent_core.lineage.result import StepResult
from disent_core.lineage.step import Step
from disent_core.lineage.steps import DATABASE
from disent_core.lineage.workspace import Workspace
from disent_core.methods.spec import HeadSpec, describe_head
from disent_core.report import PICTURES_VERSION
from disent_core.report.clouds import pca, tsne
from disent_core.report.curves import training_curve
from disent_core.report.scores import bars, by_embedding, leaderboard, leakage, ordered_groups, spread, unit
from disent_core.report.style import method_marks
from disent_core.storage.tables import fingerprint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from disent_core.lineage.evaluation import MeasuredMethod
    from disent_core.lineage.heads import TrainedHead

SEARCH = "disent index TEXTS.txt INDEX --head {head} && disent serve INDEX"
Draw = Callable[[Mapping[str, Any], str], "Figure | None"]
MOST_PANELS = 6  # most panels of a picture in the UI; the report has all
LARGEST_CHANGES = """
select method, encoder, task, evaluated_on, metric, value_before, value, coalesce(stands, false) as stands, change
from changes
where refresh = (select max(refresh) from runs) and event = 'changed' and is_ranked and change is not null
order by stands desc, abs(difference) desc, method, encoder, task, evaluated_on, metric
limit 10"""


def show_of(workspace: Workspace, step: Step) -> Show | None:
    """Return the function that shows a step's results; None if only figures are shown."""
    if step.key == DATABASE:
        return lambda _, result: {
            **_best_methods(workspace),
            **_largest_changes(workspace, result),
            **_pictures(workspace, result),
        }
    if step.method is None:
        return None
    show: Any = {"heads": show_head, "evaluation": show_metrics, "exports": show_export}[step.key[0]]
    return partial(show, workspace, step.encoder, step.method)


def show_head(
    workspace: Workspace, encoder: str, method: MethodConfig, training_set: str, trained: "TrainedHead"
) -> dict[str, dg.MetadataValue]:
    """Return the path of the weights and the training curve; for an embedding head also its plots and how to search."""
    run = trained.run
    is_searched = method.method.embeddings and not method.method.is_transductive(method.settings)
    head = f"{run.name}@{run.encoder}:{training_set}"
    path = partial(workspace.plot, encoder, run.name, training_set)
    drawings: dict[Path, Callable[[], Figure | None]] = {
        path(name="training_curve"): lambda: training_curve(trained.curve)
    }
    if method.method.embeddings:
        drawings[path(name="pca")] = partial(_clouds, workspace, run, method, pca)
    return {
        **pictures(workspace.plots, fingerprint(PICTURES_VERSION, run.inputs, trained.fingerprint), drawings),
        "weights": dg.MetadataValue.path(str(head_spec.head_files(workspace, run).weights)),
        **({"search": dg.MetadataValue.text(SEARCH.format(head=head))} if is_searched else {}),
    }


def draw_tsne(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> None:
    """Draw a head's t-SNE plots, which take seconds per panel, unless they exist."""
    described = describe_head(workspace.head(encoder, method.name, training_set))
    if described is not None and method.method.embeddings:
        run = head_spec.head_run(workspace, encoder, method, training_set)
        drawing = {workspace.plot(encoder, method.name, training_set, name="t_sne"): partial(
            _clouds, workspace, run, method, tsne
        )}  # fmt: skip
        pictures(workspace.plots, fingerprint(PICTURES_VERSION, described[1]), drawing)


def _clouds(workspace: Workspace, run: HeadSpec, method: MethodConfig, draw: Draw) -> "Figure | None":
    from disent_core.lineage.heads import dev_embeddings

    title = f"{run.name} on {run.encoder}\n{run.trained_on}: dev utterances, seed {run.seeds[0]}"
    return draw(dev_embeddings(workspace, run, method), title)


def show_metrics(
    workspace: Workspace, encoder: str, method: MethodConfig, training_set: str, measured: "MeasuredMethod"
) -> dict[str, dg.MetadataValue]:
    """Return the result in words, a bar for every number by task and language, and the spread of the seeds."""
    rows = measured.metrics.to_pylist()
    tasks = task_names(workspace.config)
    path = partial(workspace.plot, encoder, method.name, training_set)
    panels = cache(lambda: by_embedding([row for row in rows if row["seed"] is None], rows, tasks))
    drawings = {
        path(name="scores"): lambda: bars(panels(), most=MOST_PANELS),
        path(name="seed_spread"): lambda: spread(panels(), most=MOST_PANELS),
    }
    line = result_line(rows, workspace.config.pair_languages[training_set])
    return {
        **({"result": dg.MetadataValue.text(line)} if line else {}),
        **pictures(workspace.plots, fingerprint(PICTURES_VERSION, measured.metrics_content), drawings),
    }


def show_export(
    workspace: Workspace, encoder: str, method: MethodConfig, training_set: str, _: StepResult
) -> dict[str, dg.MetadataValue]:
    """Return the folder, and how to load it."""
    folder = workspace.export(encoder, method.name, training_set)
    return {"folder": dg.MetadataValue.path(str(folder)), "load": dg.MetadataValue.text(f'disent.load("{folder}")')}


def _rows(workspace: Workspace, sql: str) -> list[dict[str, Any]]:
    from disent.query import query

    return query(workspace.warehouse, sql).to_pylist()


def _best_methods(workspace: Workspace) -> dict[str, dg.MetadataValue]:
    """Return the best method of each direction of the first leaderboard, in bold if it is significantly better."""
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
    path, methods = partial(workspace.plot, "warehouse"), workspace.config.experiment.methods
    rows = cache(lambda: _rows(workspace, "select * from leaderboard"))
    board = cache(lambda: next((group for _, group in ordered_groups(rows(), task_names(workspace.config))), []))
    drawings = {
        path(name="leaderboard"): lambda: leaderboard(board(), methods),
        path(name="leakage"): lambda: leakage(board(), method_marks(methods), most=4, width=4.1),
    }
    return pictures(workspace.plots, fingerprint(PICTURES_VERSION, result.content, methods), drawings)
