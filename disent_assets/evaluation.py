"""Stage `evaluation`: methods x tasks -> metric rows and rankings, one file a method, encoder and pair.

What belongs here: which tables a task reads and which pair is measured where. What does not: any measure.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa

from disent_assets import partitions
from disent_assets.checks import metric_checks, metric_results
from disent_assets.embeddings import embedding_keys, lazy_encoder
from disent_assets.heads import encoder_files, head_key, open_embeddings
from disent_assets.report import clear_errors, materialized, spec, step_name
from disent_assets.resources import Workspace
from disent_core.config import MethodConfig
from disent_core.encoders.huggingface import resolve_device
from disent_core.errors import TableError, located
from disent_core.evaluation.contract import READABLE, Inputs, LabelProblem, Problem, Task, Texts, task
from disent_core.evaluation.runner import Label, evaluate
from disent_core.heads.contract import TrainedLabeller, TrainedMethod
from disent_core.heads.data import text_features
from disent_core.heads.train import describe_head, settings_fingerprint
from disent_core.tables import SCHEMAS, content_of, fingerprint, read_table, refresh_table

CODE_VERSION = "1"


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Assets of the stage: one for each encoder and method."""
    return [
        _evaluation(workspace, encoder, method)
        for encoder in workspace.config.encoders
        for method in workspace.config.methods_of(encoder)
    ]


def evaluation_key(encoder: str, method: str) -> list[str]:
    """Key of a method's metrics."""
    return ["evaluation", encoder, method]


