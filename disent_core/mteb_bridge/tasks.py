"""Present tasks of disent as tasks of mteb, with their data.

A problem of a task becomes a subset, `CORPUS:en-de`, of the mteb task with its form: retrieval, correlation, or
classification. The metrics correspond: `hit_rate_at_1` is `accuracy_at_1`, `cosine_spearman` is `spearman`, and
the classifier is our probe, so `accuracy` is `accuracy`. The revision of the data is a fingerprint of all texts and
labels, so mteb measures again what has changed.
"""

# pyright: reportMissingImports=false
# mteb is an extra.

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from disent_core.corpora.languages import language_code
from disent_core.evaluation.contract import Problem, Texts
from disent_core.evaluation.mteb_results import PREFIX
from disent_core.evaluation.tasks.probes import PENALTY, ProbeProblem
from disent_core.evaluation.tasks.retrieval_problem import RetrievalProblem
from disent_core.evaluation.tasks.sts import CorrelationProblem
from disent_core.mteb_bridge.encoder import Spoken
from disent_core.storage.tables import fingerprint

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask


@dataclass(frozen=True)
class Form:
    """How problems of one class become a task of mteb: `data` is that of a subset by split, `spoken` its languages.

    The right answers (`gold`) are part of the fingerprint of the data.
    """

    base: Literal["AbsTaskRetrieval", "AbsTaskSTS", "AbsTaskClassification"]
    main_score: str
    data: Callable[[Any, str], Any]
    spoken: Callable[[Any], Spoken]
    gold: Callable[[Any], object]


def own_tasks(problems: Iterable[Problem]) -> "list[AbsTask]":
    """Return the problems as tasks of mteb, one per task of disent.

    There are none for problems of other forms (nearest neighbours, mining, tagging), with corrections for hubs, with
    skipped candidates, or with the same corpus and direction as an earlier problem.
    """
    by_task: dict[str, dict[str, Problem]] = {}
    for problem in problems:
        is_left_out = problem.settings.get("hubness") is not None or getattr(problem, "skip", None) is not None
        if type(problem) in FORMS and not is_left_out:
            by_task.setdefault(problem.task, {}).setdefault(f"{problem.dataset}:{problem.evaluated_on}", problem)
    return [_task(name, subsets) for name, subsets in by_task.items()]


def task_name(name: str) -> str:
    """Return the mteb name of a task of disent: `template_retrieval` -> `DisentTemplateRetrieval`."""
    return PREFIX + "".join(word.capitalize() for word in name.split("_"))


def local(
    task: "AbsTask", data: Mapping[str, Any], spoken: Mapping[str, Spoken], embeddings: Collection[str] | None = None
) -> "AbsTask":
    """Set the data of a task of mteb by subset, so that mteb downloads nothing.

    Its metadata get the languages of the texts, and the names of the embeddings that the task is for (None: all).
    """
    metadata = _metadata()(**task.metadata.model_dump())
    metadata._spoken, metadata._embeddings = dict(spoken), embeddings
    task.metadata, task.dataset, task.data_loaded, task.hf_subsets = metadata, dict(data), True, list(data)
    return task


@cache
def _metadata() -> Any:
    from mteb.abstasks.task_metadata import TaskMetadata
    from pydantic import PrivateAttr

    class LocalMetadata(TaskMetadata):
        """Metadata that mteb passes to a model with the texts of a task, extended by the language of each text."""

        _spoken: dict[str, Spoken] = PrivateAttr(default_factory=dict)
        _embeddings: Collection[str] | None = PrivateAttr(default=None)

        @property
        def spoken(self) -> dict[str, Spoken]:
            return self._spoken

        def is_for(self, embedding: str) -> bool:
            return self._embeddings is None or embedding in self._embeddings

    return LocalMetadata


def _task(name: str, subsets: Mapping[str, Problem]) -> "AbsTask":
    from mteb import abstasks
    from mteb.abstasks.task_metadata import TaskMetadata

    first = next(iter(subsets.values()))
    form, split = FORMS[type(first)], str(first.settings.get("split", "test"))
    content = [
        (subset, [{role: texts.address for role, texts in problem.texts.items()}, form.gold(problem)])
        for subset, problem in subsets.items()
    ]
    metadata = TaskMetadata(
        name=task_name(name),
        description=f"The task {name} of disent on local files; docs/tasks.md says what it measures.",
        dataset={"path": f"disent/{name}", "revision": fingerprint(content)},
        type=form.base.removeprefix("AbsTask"),  # pyright: ignore[reportArgumentType]
        category="t2c" if form.base == "AbsTaskClassification" else "t2t",
        modalities=["text"],
        eval_splits=[split],
        eval_langs={subset: _scripts(problem) for subset, problem in subsets.items()},
        main_score=form.main_score,
        annotations_creators="derived",
        sample_creation="created",
    )
    attributes = {"metadata": metadata} | (_probe() if form.base == "AbsTaskClassification" else {})
    task: Any = type(metadata.name, (getattr(abstasks, form.base),), attributes)()
    data = {subset: form.data(problem, split) for subset, problem in subsets.items()}
    spoken = {subset: form.spoken(problem) for subset, problem in subsets.items()}
    return local(task, data, spoken, first.embeddings)


