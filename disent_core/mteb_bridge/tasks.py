"""Tasks of disent as tasks of mteb, with their data.

A problem of a task becomes a subset, `CORPUS:en-de`, of the task of mteb that has its form: retrieval, correlation, or
classification. Their metrics have a twin: `hit_rate_at_1` is `accuracy_at_1`, `cosine_spearman` is `spearman`, and
the classifier is our probe, so `accuracy` is `accuracy`. The revision of the data is a fingerprint of all texts and
labels, so mteb measures again what has changed.
"""

# pyright: reportMissingImports=false
# mteb is an extra.

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from disent_core.evaluation.contract import Problem, Texts
from disent_core.evaluation.metrics.linear_probe import PENALTY, ProbeProblem
from disent_core.evaluation.mteb_results import PREFIX
from disent_core.evaluation.tasks.retrieval_problem import RetrievalProblem
from disent_core.evaluation.tasks.sts import CorrelationProblem
from disent_core.mteb_bridge.languages import Spoken, script_of
from disent_core.storage.tables import fingerprint

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

EVERY = 1 << 30
"""Training samples of each label: all."""


@dataclass(frozen=True)
class Form:
    """How problems of one kind become a task of mteb.

    Attributes:
        kind: type of the task, as mteb names it.
        main_score: its main score.
        data: data of a split of a subset, from a problem.
        spoken: languages of its texts.
        gold: what is right, for the fingerprint.
    """

    kind: str
    main_score: str
    data: Callable[[Any], Any]
    spoken: Callable[[Any], Spoken]
    gold: Callable[[Any], object]


def own_tasks(problems: Iterable[Problem]) -> "list[AbsTask]":
    """The problems as tasks of mteb, one for each task of disent.

    Problems of other forms (nearest neighbours, mining, tagging), corrections for hubs, candidates that are skipped and
    further problems with the same corpus and direction have none.
    """
    by_task: dict[str, dict[str, Problem]] = {}
    for problem in problems:
        if _form(problem) is not None and problem.settings.get("hubness") is None and not _skips(problem):
            by_task.setdefault(problem.task, {}).setdefault(f"{problem.dataset}:{problem.evaluated_on}", problem)
    return [_task(name, subsets) for name, subsets in by_task.items()]


def task_name(name: str) -> str:
    """`template_retrieval` -> `DisentTemplateRetrieval`."""
    return PREFIX + "".join(word.capitalize() for word in name.split("_"))


