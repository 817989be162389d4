"""Measure heads with mteb on the corpora of a run.

A task has its official name (Tatoeba, STS17, the classification of MASSIVE) only if the texts are the official ones as
far as mteb's own statistics tell: as many texts, and as many characters within one per text and half a percent (mteb's
copies keep line feeds, and are not normalised). So samples, limited corpora and other splits never appear under an
official name.
"""

import logging
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.corpora.languages import language_code
from disent_core.errors import TableError
from disent_core.evaluation.contract import Problem, Texts
from disent_core.evaluation.tasks.retrieval_problem import RetrievalProblem
from disent_core.evaluation.tasks.sts import CorrelationProblem
from disent_core.lineage.evaluation import problems_of
from disent_core.lineage.evaluation_inputs import Scopes, tasks_of
from disent_core.lineage.workspace import UTTERANCES, Workspace
from disent_core.mteb_bridge.encoder import DisentEncoder, Spoken
from disent_core.mteb_bridge.tasks import columns, local, own_tasks, task_name
from disent_core.registry import nearest
from disent_core.storage.tables import SCHEMAS, read_table

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.results import TaskResult

# pyright: reportMissingImports=false
# mteb is an extra.


log = logging.getLogger(__name__)

TATOEBA, STS17 = "Tatoeba", "STS17"
MASSIVE = {"MassiveIntentClassification": "intent", "MassiveScenarioClassification": "domain"}
"""Task -> column of `utterances` with the label."""
SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_TOLERANCE = 0.005


def pair_tasks(problems: Iterable[Problem]) -> "tuple[list[AbsTask], list[Problem]]":
    """Return Tatoeba and STS17 from problems of `tatoeba_retrieval` and `sts`, and the remaining problems."""
    from datasets import Dataset, DatasetDict

    by_task: dict[str, dict[str, tuple[Any, Spoken]]] = {TATOEBA: {}, STS17: {}}
    others: list[Problem] = []
    for problem in problems:
        name, roles = _official(problem)
        directions = {"-".join(map(language_code, code.split("-"))): code for code in _of_mteb(name)[0]} if name else {}
        subset = directions.get(problem.evaluated_on)
        if name is None or subset is None or subset in by_task[name]:
            others.append(problem)
            continue
        sides = [problem.texts[role] for role in roles]
        table = {"sentence1": list(sides[0].texts or ()), "sentence2": list(sides[1].texts or ())}
        if isinstance(problem, CorrelationProblem):
            table["score"] = problem.gold.tolist()
        if _is_official(name, subset, "test", [text for side in ("sentence1", "sentence2") for text in table[side]]):
            by_task[name][subset] = DatasetDict({"test": Dataset.from_dict(table)}), columns(*sides)
        else:
            others.append(problem)
    return [_local(name, subsets) for name, subsets in by_task.items() if subsets], others


def massive_tasks(utterances: Mapping[str, tuple[str, pa.Table]]) -> "list[AbsTask]":
    """Return the tasks of classifying intents and scenarios.

    `utterances` has language and rows by locale, as named by mteb's subsets or MASSIVE (`de`, `de-DE`, `zh-CN`).
    """
    from datasets import Dataset, DatasetDict

    by_task: dict[str, dict[str, tuple[Any, Spoken]]] = {name: {} for name in MASSIVE}
    for name, label in MASSIVE.items():
        subsets, _ = _of_mteb(name)
        for locale, (language, rows) in utterances.items():
            subset = next((code for code in (locale, locale.partition("-")[0]) if code in subsets), None)
            parts = {theirs: _labelled(rows, ours, label) for ours, theirs in SPLITS.items()}
            if subset and all(_is_official(name, subset, part, data["text"]) for part, data in parts.items()):
                spoken = columns(*(Texts.of(language, data["text"]) for data in parts.values()))
                splits = DatasetDict({part: Dataset.from_dict(data) for part, data in parts.items()})
                by_task[name][subset] = splits, spoken
    return [_local(name, subsets, eval_splits=["test"]) for name, subsets in by_task.items() if subsets]