def _probe() -> dict[str, Any]:
    """Return the options that turn mteb's classification into our probe: all training samples of each label, once."""
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probe = make_pipeline(StandardScaler(), RidgeClassifier(alpha=PENALTY))
    return {"evaluator_model": probe, "samples_per_label": 1 << 30, "n_experiments": 1}


def _scripts(problem: Problem) -> list[str]:
    """Return mteb's codes for the languages of a problem, without a region or script of ours (`zh-TW`)."""
    known = _codes()
    languages = [texts.language for texts in problem.texts.values()]
    scripts = (known.get(language) or known.get(language.partition("-")[0], _UNKNOWN) for language in languages)
    return list(dict.fromkeys(scripts))


@cache
def _codes() -> dict[str, str]:
    """Map languages as disent names them to mteb's codes with script, `de` -> `deu-Latn`, the first of several."""
    import mteb

    script_of_language: dict[str, str] = {}
    for name in ("MassiveIntentClassification", "Tatoeba", "STS17"):
        for scripts in mteb.get_task(name).metadata.hf_subsets_to_langscripts.values():
            for script in scripts:
                script_of_language.setdefault(language_code(script.partition("-")[0]), script)
    return script_of_language


_UNKNOWN = "und-Latn"  # for a language without a code in mteb, for display only


def _texts(texts: Texts) -> list[str]:
    if texts.texts is None:
        raise ValueError("the problem has no texts, only their addresses; give `Texts` its texts")
    return list(texts.texts)


# --- retrieval --------------------------------------------------------------------------------------------


def _retrieval(problem: RetrievalProblem, split: str) -> dict[str, Any]:
    """Return queries q0, q1, ... and candidates d0, d1, ..., since corpus ids may occur on both sides."""
    from datasets import Dataset

    queries, pool = (
        Dataset.from_dict({"id": [f"{letter}{row}" for row in range(len(texts))], "text": _texts(texts)})
        for letter, texts in (("q", problem.texts["query"]), ("d", problem.texts["pool"]))
    )
    right = {
        f"q{query}": {f"d{candidate}": 1 for candidate in row if candidate >= 0}
        for query, row in enumerate(problem.gold.tolist())
    }
    return {split: {"queries": queries, "corpus": pool, "relevant_docs": right, "top_ranked": None}}


def _sides(problem: RetrievalProblem) -> Spoken:
    return Spoken({"query": problem.texts["query"].language, "document": problem.texts["pool"].language})


# --- correlation ------------------------------------------------------------------------------------------


def _pairs(problem: CorrelationProblem, split: str) -> Any:
    from datasets import Dataset, DatasetDict

    source, target = (_texts(problem.texts[role]) for role in ("source", "target"))
    rows = {"sentence1": source, "sentence2": target, "score": problem.gold.tolist()}
    return DatasetDict({split: Dataset.from_dict(rows)})


def columns(*sides: Texts) -> Spoken:
    """Return the languages of lists of texts, each list in one language."""
    return Spoken(columns=[(_texts(side), [side.language] * len(side)) for side in sides])


# --- classification ---------------------------------------------------------------------------------------


def _labelled(problem: ProbeProblem, split: str) -> Any:
    from datasets import Dataset, DatasetDict

    rows = {part: {"text": texts, "label": labels} for part, texts, _, labels in _parts(problem)}
    return DatasetDict({split: Dataset.from_dict(rows["test"]), "train": Dataset.from_dict(rows["train"])})


def _parts(problem: ProbeProblem) -> Iterator[tuple[str, list[str], list[str], list[int]]]:
    """Yield texts, languages and labels of the examples that the probe learns from, then of those it predicts.

    Labels are numbered in the order of their names: with two labels mteb also measures the precision of label 1.
    """
    names = np.unique(np.concatenate(list(problem.labels.values())))
    for part in ("train", "test"):
        roles = [role for role in problem.texts if role.startswith(f"{part} ")]
        texts = [text for role in roles for text in _texts(problem.texts[role])]
        languages = [problem.texts[role].language for role in roles for _ in range(len(problem.texts[role]))]
        labels = np.searchsorted(names, np.concatenate([problem.labels[role] for role in roles]))
        yield part, texts, languages, labels.tolist()


FORMS: Mapping[type, Form] = {
    RetrievalProblem: Form("AbsTaskRetrieval", "ndcg_at_10", _retrieval, _sides, lambda problem: problem.gold.tolist()),
    CorrelationProblem: Form(
        "AbsTaskSTS",
        "cosine_spearman",
        _pairs,
        lambda problem: columns(problem.texts["source"], problem.texts["target"]),
        lambda problem: problem.gold.tolist(),
    ),
    ProbeProblem: Form(
        "AbsTaskClassification",
        "accuracy",
        _labelled,
        lambda problem: Spoken(columns=[(texts, languages) for _, texts, languages, _ in _parts(problem)]),
        lambda problem: {role: labels.tolist() for role, labels in problem.labels.items()},
    ),
}
