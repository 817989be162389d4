"""Assets of the stage `evaluation`: methods x tasks -> metric rows, rankings, outcomes, and comparisons of methods.

Metrics have one file for each method, encoder and training set; comparisons have one for each encoder.
"""

from functools import cache, partial

import dagster as dg

from disent_assets import partitions
from disent_assets.asset_results import pictures
from disent_assets.factory import GPU_POOL, dep, spec, table_asset
from disent_assets.stages.embeddings import embedding_keys
from disent_assets.stages.heads import head_key
from disent_core.config.model import MethodConfig
from disent_core.evaluation.contract import READABLE
from disent_core.experiment import evaluation
from disent_core.experiment.workspace import Key, Workspace
from disent_core.report import PICTURES_VERSION
from disent_core.report.scores import bars, by_embedding, spread
from disent_core.storage.tables import SCHEMAS, fingerprint
from disent_core.training.needs import Need


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """The assets of the stage: one for each encoder and method, and the comparisons of each encoder."""
    config = workspace.config
    measured = [
        _evaluation(workspace, encoder, method) for encoder in config.encoders for method in config.methods_of(encoder)
    ]
    return [*measured, *(_comparisons(workspace, encoder) for encoder in config.encoders)]


def evaluation_key(encoder: str, method: str) -> Key:
    """Key of a method's metrics."""
    return ("evaluation", encoder, method)


def comparisons_key(encoder: str) -> Key:
    """Key of the paired tests between the methods of an encoder."""
    return ("evaluation", encoder, "comparisons")


def _evaluation(workspace: Workspace, encoder: str, method: MethodConfig) -> dg.AssetsDefinition:
    config = workspace.config
    return table_asset(
        spec(
            evaluation_key(encoder, method.name),
            f"Metrics of `{method.name}` on `{encoder}`: every task, every embedding, every seed and their "
            "mean, with 95 % intervals. One row a number.",
            code_version=evaluation.version(config)[:12],
            deps=_dependencies(workspace, encoder, method),
            schema=SCHEMAS["metrics"],
        ),
        lambda training_set: evaluation.refresh_metrics(workspace, encoder, method, training_set),
        partitions=partitions.pairs(config, method),
        checks=[evaluation.IN_INTERVAL],
        pool=GPU_POOL if Need.ENCODER in method.needs else None,  # a fine-tuned encoder needs the device here too
        show=lambda training_set, measured: _pictures(
            partial(workspace.plot, encoder, method.name, training_set), measured
        ),
    )


def _dependencies(workspace: Workspace, encoder: str, method: MethodConfig) -> list[dg.AssetDep]:
    """The tables of the method's tasks, the embeddings of their texts, and the head."""
    config = workspace.config
    mappings = partitions.evaluated(config, method, evaluation.tasks_of(config))
    embeddings_mapping = mappings.pop("languages", None)
    tables = [table for table, _ in evaluation.made(config, [(table, "") for table in mappings])]
    deps = [dep((READABLE[table], table), mappings[table]) for table in tables]
    if embeddings_mapping is not None:
        deps += [dep(key, embeddings_mapping) for key in embedding_keys(workspace, encoder)]
    if method.method.is_trained:
        deps.append(dep(head_key(encoder, method.name)))
    return deps


def _comparisons(workspace: Workspace, encoder: str) -> dg.AssetsDefinition:
    config = workspace.config
    return table_asset(
        spec(
            comparisons_key(encoder),
            f"Every two methods on `{encoder}`, on every problem: McNemar's test or a paired bootstrap, corrected "
            "by Holm over each task. One row two methods and a problem.",
            code_version=evaluation.comparisons_version(config)[:12],
            deps=[dep(evaluation_key(encoder, method.name)) for method in config.methods_of(encoder)],
            schema=SCHEMAS["comparisons"],
        ),
        lambda _: evaluation.refresh_comparisons(workspace, encoder),
    )


def _pictures(place: partial, measured: evaluation.MeasuredMethod) -> dict[str, dg.MetadataValue]:
    """A bar for every number, by task and language, and the spread of the seeds."""
    rows = measured.metrics.to_pylist()
    panels = cache(lambda: by_embedding([row for row in rows if row["seed"] is None], rows))
    drawings = {
        place(name="scores"): lambda: bars(panels()),
        place(name="seed_spread"): lambda: spread(panels(), "seed minus mean, in units of the metric"),
    }
    return pictures(fingerprint(PICTURES_VERSION, measured.metrics_content), drawings)
