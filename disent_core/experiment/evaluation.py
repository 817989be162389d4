"""Stage `evaluation`: measure methods on tasks and compare every two methods of an encoder.

Metric rows, rankings and outcomes have one file for each method, encoder and training set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disent_core.config.model import Config, MethodConfig
from disent_core.encoders.huggingface import resolve_device
from disent_core.errors import TableError, located
from disent_core.evaluation.comparisons import CODE_VERSION as COMPARISONS_VERSION
from disent_core.evaluation.comparisons import compare
from disent_core.evaluation.contract import READABLE, TASKS, LabelProblem, Problem, Task, Texts, task
from disent_core.evaluation.runner import Evaluated, Label, evaluate
from disent_core.experiment.embeddings import lazy_encoder, open_embeddings
from disent_core.experiment.headline import headline, table
from disent_core.experiment.heads import load_head
from disent_core.experiment.result import Check, CheckResult, StepResult, result_of
from disent_core.experiment.scopes import scopes
from disent_core.experiment.workspace import Workspace
from disent_core.heads.contract import TrainedLabeller, TrainedMethod
from disent_core.heads.run import describe_head, settings_fingerprint
from disent_core.storage.atomic import locked
from disent_core.storage.tables import SCHEMAS, content_of, fingerprint, read_table, refresh_table
from disent_core.training.data import text_features

CODE_VERSION = "1"
TABLES = ("outcomes", "rankings", "metrics")
"""Tables that the step of a method writes. Metrics come last: while they are old, the step is not done."""
IN_INTERVAL = Check("values_lie_in_their_interval", "ci_low <= value <= ci_high.", True)


def tasks_of(config: Config) -> list[Task]:
    """The configured tasks."""
    return [task(name) for name in config.evaluation.tasks]


def task_names(config: Config) -> tuple[str, ...]:
    """Names of all tasks in display order: those of the library, then the others."""
    return tuple(dict.fromkeys((*TASKS, *(configured.name for configured in tasks_of(config)))))


def version(config: Config) -> str:
    """Fingerprint of the code and settings that determine the measurement of a method."""
    return fingerprint(*_measure_version(config))


def _measure_version(config: Config) -> tuple[object, ...]:
    return CODE_VERSION, config.evaluation, [configured.code_version for configured in tasks_of(config)]


# --- measuring --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MeasuredMethod(StepResult):
    """The result of measuring a method: rows of `metrics`, and their fingerprint `metrics_content`."""

    metrics: pa.Table
    metrics_content: str


def refresh_metrics(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> MeasuredMethod:
    """Measure a method on everything that belongs to a training set (see `scopes`), unless that is up to date.

    Args:
        workspace: its tables up to the head must exist.
        encoder: name of the encoder.
        method: the method with its settings.
        training_set: what it was trained on.

    Raises:
        TableError: if the head, or a table that a task reads, does not exist.
        EncoderError: if an embedding is not finite.
    """
    config = workspace.config
    paths = {name: workspace.table("evaluation", name, encoder, method.name, training_set) for name in TABLES}
    inputs = metrics_inputs(workspace, encoder, method, training_set)
    measured = cache(lambda: measure(workspace, encoder, method, training_set, inputs))
    with locked(paths["metrics"].with_suffix("")):  # one lock for all three: one measurement makes them
        refreshed = {
            name: refresh_table(
                paths[name], SCHEMAS[name], inputs=inputs, make=partial(lambda name: getattr(measured(), name), name)
            )
            for name in TABLES
        }
    rows = read_table(paths["metrics"], SCHEMAS["metrics"])
    result = result_of(
        [refreshed["metrics"]],
        figures={
            **headline(rows.to_pylist(), config.pair_languages[training_set]),
            "by_task": table(rows.to_pylist(), _ranked(config)),
        },
        checks=[_check_intervals(rows)],
    )
    return MeasuredMethod(**vars(result), metrics=rows, metrics_content=refreshed["metrics"].info.content_hash)


@dataclass(frozen=True)
class Provenance:
    """What a metric was made from, as fingerprints.

    Attributes:
        inputs: of everything; the column `fingerprint` of `metrics`.
        code: of the code and settings of method, tasks and evaluation, and of what it is trained on.
        data: of the tables that the tasks read.
        weights: of the trained head; None if the method is untrained.
        vectors: of the encoder.
    """

    inputs: str
    code: str
    data: str
    weights: str | None
    vectors: str


def metrics_inputs(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> str:
    """Fingerprint of everything that the metrics of a method depend on, from the current files.

    Raises:
        TableError: if the head, or a table that a task reads, does not exist.
    """
    return provenance(workspace, encoder, method, training_set).inputs


def provenance(
    workspace: Workspace,
    encoder: str,
    method: MethodConfig,
    training_set: str,
    content: Callable[[Path], str | None] = content_of,
) -> Provenance:
    """What the metrics of a method depend on, from the current files; `content` gives the content hash of a table.

    Raises:
        TableError: if the head, or a table that a task reads, does not exist.
    """
    config = workspace.config
    measuring = _measure_version(config)
    untrained = fingerprint(method.name, method.method.code_version, settings_fingerprint(method.settings))
    weights = _weights(workspace, encoder, method, training_set) if method.method.is_trained else None
    vectors = lazy_encoder(workspace, encoder).fingerprint
    data = [content(workspace.table(*source)) for source in sources(workspace, training_set, method)]
    learned = method.corpora if method.method.is_trained else config.training_sets_of(method)
    of_method = untrained if weights is None else fingerprint(untrained, weights)
    return Provenance(
        inputs=fingerprint(*measuring, of_method, vectors, data, learned),
        code=fingerprint(*measuring, untrained, learned),
        data=fingerprint(data),
        weights=weights,
        vectors=vectors,
    )


def _weights(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> str:
    weights = workspace.head(encoder, method.name, training_set)
    described = describe_head(weights)
    if described is None:
        raise TableError(located(weights, None, "this head does not exist", "Materialise its asset first"))
    return described[1]


def _check_intervals(metrics: pa.Table) -> CheckResult:
    inside = pc.and_kleene(
        pc.less_equal(metrics["ci_low"], metrics["value"]), pc.less_equal(metrics["value"], metrics["ci_high"])
    )
    outside = len(metrics) - (pc.sum(pc.fill_null(inside, True)).as_py() or 0)
    return IN_INTERVAL.result(outside == 0, rows=outside)


def measure(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str, inputs: str) -> Evaluated:
    """Measure one method with one training set; `inputs` becomes the fingerprint in every row."""
    config = workspace.config
    trained = load_head(workspace, encoder, method, training_set, resolve_device(config.experiment.device))
    return evaluate(
        problems(workspace, tasks_of(config), training_set, method),
        Embedder(workspace, encoder, method, trained) if isinstance(trained, TrainedMethod) else None,
        _labeller(workspace, method, trained) if isinstance(trained, TrainedLabeller) else None,
        method=method.name,
        encoder=encoder,
        trained_on=training_set if method.method.is_trained else "",
        seeds=config.seeds_of(method) if method.method.is_seeded else None,
        config=config.evaluation,
        fingerprint=inputs,
        created_at=datetime.now(UTC),
    )


class Embedder:
    """Embeds stored texts with one method; returns nothing for a language that the method can't embed."""

    def __init__(self, workspace: Workspace, encoder: str, method: MethodConfig, trained: TrainedMethod) -> None:
        self.trained = trained
        # Cached by language: opening a file verifies all of it, and a step asks hundreds of times.
        self.tables = cache(lambda language: open_embeddings(workspace, encoder, language, method.needs))

    def __call__(self, texts: Texts, seed: int | None) -> Mapping[str, np.ndarray]:
        if self.trained.languages is not None and texts.language not in self.trained.languages:
            return {}
        tables = self.tables(texts.language)
        return self.trained.embed(text_features(texts.keys, *tables, language=texts.language, texts=texts.texts), seed)