def _local(name: str, subsets: Mapping[str, tuple[Any, Spoken]], **chosen: Any) -> "AbsTask":
    import mteb

    task = mteb.get_task(name, hf_subsets=list(subsets), **chosen)
    data, spoken = ({subset: value[place] for subset, value in subsets.items()} for place in (0, 1))
    return local(task, data, spoken)


def _official(problem: Problem) -> tuple[str | None, tuple[str, str]]:
    """Return the official task that a problem may belong to, and the roles of its two text columns."""
    if problem.task == "tatoeba_retrieval" and type(problem) is RetrievalProblem:
        return (TATOEBA if problem.settings.get("hubness") is None else None), ("query", "pool")
    return (STS17 if problem.task == "sts" and type(problem) is CorrelationProblem else None), ("source", "target")


@cache
def _of_mteb(name: str) -> tuple[Sequence[str], Any]:
    """Return the subsets of an official task, and mteb's statistics of its texts."""
    import mteb

    metadata = mteb.get_task(name).metadata
    return metadata.hf_subsets, metadata.descriptive_stats


def _labelled(rows: pa.Table, split: str, label: str) -> dict[str, list[str]]:
    of_split = rows.filter(pc.equal(rows["split"], split))
    return {"text": of_split["text"].to_pylist(), "label": [value or "" for value in of_split[label].to_pylist()]}


def _is_official(name: str, subset: str, split: str, texts: Sequence[str]) -> bool:
    """Return whether the texts of a subset may be the official ones."""
    samples, characters = official_size(name, subset, split)
    total = sum(map(len, texts))
    if len(texts) == samples and abs(total - characters) <= samples + _TOLERANCE * characters:
        return True
    log.info("%s %s: %d texts, %d characters; officially %d, %d", name, subset, len(texts), total, samples, characters)
    return False


def official_size(name: str, subset: str, split: str) -> tuple[int, int]:
    """Return mteb's numbers of texts and characters in a split of a subset; for pairs, those of both sides."""
    statistics = _of_mteb(name)[1][split]["hf_subset_descriptive_stats"][subset]
    if "text_statistics" in statistics:
        return statistics["num_samples"], statistics["text_statistics"]["total_text_length"]
    return statistics["num_samples"] * 2, statistics["number_of_characters"]


OFFICIAL = {TATOEBA: "tatoeba_retrieval", STS17: "sts", **dict.fromkeys(MASSIVE, "")}
"""Official task -> task of disent that has its texts."""


def local_tasks(workspace: Workspace, languages: Collection[str] = (), names: Sequence[str] = ()) -> "list[AbsTask]":
    """Return tasks of mteb with data from the tables of a run: official ones, then those of disent.

    Keep only data whose languages are all in `languages`, and tasks whose mteb name is in `names`; empty: all.
    """
    config = workspace.config
    spoken = set(languages or config.languages)
    known = {task_name(task.name): task for task in tasks_of(config)}
    if unknown := [name for name in names if name not in known and name not in OFFICIAL]:
        choices = [*OFFICIAL, *known]
        raise ValueError(f"unknown task {unknown[0]!r}{nearest(unknown[0], choices)}; choose from {', '.join(choices)}")
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
    """Return language and utterances by locale, from the first corpus in MASSIVE's format."""
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
    """Measure one embedding on each task in turn, reusing unchanged results in the folder.

    Tasks that are not for the embedding are left out, as `DisentLanguageLeakage` is for the language embedding. The
    folder has mteb's result files: `ResultCache(folder)` loads them.
    """
    import mteb

    cache = mteb.ResultCache(folder)
    for task in tasks:
        is_for = getattr(task.metadata, "is_for", None)  # official tasks on mteb's own data have none
        if is_for is not None and not is_for(encoder.embedding):
            continue
        # mteb does not check that the data are unchanged if results have all subsets.
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
