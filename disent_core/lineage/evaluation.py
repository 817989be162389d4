"""Stage `evaluation`: measure methods on tasks, and compare all pairs of an encoder's methods.

Metric rows, rankings and outcomes have one file for each method, encoder and training set.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.config.model import MethodConfig
from disent_core.encoders.transformer import resolve_device
from disent_core.evaluation.comparisons import compare
from disent_core.evaluation.contract import READABLE, Embedded, LabelProblem, Problem, Task, Texts
from disent_core.evaluation.runner import Embed, Evaluated, Label, evaluate
from disent_core.lineage import evaluation_inputs
from disent_core.lineage.corpora import naming_files
from disent_core.lineage.embeddings import open_embeddings
from disent_core.lineage.evaluation_inputs import Scope, Scopes, ranked_by, tasks_of
from disent_core.lineage.headline import headline, table
from disent_core.lineage.heads import load_head
from disent_core.lineage.result import CheckResult, StepResult, result_of, unique_rows
from disent_core.lineage.workspace import Workspace
from disent_core.methods.trainer import TrainedLabeller, TrainedMethod
from disent_core.shards.backend import sharded
from disent_core.storage.results import result_exists, sole_maker
from disent_core.storage.tables import SCHEMAS, content_of, fingerprint, read_table
from disent_core.training.data import text_features


@dataclass(frozen=True, kw_only=True)
class MeasuredMethod(StepResult):
    """The result of measuring a method: rows of `metrics`, and their fingerprint."""

    metrics: pa.Table
    metrics_content: str


def refresh_metrics(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> MeasuredMethod:
    """Measure a method on everything that belongs to a training set (see `Scopes.of`), unless that is up to date."""
    config, names = workspace.config, evaluation_inputs.TABLES
    of = (encoder, method.name, training_set)
    inputs = evaluation_inputs.provenance(workspace, encoder, method, training_set).inputs
    measured = cache(lambda: measure(workspace, encoder, method, training_set, inputs))
    # One lock for all three, because one measurement makes them.
    with sole_maker(workspace.table("evaluation", "metrics", *of).with_suffix("")):
        refreshed = {
            name: workspace.refresh(
                "evaluation", name, *of, inputs=inputs, make=partial(lambda name: getattr(measured(), name), name)
            )
            for name in names
        }
    rows = workspace.read("evaluation", "metrics", *of)
    figures = {
        **headline(rows.to_pylist(), config.pair_languages[training_set]),
        "by_task": table(rows.to_pylist(), ranked_by(config)),
    }
    result = result_of([refreshed["metrics"]], figures=figures, checks=[_check_intervals(rows)])
    return MeasuredMethod(**vars(result), metrics=rows, metrics_content=refreshed["metrics"].info.content_hash)


def _check_intervals(metrics: pa.Table) -> CheckResult:
    inside = pc.and_kleene(
        pc.less_equal(metrics["ci_low"], metrics["value"]), pc.less_equal(metrics["value"], metrics["ci_high"])
    )
    outside = len(metrics) - (pc.sum(pc.fill_null(inside, True)).as_py() or 0)
    return evaluation_inputs.IN_INTERVAL.result(outside == 0, rows=outside)


def measure(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str, inputs: str) -> Evaluated:
    """Measure one method with one training set; `inputs` becomes the fingerprint in every row."""
    config = workspace.config
    trained = load_head(workspace, encoder, method, training_set, resolve_device(config.experiment.device))
    with sharded(workspace.shard_backend):
        return evaluate(
            problems_of(workspace, tasks_of(config), Scopes(config).of(method, training_set)),
            embedder(workspace, encoder, method, trained) if isinstance(trained, TrainedMethod) else None,
            _labeller(workspace, method, trained) if isinstance(trained, TrainedLabeller) else None,
            method=method.name,
            encoder=encoder,
            trained_on=training_set if method.method.is_trained else "",
            seeds=config.seeds_of(method) if method.method.is_seeded else None,
            config=config.evaluation,
            fingerprint=inputs,
            created_at=datetime.now(UTC),
        )


def embedder(workspace: Workspace, encoder: str, method: MethodConfig, trained: TrainedMethod) -> Embed:
    """Return what embeds stored texts with one method: nothing for languages that the method can't embed."""
    # Cached by language: opening a file verifies all of it, and a step does so hundreds of times.
    tables = cache(lambda language: open_embeddings(workspace, encoder, language, method.needs))

    def embed(texts: Texts, seed: int | None) -> Mapping[str, Embedded]:
        language = texts.language
        if trained.languages is not None and language not in trained.languages:
            return {}
        return trained.embed(text_features(texts.keys, tables(language), language=language, texts=texts.texts), seed)

    return embed