def _labeller(workspace: Workspace, method: MethodConfig, trained: TrainedLabeller) -> Label:
    """Return a labeller for the languages and corpora of its training: other corpora have other tags."""

    def label(problem: LabelProblem, seed: int | None) -> list[list[str]] | None:
        language = problem.evaluated_on
        corpora = {corpus.name for corpus in workspace.config.trained_corpora(method, language)}
        if language not in trained.languages or problem.dataset not in corpora:
            return None
        return trained.label(problem.sentences, language, seed)

    return label


# --- what is measured -------------------------------------------------------------------------------------


def problems(
    workspace: Workspace, tasks: Sequence[Task], training_set: str, method: MethodConfig
) -> list[Problem | LabelProblem]:
    """Return all problems of the tasks for a method with a training set (see `scopes`)."""
    config, all_problems = workspace.config, []
    for scope in scopes(config, method, training_set):
        for configured in tasks:
            if scope.has(configured):
                tables = {
                    (table, part): read_table(
                        workspace.table(READABLE[table], table, scope.corpus, part), SCHEMAS[table]
                    )
                    for table, part in made(config, scope.partitions([configured]))
                }
                all_problems += configured.problems(scope.inputs(tables), config.evaluation)
    return all_problems


def made(config: Config, parts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep the tables that the configuration makes: without word lists nothing is code-switched."""
    has_words = config.targets.code_switching.dictionaries is not None
    return [part for part in parts if has_words or part[0] != "code_switched_pairs"]


def sources(workspace: Workspace, training_set: str, method: MethodConfig) -> list[tuple[str, ...]]:
    """Every table file that the tasks read for a training set."""
    config = workspace.config
    return list(
        dict.fromkeys(
            (READABLE[table], table, scope.corpus, part)
            for scope in scopes(config, method, training_set)
            for table, part in made(config, scope.partitions(tasks_of(config)))
        )
    )


# --- comparisons ------------------------------------------------------------------------------------------


def comparisons_version(config: Config) -> str:
    """Fingerprint of the code and settings that determine comparisons."""
    return fingerprint(
        COMPARISONS_VERSION, _ranked(config), config.evaluation.bootstrap_samples, config.evaluation.bootstrap_seed
    )


def _ranked(config: Config) -> dict[str, tuple[str, ...]]:
    return {configured.name: configured.ranked for configured in tasks_of(config)}


def refresh_comparisons(workspace: Workspace, encoder: str) -> StepResult:
    """Test every two measured methods of an encoder against each other, unless that is up to date.

    The content of the result covers the metrics and training curves too: what collects all results of an encoder has
    to depend on this step alone.
    """
    config = workspace.config
    measured = [
        (encoder, method.name, training_set)
        for method in config.methods_of(encoder)
        for training_set in config.training_sets_of(method)
    ]
    paths = [workspace.table("evaluation", "outcomes", *of) for of in measured]
    paths = [path for path in paths if path.is_file()]
    inputs = fingerprint(comparisons_version(config), [content_of(path) for path in paths])
    refreshed = refresh_table(
        workspace.comparisons(encoder),
        SCHEMAS["comparisons"],
        inputs=inputs,
        make=lambda: compare(
            (read_table(path, SCHEMAS["outcomes"]) for path in paths),
            _ranked(config),
            samples=config.evaluation.bootstrap_samples,
            seed=config.evaluation.bootstrap_seed,
            fingerprint=inputs,
            created_at=datetime.now(UTC),
        ),
    )
    collected = [
        (content_of(workspace.table("evaluation", "metrics", *of)), content_of(workspace.training_curve(*of)))
        for of in measured
    ]
    return replace(result_of([refreshed]), content=fingerprint(refreshed.info.content_hash, collected))
