"""Stage `evaluation`: what is measured, and what metrics and comparisons are made from. `measuring` computes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from disent_core.config.model import Config, MethodConfig
from disent_core.errors import TableError, located
from disent_core.evaluation.comparisons import CODE_VERSION as COMPARISONS_VERSION
from disent_core.evaluation.contract import READABLE, TASKS, Task, task
from disent_core.lineage.embeddings import lazy_encoder
from disent_core.lineage.evaluation_sets import scopes
from disent_core.lineage.result import Check
from disent_core.lineage.workspace import Workspace
from disent_core.methods.spec import describe_head, settings_fingerprint
from disent_core.storage.tables import content_of, fingerprint

CODE_VERSION = "2"
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
    # The text of the settings is hashed. It lacks what came later, so that numbers of before are up to date where that
    # has its default.
    evaluation = config.evaluation
    later: list[object] = [] if evaluation.hubness == ("none",) else [evaluation.hubness]
    if evaluation.heldout_search != "exact" and any(task.name == "heldout_retrieval" for task in tasks_of(config)):
        later.append({"heldout_search": evaluation.heldout_search})
    return CODE_VERSION, evaluation, [configured.code_version for configured in tasks_of(config)], *later


# --- what metrics are made from ------------------------------------------------------------------------------


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
    """Fingerprint of everything that the metrics of a method depend on, from the current files."""
    return provenance(workspace, encoder, method, training_set).inputs


def provenance(
    workspace: Workspace,
    encoder: str,
    method: MethodConfig,
    training_set: str,
    content: Callable[[Path], str | None] = content_of,
) -> Provenance:
    """What the metrics of a method depend on, from the current files; `content` gives the content hash of a table."""
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


# --- what is measured -------------------------------------------------------------------------------------


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
        COMPARISONS_VERSION, ranked_by(config), config.evaluation.bootstrap_samples, config.evaluation.bootstrap_seed
    )


def ranked_by(config: Config) -> dict[str, tuple[str, ...]]:
    """Embeddings by which each task ranks methods."""
    return {configured.name: configured.ranked for configured in tasks_of(config)}
