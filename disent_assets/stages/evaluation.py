"""Assets of the stage `evaluation`: methods x tasks -> metric rows, rankings, outcomes, and comparisons of methods.

Metrics have one file for each method, encoder and training set; comparisons have one for each encoder.
"""

from functools import cache, partial
from typing import TYPE_CHECKING

import dagster as dg

from disent_assets import partitions
from disent_assets.asset_results import pictures
from disent_assets.corpus_versions import mteb_versions
from disent_assets.factory import Stored, dep, spec, table_asset, table_files
from disent_assets.placement import COMPUTING, FINE_TUNING, SMALL, on_device, on_processor
from disent_assets.stages.corpora import observed
from disent_assets.stages.embeddings import embedding_keys
from disent_core.config.model import MethodConfig
from disent_core.evaluation.contract import READABLE
from disent_core.experiment import evaluation, gates, mteb_results
from disent_core.experiment.keys import comparisons_key, evaluation_sets_key, head_key, metrics_key
from disent_core.experiment.result import StepResult
from disent_core.experiment.workspace import MTEB_RESULTS, Workspace
from disent_core.report import PICTURES_VERSION
from disent_core.report.scores import bars, by_embedding, spread
from disent_core.storage.tables import SCHEMAS, fingerprint
from disent_core.training.needs import Need

if TYPE_CHECKING:
    from disent_core.experiment.measuring import MeasuredMethod

MTEB_FILES = dg.AssetKey(["evaluation", "mteb_files"])
MOST_PANELS = 6
"""Panels of a picture in the UI; the report has all."""


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """The assets of the stage: for each encoder a gate, the metrics of each method, and their comparisons.

    And the results of mteb, if the configuration names any.
    """
    assets: list[dg.AssetsDefinition | dg.SourceAsset] = []
    for encoder in workspace.config.encoders:
        methods = workspace.config.methods_of(encoder)
        assets.append(_evaluation_sets(workspace, encoder))
        assets += [_metrics(workspace, encoder, method) for method in methods]
        assets.append(_comparisons(workspace, encoder))
    return [*assets, *(_results_of_mteb(workspace) if workspace.config.mteb.results else [])]


def _results_of_mteb(workspace: Workspace) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    sources = partitions.mteb_sources(workspace.config)
    files = observed(
        workspace,
        MTEB_FILES,
        "Folders of result files of mteb. A folder's data version is the hash of the files that are read.",
        sources,
        lambda: mteb_versions(workspace),
    )
    table = table_asset(
        spec(
            MTEB_RESULTS,
            "What mteb has measured, of heads of disent and of other models. One row a number.",
            code_version=mteb_results.mteb_version(workspace.config)[:12],
            deps=[dg.AssetDep(MTEB_FILES)],
            schema=SCHEMAS["mteb_results"],
            stored=table_files(workspace, MTEB_RESULTS),
        ),
        lambda source: mteb_results.refresh_mteb_results(workspace, source),
        partitions=sources,
        workspace=workspace,
    )
    return [files, table]


def _evaluation_sets(workspace: Workspace, encoder: str) -> dg.AssetsDefinition:
    """The gate, as `heads._training_data` is for heads."""
    config, methods = workspace.config, workspace.config.methods_of(encoder)
    mappings = partitions.evaluated(config, methods, evaluation.tasks_of(config))
    of_embeddings = mappings.pop("languages", None)
    tables = [table for table, _ in evaluation.made(config, [(table, "") for table in mappings])]
    deps = [dep((READABLE[table], table), mappings[table]) for table in tables]
    if of_embeddings is not None:
        deps += [dep(key, of_embeddings) for key in embedding_keys(workspace, encoder)]
    return table_asset(
        spec(
            evaluation_sets_key(encoder),
            f"What the tasks read to measure the methods on `{encoder}` with a training set. Nothing is made: while "
            "the content stays the same, no metrics are stale but those of a new head.",
            code_version=gates.CODE_VERSION,
            deps=deps,
            kinds={"python"},
        ),
        lambda training_set: gates.evaluation_sets(workspace, encoder, training_set),
        partitions=partitions.pairs(config, methods),
        place=on_processor(SMALL),
        workspace=workspace,
    )


def _metrics(workspace: Workspace, encoder: str, method: MethodConfig) -> dg.AssetsDefinition:
    config = workspace.config
    return table_asset(
        spec(
            metrics_key(encoder, method.name),
            f"Metrics of `{method.name}` on `{encoder}`: every task, every embedding, every seed and their "
            "mean, with 95 % intervals. One row a number.",
            code_version=evaluation.version(config)[:12],
            deps=_dependencies(workspace, encoder, method),
            schema=SCHEMAS["metrics"],
            stored=Stored(workspace.tables / "evaluation" / "metrics" / encoder / method.name, relation="main.metrics"),
            method=method.name,
        ),
        partial(_measure, workspace, encoder, method),
        partitions=partitions.pairs(config, [method]),
        checks=[evaluation.IN_INTERVAL],
        place=on_device(config, FINE_TUNING)  # a fine-tuned encoder needs the device here too
        if Need.ENCODER in method.needs
        else on_processor(COMPUTING),
        show=lambda training_set, measured: _pictures(
            workspace, partial(workspace.plot, encoder, method.name, training_set), measured
        ),
        workspace=workspace,
    )


def _dependencies(workspace: Workspace, encoder: str, method: MethodConfig) -> list[dg.AssetDep]:
    """The gate, and the head."""
    config = workspace.config
    gate = partitions.same_pair(config, [method], config.methods_of(encoder))
    of_head = [dep(head_key(encoder, method.name))] if method.method.is_trained else []
    return [dep(evaluation_sets_key(encoder), gate), *of_head]


def _comparisons(workspace: Workspace, encoder: str) -> dg.AssetsDefinition:
    config = workspace.config
    return table_asset(
        spec(
            comparisons_key(encoder),
            f"Every two methods on `{encoder}`, on every problem: McNemar's test or a paired bootstrap, corrected "
            "by Holm over each task. One row two methods and a problem.",
            code_version=evaluation.comparisons_version(config)[:12],
            deps=[dep(metrics_key(encoder, method.name)) for method in config.methods_of(encoder)],
            schema=SCHEMAS["comparisons"],
            stored=Stored(workspace.comparisons(encoder), relation="main.comparisons"),
        ),
        lambda _: _compare(workspace, encoder),
        workspace=workspace,
    )


def _measure(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> "MeasuredMethod":
    from disent_core.experiment.measuring import refresh_metrics  # loads torch

    return refresh_metrics(workspace, encoder, method, training_set)


def _compare(workspace: Workspace, encoder: str) -> StepResult:
    from disent_core.experiment.measuring import refresh_comparisons

    return refresh_comparisons(workspace, encoder)


def _pictures(workspace: Workspace, place: partial, measured: "MeasuredMethod") -> dict[str, dg.MetadataValue]:
    """A bar for every number, by task and language, and the spread of the seeds."""
    rows = measured.metrics.to_pylist()
    tasks = evaluation.task_names(workspace.config)
    panels = cache(lambda: by_embedding([row for row in rows if row["seed"] is None], rows, tasks))
    drawings = {
        place(name="scores"): lambda: bars(panels(), columns=2, most=MOST_PANELS),
        place(name="seed_spread"): lambda: spread(
            panels(), "seed minus mean, in units of the metric", columns=2, most=MOST_PANELS
        ),
    }
    return pictures(workspace.plots, fingerprint(PICTURES_VERSION, measured.metrics_content), drawings)
