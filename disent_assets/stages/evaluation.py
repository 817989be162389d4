"""Stage `evaluation`: methods x tasks -> metric rows, rankings and outcomes, one file a method, encoder and entry;
then every two methods of an encoder compared.

What belongs here: which tables a task reads and which pair is measured where. What does not: any measure.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa

from disent_assets import partitions
from disent_assets.asset_results import clear_errors, materialized, pictures, spec, step_name
from disent_assets.checks import metric_checks, metric_results
from disent_assets.resources import Workspace
from disent_assets.stages.embeddings import GPU_POOL, embedding_keys, lazy_encoder
from disent_assets.stages.heads import encoder_files, head_key, open_embeddings
from disent_core.config.load import MethodConfig
from disent_core.encoders.huggingface import resolve_device
from disent_core.errors import TableError, located
from disent_core.evaluation.comparisons import CODE_VERSION as COMPARISONS_VERSION
from disent_core.evaluation.comparisons import compare
from disent_core.evaluation.contract import READABLE, LabelProblem, Problem, Task, Texts, task
from disent_core.evaluation.runner import Evaluated, Label, evaluate
from disent_core.experiment.scopes import scopes
from disent_core.heads.contract import TrainedLabeller, TrainedMethod
from disent_core.heads.run import describe_head, settings_fingerprint
from disent_core.report import PICTURES_VERSION
from disent_core.report.scores import bars, by_embedding, spread
from disent_core.storage.files import locked
from disent_core.storage.tables import SCHEMAS, content_of, fingerprint, read_table, refresh_table
from disent_core.training.data import text_features
from disent_core.training.needs import Need

CODE_VERSION = "1"
COMPARISONS = "comparisons"
TABLES = ("outcomes", "rankings", "metrics")
"""What a method's step writes; the metrics last: while they are old the step is not done."""


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Assets of the stage: one for each encoder and method, and the comparisons of each encoder."""
    config = workspace.config
    measured = [
        _evaluation(workspace, encoder, method) for encoder in config.encoders for method in config.methods_of(encoder)
    ]
    return [*measured, *(_comparisons(workspace, encoder) for encoder in config.encoders)]


def evaluation_key(encoder: str, method: str) -> list[str]:
    """Key of a method's metrics."""
    return ["evaluation", encoder, method]


def comparisons_key(encoder: str) -> list[str]:
    """Key of the paired tests between the methods of an encoder."""
    return ["evaluation", encoder, COMPARISONS]


def _evaluation(workspace: Workspace, encoder: str, method: MethodConfig) -> dg.AssetsDefinition:
    config, key = workspace.config, evaluation_key(encoder, method.name)
    tasks = [task(name) for name in config.evaluation.tasks]
    mappings = partitions.evaluated(config, method, tasks)
    of_embeddings = mappings.pop("languages", None)
    deps = [
        dg.AssetDep([READABLE[table], table], partition_mapping=mapping)
        for table, mapping in mappings.items()
        if _made(workspace, [(table, "")])
    ]
    if of_embeddings is not None:
        deps += [dg.AssetDep(key, partition_mapping=of_embeddings) for key in embedding_keys(workspace, encoder)]
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
                kinds={"parquet"},
                deps=deps,
                schema=SCHEMAS["metrics"],
            )
        ],
        partitions_def=partitions.pairs(config, method),
        check_specs=metric_checks(key),
        pool=GPU_POOL if Need.ENCODER in method.needs else None,  # a tuned encoder is as large as one that is trained
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
    paths = {name: workspace.table("evaluation", name, encoder, method.name, pair) for name in TABLES}
    inputs = fingerprint(
        CODE_VERSION,
        config.evaluation,
        [each.code_version for each in tasks],
        _content_of_method(workspace, encoder, method, pair),
        lazy_encoder(workspace, encoder).fingerprint,
        [content_of(workspace.table(*source)) for source in _sources(workspace, tasks, pair, method)],
        method.corpora if method.method.is_trained else config.pairs_of(method),
    )
    made: dict[str, pa.Table] = {}

    def make(name: str) -> pa.Table:
        if not made:
            found = measure(workspace, encoder, method, tasks, pair, inputs)
            made.update({table: getattr(found, table) for table in TABLES})
        return made[name]

    with locked(paths["metrics"].with_suffix("")):  # all three: one measurement gives them
        refreshed = {
            name: refresh_table(paths[name], SCHEMAS[name], inputs=inputs, make=partial(make, name)) for name in TABLES
        }
    rows = read_table(paths["metrics"], SCHEMAS["metrics"])
    shown = _pictures(partial(workspace.plot, encoder, method.name, pair), refreshed["metrics"].info.content, rows)
    metadata = {"rankings": refreshed["rankings"].info.rows, **_headline(rows), **shown}
    return materialized([refreshed["metrics"]], key=key, metadata=metadata, checks=metric_results(key, rows))


def measure(
    workspace: Workspace, encoder: str, method: MethodConfig, tasks: list[Task], pair: str, inputs: str
) -> Evaluated:
    """Metrics, rankings and outcomes of one method on one entry."""
    config = workspace.config
    device = resolve_device(config.experiment.device)
    files = encoder_files(workspace, encoder, method)
    trained = method.method.load(workspace.head(encoder, method.name, pair), method.settings, device, files)
    return evaluate(
        problems(workspace, tasks, pair, method),
        _Embedder(workspace, encoder, method, trained) if isinstance(trained, TrainedMethod) else None,
        _labeller(workspace, method, trained) if isinstance(trained, TrainedLabeller) else None,
        method=method.name,
        encoder=encoder,
        trained_on=pair if method.method.is_trained else "",
        seeds=config.seeds_of(method) if method.method.is_seeded else None,
        config=config.evaluation,
        fingerprint=inputs,
        created_at=datetime.now(UTC),
    )