def _labeller(workspace: Workspace, method: MethodConfig, trained: TrainedLabeller) -> Label:
    """Return a labeller for the languages and corpora it was trained on: other corpora have other tags."""

    def label(problem: LabelProblem, seed: int | None) -> list[list[str]] | None:
        language = problem.evaluated_on
        corpora = {corpus.name for corpus in workspace.config.trained_corpora(method, language)}
        if language not in trained.languages or problem.dataset not in corpora:
            return None
        return trained.label(problem.sentences, language, seed)

    return label


def problems_of(workspace: Workspace, tasks: Sequence[Task], scopes: Iterable[Scope]) -> list[Problem | LabelProblem]:
    config, all_problems = workspace.config, []
    for scope, task in product(scopes, tasks):
        if scope.has(task):
            tables = {
                (table, part): workspace.read(READABLE[table], table, scope.corpus, part)
                for table, part in scope.partitions([task])
                if evaluation_inputs.is_made(config, table)
            }
            with naming_files(workspace, scope.corpus):
                all_problems += task.problems(scope.inputs(tables), config.evaluation)
    return all_problems


def refresh_comparisons(workspace: Workspace, encoder: str) -> StepResult:
    """Test all pairs of measured methods of an encoder, unless the tests are up to date.

    The content of the result also covers metrics and training curves, so that whatever collects all results of an
    encoder need only depend on this step.
    """
    config = workspace.config
    measured = [
        (encoder, method.name, training_set)
        for method in config.methods_of(encoder)
        for training_set in config.training_sets_of(method)
    ]
    outcomes = (workspace.table("evaluation", "outcomes", *of) for of in measured)
    paths, key = list(filter(result_exists, outcomes)), ("evaluation", "comparisons", encoder)
    inputs = fingerprint(evaluation_inputs.comparisons_version(config), [content_of(path) for path in paths])
    refreshed = workspace.refresh(
        *key,
        inputs=inputs,
        make=lambda: compare(
            (read_table(path, SCHEMAS["outcomes"]) for path in paths),
            ranked_by(config),
            samples=config.evaluation.bootstrap_samples,
            seed=config.evaluation.bootstrap_seed,
            over=config.evaluation.intervals,
            fingerprint=inputs,
            created_at=datetime.now(UTC),
        ),
        key=(
            "task", "dataset", "encoder", "evaluated_on", "metric", "settings",
            "method_a", "trained_on_a", "method_b", "trained_on_b",
        ),
    )  # fmt: skip
    collected = [
        (content_of(workspace.table("evaluation", "metrics", *of)), content_of(workspace.training_curve(*of)))
        for of in measured
    ]
    probabilities = workspace.read(*key, columns=["p_value", "p_holm"])
    checks = [unique_rows([refreshed]), _check_probabilities(probabilities)]
    result = result_of([refreshed], checks=checks)
    return replace(result, content=fingerprint(refreshed.info.content_hash, collected))


def _check_probabilities(rows: pa.Table) -> CheckResult:
    p, corrected = (rows[name].to_numpy() for name in ("p_value", "p_holm"))
    outside = int((~((p >= 0) & (p <= corrected) & (corrected <= 1))).sum())
    return evaluation_inputs.PROBABILITIES.result(outside == 0, rows=outside)