def local(
    task: "AbsTask", data: Mapping[str, Any], spoken: Mapping[str, Spoken], embeddings: Collection[str] | None = None
) -> "AbsTask":
    """Give a task its data, so that mteb downloads nothing, and its metadata the languages of the texts.

    Args:
        task: of mteb.
        data: by subset.
        spoken: by subset.
        embeddings: names of those that the task is for; None: all.
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
        """Metadata that mteb passes to a model with the texts of a task: here also which language a text has."""

        _spoken: dict[str, Spoken] = PrivateAttr(default_factory=dict)
        _embeddings: Collection[str] | None = PrivateAttr(default=None)

        @property
        def spoken(self) -> dict[str, Spoken]:
            """Languages of the texts, by subset."""
            return self._spoken

        def is_for(self, embedding: str) -> bool:
            """Whether the embedding is to be measured."""
            return self._embeddings is None or embedding in self._embeddings

    return LocalMetadata


def _task(name: str, subsets: Mapping[str, Problem]) -> "AbsTask":
    """One task of mteb whose subsets are these problems."""
    from mteb.abstasks.task_metadata import TaskMetadata

    first = next(iter(subsets.values()))
    form, split = _form(first), str(first.settings.get("split", "test"))
    assert form is not None  # `own_tasks` has left out the others
    revision = fingerprint([(subset, _content(form, problem)) for subset, problem in subsets.items()])
    metadata = TaskMetadata(
        name=task_name(name),
        description=f"The task {name} of disent on local files; docs/tasks.md says what it measures.",
        dataset={"path": f"disent/{name}", "revision": revision},
        type=form.kind,  # pyright: ignore[reportArgumentType]
        category="t2c" if form.kind == "Classification" else "t2t",
        modalities=["text"],
        eval_splits=[split],
        eval_langs={subset: _scripts(problem) for subset, problem in subsets.items()},
        main_score=form.main_score,
        annotations_creators="derived",
        sample_creation="created",
    )
    task: Any = type(metadata.name, (_base(form.kind),), {"metadata": metadata})()
    data = {subset: _of_split(form, split, problem) for subset, problem in subsets.items()}
    spoken = {subset: form.spoken(problem) for subset, problem in subsets.items()}
    return local(task, data, spoken, first.embeddings)


def _of_split(form: Form, split: str, problem: Problem) -> Any:
    """The data of a subset by split; a classification has its training texts beside the evaluated ones."""
    from datasets import DatasetDict

    data = form.data(problem)
    if form.kind == "Retrieval":
        return {split: data}
    return DatasetDict(
        {split: data["test"], "train": data["train"]} if form.kind == "Classification" else {split: data}
    )


def _base(kind: str) -> type:
    from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval, AbsTaskSTS

    if kind != "Classification":
        return {"Retrieval": AbsTaskRetrieval, "STS": AbsTaskSTS}[kind]
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probe = make_pipeline(StandardScaler(), RidgeClassifier(alpha=PENALTY))
    return type(
        "Probe", (AbsTaskClassification,), {"evaluator_model": probe, "samples_per_label": EVERY, "n_experiments": 1}
    )


def _form(problem: Problem) -> Form | None:
    return next((form for kind, form in _FORMS.items() if type(problem) is kind), None)


def _skips(problem: Problem) -> bool:
    return isinstance(problem, RetrievalProblem) and problem.skip is not None


def _scripts(problem: Problem) -> list[str]:
    return list(dict.fromkeys(script_of(texts.language) for texts in problem.texts.values()))


def _content(form: Form, problem: Problem) -> list[object]:
    """What a problem consists of, for the revision."""
    return [{role: texts.address for role, texts in problem.texts.items()}, form.gold(problem)]


def _texts(texts: Texts) -> list[str]:
    if texts.texts is None:
        raise ValueError("the problem has no texts, only their addresses; give `Texts` its texts")
    return list(texts.texts)


# --- retrieval --------------------------------------------------------------------------------------------


def _retrieval(problem: RetrievalProblem) -> dict[str, Any]:
    """Queries q0, q1, ... and candidates d0, d1, ...: ids of corpora may occur on both sides."""
    queries, pool = (_table(letter, problem.texts[role]) for letter, role in (("q", "query"), ("d", "pool")))
    right = {
        f"q{query}": {f"d{candidate}": 1 for candidate in row if candidate >= 0}
        for query, row in enumerate(problem.gold.tolist())
    }
    return {"queries": queries, "corpus": pool, "relevant_docs": right, "top_ranked": None}


def _table(letter: str, texts: Texts) -> Any:
    from datasets import Dataset

    return Dataset.from_dict({"id": [f"{letter}{row}" for row in range(len(texts))], "text": _texts(texts)})


def _sides(problem: RetrievalProblem) -> Spoken:
    return Spoken({"query": problem.texts["query"].language, "document": problem.texts["pool"].language})


# --- correlation ------------------------------------------------------------------------------------------


def _pairs(problem: CorrelationProblem) -> Any:
    from datasets import Dataset

    source, target = (_texts(problem.texts[role]) for role in ("source", "target"))
    return Dataset.from_dict({"sentence1": source, "sentence2": target, "score": problem.gold.tolist()})


def columns(*sides: Texts) -> Spoken:
    """Lists of texts of one language each."""
    return Spoken(columns=[(_texts(side), [side.language] * len(side)) for side in sides])


# --- classification ---------------------------------------------------------------------------------------


def _labelled(problem: ProbeProblem) -> dict[str, Any]:
    from datasets import Dataset

    return {part: Dataset.from_dict({"text": texts, "label": labels}) for part, texts, _, labels in _parts(problem)}


def _probed(problem: ProbeProblem) -> Spoken:
    return Spoken(columns=[(texts, languages) for _, texts, languages, _ in _parts(problem)])


def _parts(problem: ProbeProblem) -> Iterator[tuple[str, list[str], list[str], list[int]]]:
    """Texts, languages and labels of what the probe learns on and of what it predicts.

    Labels are numbers in the order of their names: of two labels mteb also measures the precision of 1.
    """
    names = np.unique(np.concatenate(list(problem.labels.values())))
    for part in ("train", "test"):
        roles = [role for role in problem.texts if role.startswith(f"{part} ")]
        texts = [text for role in roles for text in _texts(problem.texts[role])]
        languages = [problem.texts[role].language for role in roles for _ in range(len(problem.texts[role]))]
        labels = np.searchsorted(names, np.concatenate([problem.labels[role] for role in roles]))
        yield part, texts, languages, labels.tolist()


_FORMS: Mapping[type, Form] = {
    RetrievalProblem: Form("Retrieval", "ndcg_at_10", _retrieval, _sides, lambda problem: problem.gold.tolist()),
    CorrelationProblem: Form(
        "STS",
        "cosine_spearman",
        _pairs,
        lambda problem: columns(problem.texts["source"], problem.texts["target"]),
        lambda problem: problem.gold.tolist(),
    ),
    ProbeProblem: Form(
        "Classification",
        "accuracy",
        _labelled,
        _probed,
        lambda problem: {role: labels.tolist() for role, labels in problem.labels.items()},
    ),
}
