"""Measure heads with mteb on the corpora of a run."""

# pyright: reportMissingImports=false
# mteb is an extra.

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from disent_core.errors import TableError
from disent_core.evaluation.contract import Problem
from disent_core.lineage.evaluation import problems_of
from disent_core.lineage.evaluation_inputs import Scopes, tasks_of
from disent_core.lineage.workspace import UTTERANCES, Workspace
from disent_core.mteb_bridge.encoder import DisentEncoder
from disent_core.mteb_bridge.official import MASSIVE, STS17, TATOEBA, massive_tasks, pair_tasks
from disent_core.mteb_bridge.tasks import own_tasks, task_name
from disent_core.registry import nearest
from disent_core.storage.tables import SCHEMAS, read_table

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.results import TaskResult

OFFICIAL = {TATOEBA: "tatoeba_retrieval", STS17: "sts", **dict.fromkeys(MASSIVE, "")}
"""Official tasks, with the tasks here that have their texts."""


def local_tasks(workspace: Workspace, languages: Collection[str] = (), names: Sequence[str] = ()) -> "list[AbsTask]":
    """Return tasks of mteb with their data from the tables of a run: official ones, then those of disent.

    Only what all of whose languages are among `languages`, and only tasks of these `names` in mteb; empty: all. The
    corpora, and what the tasks read of `targets`, must have been made.
    """
    config = workspace.config
    spoken = set(languages or config.languages)
    known = {task_name(task.name): task for task in tasks_of(config)}
    if unknown := [name for name in names if name not in known and name not in OFFICIAL]:
        choices = [*OFFICIAL, *known]
        raise ValueError(f"unknown task {unknown[0]!r}{nearest(unknown[0], choices)}; choose of {', '.join(choices)}")
    wanted = {OFFICIAL[name] for name in names if name in OFFICIAL}
    read = [task for name, task in known.items() if not names or name in names or task.name in wanted]
    scopes = [scope for scope in Scopes(config).all if set(scope.languages) <= spoken]
    with_texts = [problem for problem in problems_of(workspace, read, scopes) if isinstance(problem, Problem)]
    pairs, others = pair_tasks(with_texts)
    massive = massive_tasks(_massive(workspace, spoken)) if not names or MASSIVE.keys() & set(names) else []
    tasks = [task for task in (*pairs, *massive, *own_tasks(others)) if not names or task.metadata.name in names]
    if not tasks:
        raise ValueError(f"no task has data in {', '.join(sorted(spoken))}; name other tasks or languages")
    return tasks


def _massive(workspace: Workspace, spoken: Collection[str]) -> dict[str, tuple[str, Any]]:
    """Return language and utterances by locale, of the first corpus in the format of MASSIVE."""
    config = workspace.config
    corpora = [corpus.name for corpus in config.corpora if corpus.format == "massive"]
    return {
        locale: (language, read_table(workspace.table(*UTTERANCES, name, language), SCHEMAS["utterances"]))
        for name in corpora[:1]
        for language, locale in config.locales[name].items()
        if language in spoken
    }


def trained_languages(workspace: Workspace, trained_on: str) -> tuple[str, ...]:
    """Return the languages of a training set; all of the configuration for an untrained method."""
    known = workspace.config.languages
    try:
        pairs = workspace.config.pairs_of(trained_on) if trained_on else ()
    except ValueError as error:
        raise ValueError(
            f"the head was trained on {trained_on}: {error}. Name languages of the configuration"
        ) from error
    return tuple(dict.fromkeys(language for pair in pairs for language in pair)) or known


def evaluate(encoder: DisentEncoder, tasks: "Sequence[AbsTask]", folder: Path) -> "Iterator[TaskResult]":
    """Measure one embedding on tasks, one after another; unchanged results in the folder are not measured again.

    A task that is not for the embedding is left out, as `DisentLanguageLeakage` for the language embedding. The folder
    is of mteb's result files: `ResultCache(folder)` loads them.
    """
    import mteb

    cache = mteb.ResultCache(folder)
    for task in tasks:
        is_for = getattr(task.metadata, "is_for", None)  # of official tasks on mteb's own data there is none
        if is_for is not None and not is_for(encoder.embedding):
            continue
        # Of results that have all subsets mteb does not ask whether the data are still the same.
        known = cache.load_task_result(task.metadata.name, encoder.mteb_model_meta)
        is_stale = known is not None and known.dataset_revision != task.metadata.revision
        strategy = "always" if is_stale else "only-missing"
        options = {"cache": cache, "overwrite_strategy": strategy, "co2_tracker": False, "show_progress_bar": False}
        with _quiet():
            result = mteb.evaluate(cast(Any, encoder), [task], **options)
        if not result.task_results:
            raise TableError(f"mteb has measured nothing on {task.metadata.name}")
        yield result.task_results[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the bars of `datasets`, and the warning for each label that is never predicted."""
    import datasets
    from sklearn.exceptions import UndefinedMetricWarning

    is_shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            yield
    finally:
        if is_shown:
            datasets.enable_progress_bars()