def _evaluation(workspace: Workspace, encoder: str, method: MethodConfig) -> dg.AssetsDefinition:
    config, key = workspace.config, evaluation_key(encoder, method.name)
    tasks = [task(name) for name in config.evaluation.tasks]
    mapping = partitions.language_to_pairs(config, method)
    sources = [[READABLE[table], table] for table in dict.fromkeys(name for each in tasks for name in each.tables)]
    deps = [
        dg.AssetDep(source, partition_mapping=mapping) for source in (*sources, *embedding_keys(workspace, encoder))
    ]
    if method.method.is_trained:
        deps.append(dg.AssetDep(head_key(encoder, method.name)))

    @dg.multi_asset(
        name=step_name(key),
        specs=[
            spec(
                key,
                f"Metrics of `{method.name}` on `{encoder}`: every task, every embedding, every seed and their "
                "mean, with 95 % intervals. One row a number.",
                code_version=fingerprint(CODE_VERSION, config.evaluation, [each.code_version for each in tasks])[:12],
                kinds={"parquet", "faiss"},
                deps=deps,
                schema=SCHEMAS["metrics"],
            )
        ],
        partitions_def=partitions.pairs(config, method),
        check_specs=metric_checks(key),
    )
    def metrics(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        with clear_errors():
            result = _refresh(workspace, encoder, method, tasks, context.partition_key)
        yield result

    return metrics


def _refresh(
    workspace: Workspace, encoder: str, method: MethodConfig, tasks: list[Task], pair: str
) -> dg.MaterializeResult:
    config, key = workspace.config, evaluation_key(encoder, method.name)
    paths = {name: workspace.table("evaluation", name, encoder, method.name, pair) for name in ("metrics", "rankings")}
    inputs = fingerprint(
        CODE_VERSION,
        config.evaluation,
        [each.code_version for each in tasks],
        _content_of_method(workspace, encoder, method, pair),
        lazy_encoder(workspace, encoder).fingerprint,
        [content_of(workspace.table(*source)) for source in _sources(workspace, tasks, pair)],
        config.pairs_of(method) if not method.method.is_trained else (),
    )
    made: dict[str, pa.Table] = {}

    def make(name: str) -> pa.Table:
        if not made:
            made["metrics"], made["rankings"] = measure(workspace, encoder, method, tasks, pair, inputs)
        return made[name]

    # The metrics are written last: while they are old the step is not done.
    rankings = refresh_table(paths["rankings"], SCHEMAS["rankings"], inputs=inputs, make=lambda: make("rankings"))
    metrics = refresh_table(paths["metrics"], SCHEMAS["metrics"], inputs=inputs, make=lambda: make("metrics"))
    rows = read_table(paths["metrics"], SCHEMAS["metrics"])
    return materialized(
        [metrics], key=key, metadata={"rankings": rankings.info.rows, **_headline(rows)},
        checks=metric_results(key, rows),
    )  # fmt: skip


def measure(
    workspace: Workspace, encoder: str, method: MethodConfig, tasks: list[Task], pair: str, inputs: str
) -> tuple[pa.Table, pa.Table]:
    """Metrics and rankings of one method on one entry."""
    config = workspace.config
    device = resolve_device(config.experiment.device)
    files = encoder_files(workspace, encoder, method)
    trained = method.method.load(workspace.head(encoder, method.name, pair), method.settings, device, files)
    return evaluate(
        problems(workspace, tasks, pair, method),
        _Embedder(workspace, encoder, method, trained) if method.method.embeddings else None,
        _labeller(trained) if isinstance(trained, TrainedLabeller) else None,
        method=method.name,
        encoder=encoder,
        trained_on=pair if method.method.is_trained else "",
        seeds=config.seeds_of(method) if method.method.is_seeded else None,
        config=config.evaluation,
        fingerprint=inputs,
        created_at=datetime.now(UTC),
    )


class _Embedder:
    """Embeds texts with one method: frozen embeddings in, the method's own out."""

    def __init__(self, workspace: Workspace, encoder: str, method: MethodConfig, trained: TrainedMethod) -> None:
        self.workspace, self.encoder, self.needs, self.trained = workspace, encoder, method.needs, trained

    def __call__(self, texts: Texts, seed: int | None) -> Mapping[str, np.ndarray]:
        tables = open_embeddings(self.workspace, self.encoder, texts.language, self.needs)
        return self.trained.embed(text_features(texts.keys, *tables, language=texts.language, texts=texts.texts), seed)


def _labeller(trained: TrainedLabeller) -> Label:
    def label(problem: LabelProblem, seed: int | None) -> list[list[str]] | None:
        if problem.evaluated_on not in trained.languages:
            return None
        return trained.label(problem.sentences, problem.evaluated_on, seed)

    return label


def problems(workspace: Workspace, tasks: list[Task], pair: str, method: MethodConfig) -> list[Problem | LabelProblem]:
    """Everything that is measured on an entry: its language pairs, and each of its languages by itself.

    An untrained method is the same for every pair that has a language, so a language (or a pair that is also
    part of a mixture) is measured with the first entry that has it.
    """
    config, found = workspace.config, []
    for corpus, scope, languages in _scopes(workspace, pair):
        if not method.method.is_trained and _first_entry(workspace, method, scope, languages) != pair:
            continue
        for each in tasks:
            if each.scope in (scope, "both"):
                tables = {
                    part: read_table(_table_path(workspace, corpus, *part), SCHEMAS[part[0]])
                    for part in each.partitions("utterances", languages)
                }
                inputs = Inputs(corpus=corpus, languages=languages, tables=tables)
                found += each.problems(inputs, config.evaluation)
    return found


def _scopes(workspace: Workspace, pair: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Corpus, scope (`pair` or `language`) and languages."""
    for left, right in workspace.config.pair_languages[pair]:
        for corpus in workspace.config.corpora_of_pair(left, right):
            yield corpus.name, "pair", (left, right)
    for language in partitions.languages_of(workspace.config, pair):
        for corpus in workspace.config.corpora_of(language):
            yield corpus.name, "language", (language,)


def _first_entry(workspace: Workspace, method: MethodConfig, scope: str, languages: tuple[str, ...]) -> str:
    config = workspace.config
    return next(
        entry
        for entry in config.pairs_of(method)
        if (
            languages in config.pair_languages[entry]
            if scope == "pair"
            else languages[0] in partitions.languages_of(config, entry)
        )
    )


def _sources(workspace: Workspace, tasks: list[Task], pair: str) -> list[tuple[str, str, str, str]]:
    """Every table file that the tasks read for an entry."""
    return list(
        dict.fromkeys(
            (READABLE[table], table, corpus, part)
            for corpus, scope, languages in _scopes(workspace, pair)
            for each in tasks
            if each.scope in (scope, "both")
            for table, part in each.partitions("utterances", languages)
        )
    )


def _table_path(workspace: Workspace, corpus: str, table: str, part: str) -> Path:
    return workspace.table(READABLE[table], table, corpus, part)


def _content_of_method(workspace: Workspace, encoder: str, method: MethodConfig, pair: str) -> str:
    own = fingerprint(method.name, method.method.code_version, settings_fingerprint(method.settings))
    if not method.method.is_trained:
        return own
    weights = workspace.head(encoder, method.name, pair)
    described = describe_head(weights)
    if described is None:
        raise TableError(located(weights, None, "this head does not exist", "Materialise its asset first"))
    return fingerprint(own, described[1])


def _headline(metrics: pa.Table) -> dict[str, float]:
    """The aggregates, under keys that stay the same from run to run, so that the UI plots them."""
    return {
        f"{row['task']}/{row['evaluated_on']}/{row['embedding']}/{row['metric']}": row["value"]
        for row in metrics.to_pylist()
        if row["seed"] is None
    }