class _Embedder:
    """Embeds texts with one method: frozen embeddings in, the method's own out; none in a language it has none of."""

    def __init__(self, workspace: Workspace, encoder: str, method: MethodConfig, trained: TrainedMethod) -> None:
        self.trained = trained
        # Once a language: files are checked whole when they are opened, and a step asks hundreds of times.
        self.tables = cache(lambda language: open_embeddings(workspace, encoder, language, method.needs))

    def __call__(self, texts: Texts, seed: int | None) -> Mapping[str, np.ndarray]:
        if self.trained.languages is not None and texts.language not in self.trained.languages:
            return {}
        tables = self.tables(texts.language)
        return self.trained.embed(text_features(texts.keys, *tables, language=texts.language, texts=texts.texts), seed)


def _labeller(workspace: Workspace, method: MethodConfig, trained: TrainedLabeller) -> Label:
    """Tags sentences of the languages and corpora that it was trained on: another corpus has tags of its own."""

    def label(problem: LabelProblem, seed: int | None) -> list[list[str]] | None:
        language = problem.evaluated_on
        corpora = {corpus.name for corpus in workspace.config.trained_corpora(method, language)}
        if language not in trained.languages or problem.dataset not in corpora:
            return None
        return trained.label(problem.sentences, language, seed)

    return label


def problems(workspace: Workspace, tasks: list[Task], entry: str, method: MethodConfig) -> list[Problem | LabelProblem]:
    """Everything that is measured with an entry of a method: see `scopes`."""
    config, found = workspace.config, []
    for scope in scopes(config, method, entry):
        for each in tasks:
            if scope.has(each):
                tables = {
                    part: read_table(_table_path(workspace, scope.corpus, *part), SCHEMAS[part[0]])
                    for part in _made(workspace, scope.partitions([each]))
                }
                found += each.problems(scope.inputs(tables), config.evaluation)
    return found


def _made(workspace: Workspace, parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the tables that the configuration asks for: without word lists nothing is code-switched."""
    has_words = workspace.config.targets.code_switching.dictionaries is not None
    return [part for part in parts if has_words or part[0] != "code_switched_pairs"]


def _sources(workspace: Workspace, tasks: list[Task], entry: str, method: MethodConfig) -> list[tuple[str, ...]]:
    """Every table file that the tasks read for an entry."""
    return list(
        dict.fromkeys(
            (READABLE[table], table, scope.corpus, part)
            for scope in scopes(workspace.config, method, entry)
            for table, part in _made(workspace, scope.partitions(tasks))
        )
    )


def _comparisons(workspace: Workspace, encoder: str) -> dg.AssetsDefinition:
    config, key = workspace.config, comparisons_key(encoder)
    methods = config.methods_of(encoder)
    ranked = {name: task(name).ranked for name in config.evaluation.tasks}
    samples, seed = config.evaluation.bootstrap_samples, config.evaluation.bootstrap_seed
    version = fingerprint(COMPARISONS_VERSION, ranked, samples, seed)

    @dg.multi_asset(
        name=step_name(key),
        specs=[
            spec(
                key,
                f"Every two methods on `{encoder}`, on every problem: McNemar's test or a paired bootstrap, corrected "
                "by Holm over each task. One row two methods and a problem.",
                code_version=version[:12],
                kinds={"parquet"},
                deps=[dg.AssetDep(evaluation_key(encoder, method.name)) for method in methods],
                schema=SCHEMAS["comparisons"],
            )
        ],
    )
    def comparisons() -> Iterator[dg.MaterializeResult]:
        paths = [
            workspace.table("evaluation", "outcomes", encoder, method.name, pair)
            for method in methods
            for pair in config.pairs_of(method)
        ]
        paths = [path for path in paths if path.is_file()]
        inputs = fingerprint(version, [content_of(path) for path in paths])
        with clear_errors():
            refreshed = refresh_table(
                comparisons_path(workspace, encoder),
                SCHEMAS["comparisons"],
                inputs=inputs,
                make=lambda: compare(
                    (read_table(path, SCHEMAS["outcomes"]) for path in paths),
                    ranked,
                    samples=samples,
                    seed=seed,
                    fingerprint=inputs,
                    created_at=datetime.now(UTC),
                ),
            )
        yield materialized([refreshed], key=key)

    return comparisons


def comparisons_path(workspace: Workspace, encoder: str) -> Path:
    """Where the comparisons of an encoder's methods lie."""
    return workspace.table("evaluation", "comparisons", encoder)


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


def _pictures(place: Callable[..., Path], content: str, metrics: pa.Table) -> dict[str, dg.MetadataValue]:
    """Every number as a bar, by task and language, and how far the seeds lie apart."""
    rows = metrics.to_pylist()
    panels = cache(lambda: by_embedding([row for row in rows if row["seed"] is None], rows))
    drawings = {
        place(name="scores"): lambda: bars(panels()),
        place(name="seed_spread"): lambda: spread(panels(), "seed minus mean, in units of the metric"),
    }
    return pictures(fingerprint(PICTURES_VERSION, content), drawings)


def _headline(metrics: pa.Table) -> dict[str, float]:
    """The aggregates, under keys that stay the same from run to run, so that the UI plots them."""
    return {
        f"{row['task']}/{row['evaluated_on']}/{row['embedding']}/{row['metric']}": row["value"]
        for row in metrics.to_pylist()
        if row["seed"] is None
    }
