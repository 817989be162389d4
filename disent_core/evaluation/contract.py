"""Define the interface between methods and tasks: a task asks for texts by role and scores the resulting matrices.

A task never sees a method, and a method never sees a task. Any method that embeds a problem's texts can be scored on
it, so methods x tasks is a loop (`runner.evaluate`), not a list of combinations.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from annotated_types import Ge, Le
from jaxtyping import Float32, Int

from disent_core.corpora.contract import KINDS, Kind, Parallel
from disent_core.errors import ConfigError, commas
from disent_core.evaluation.measurement import Measurement
from disent_core.evaluation.metrics.intervals import Intervals
from disent_core.registry import find, is_import
from disent_core.settings import DISTINCT, Count, Seed, Settings
from disent_core.storage.names import safe_part
from disent_core.storage.tables import fingerprint
from disent_core.text import text_keys

TASKS: Mapping[str, str] = {
    "crosslingual_retrieval": "disent_core.evaluation.tasks.translation_retrieval:CROSSLINGUAL",
    "template_retrieval": "disent_core.evaluation.tasks.template_retrieval",
    "multi_target_template_retrieval": "disent_core.evaluation.tasks.template_retrieval:MULTI_TARGET",
    "same_template_retrieval": "disent_core.evaluation.tasks.template_retrieval:SAME_TEMPLATE",
    "intent_knn": "disent_core.evaluation.tasks.probes:INTENT_KNN",
    "slot_labelling": "disent_core.evaluation.tasks.slot_labelling",
    "tatoeba_retrieval": "disent_core.evaluation.tasks.translation_retrieval:TATOEBA",
    "heldout_retrieval": "disent_core.evaluation.tasks.translation_retrieval:HELDOUT",
    "sts": "disent_core.evaluation.tasks.sts",
    "qe": "disent_core.evaluation.tasks.sts:QE",
    "code_switched_retrieval": "disent_core.evaluation.tasks.translation_retrieval:CODE_SWITCHED",
    "bitext_mining": "disent_core.evaluation.tasks.bitext_mining",
    "ner": "disent_core.evaluation.tasks.slot_labelling:NER",
    "language_identification": "disent_core.evaluation.tasks.probes:IDENTIFICATION",
    "language_leakage": "disent_core.evaluation.tasks.probes:LEAKAGE",
    "intent_probe": "disent_core.evaluation.tasks.probes:INTENT",
    "clustering": "disent_core.evaluation.tasks.clustering",
    "mixed_pool_retrieval": "disent_core.evaluation.tasks.mixed_pool_retrieval",
    "own_language_neighbours": "disent_core.evaluation.tasks.mixed_pool_retrieval:OWN_LANGUAGE",
    "language_pool_retrieval": "disent_core.evaluation.tasks.mixed_pool_retrieval:LANGUAGE_POOL",
    "language_leakage_knn": "disent_core.evaluation.tasks.probes:LEAKAGE_KNN",
    "language_leakage_mlp": "disent_core.evaluation.tasks.probes:LEAKAGE_MLP",
    "value_retrieval": "disent_core.evaluation.tasks.monolingual_retrieval:VALUES",
    "paraphrase_retrieval": "disent_core.evaluation.tasks.monolingual_retrieval:PARAPHRASES",
}
"""Module of each task, or `module:ATTRIBUTE`, by name; imported when the task is requested."""

READABLE: Mapping[str, str] = {
    "utterances": "corpora",
    "masked_utterances": "targets",
    "template_pairs": "targets",
    "negative_pool": "negatives",
    "sentence_pairs": "corpora",
    "code_switched_pairs": "targets",
}
"""Tables that a task may read, and the stage that makes each."""

PAIRED = frozenset({"sentence_pairs", "code_switched_pairs"})
"""Tables with a partition for every language pair; the others have one for every language."""

Ties = Literal["lowest", "worst"]
Hubness = Literal["none", "train_bias", "csls", "dual_softmax"]
SearchBackend = Literal["exact", "hnsw", "ivf"]
"""How to search for nearest neighbours: exactly, or with faiss, which may miss some (`metrics.approximate_search`)."""
Setting = str | int | float | bool | None

TRANSDUCTIVE: tuple[Hubness, ...] = ("csls", "dual_softmax")
"""Corrections with which the answer to a query depends on the other queries."""


def hubness_of(settings: str) -> str:
    """Return the hubness correction in a metric row's settings: `none`, `csls (transductive)`, ..."""
    name = json.loads(settings).get("hubness", "none")
    return f"{name} (transductive)" if name in TRANSDUCTIVE else name


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Settings):
    """How heads are evaluated. Two runs with equal configs give equal numbers.

    Attributes:
        tasks: names of tasks (docs/tasks.md), or your own tasks as `package.module:TASK`.
        split: split of the corpora that queries and candidates come from.
        ties: `lowest`: of equal scores, the lowest index is retrieved, as argmax does; `worst`: a candidate that scores
            as high as the gold one counts as an error.
        equal_text_counts: treat candidates of equal text as one (duplicates leave the pool), so that retrieving a copy
            of the gold text is right. Otherwise ids are strict and a copy counts as an error.
        hubness: corrections for hubs (candidates that are near to every query). Translation retrieval is measured with
            each of them, besides `none`: `train_bias` uses the training queries; `csls` and `dual_softmax` are
            transductive.
        top_k: candidates kept for each query in the rankings.
        intervals: what the intervals of means over seeds, and of their differences, resample: `items` the items, given
            these heads; `seeds_and_items` also the seeds, independently for each method.
        bootstrap_samples: bootstrap samples per interval.
        bootstrap_seed: random seed of the bootstrap.
        template_pool: candidates of template retrieval; with `targets+sources` every distinct source text
            is a candidate too, except for its own query.
        multi_targets: targets per source in multi-target template retrieval.
        multi_target_few: sources with fewer targets are left out (`exclude`) or have fewer gold candidates (`fewer`).
        mining_neighbours: nearest neighbours per sentence that bitext mining uses for the margin of a pair.
        mining_retrieval: `max`: best partners from both sides compete for a sentence; `intersection`: only pairs whose
            sentences are each other's best partner.
        rankings_seeds: seeds whose rankings are kept.
        heldout_search: how the pool of held-out retrieval is searched. `ivf` of faiss (extra `faiss`) is for pools of a
            million sentences. It may miss a translation, which then counts as an error; its search effort is raised
            until it finds 0.95 of the exact ten nearest neighbours of 100 queries.
        unseen: also evaluate trained methods on languages that they were not trained on.
    """

    tasks: tuple[str, ...] = tuple(TASKS)
    split: Literal["dev", "test"] = "test"
    ties: Ties = "lowest"
    equal_text_counts: bool = False
    hubness: Annotated[tuple[Hubness, ...], DISTINCT] = field(default=("none",), repr=False)  # hashed apart
    top_k: Count = 5
    intervals: Intervals = field(default="seeds_and_items", repr=False)  # hashed apart
    bootstrap_samples: Annotated[int, Ge(1), Le(1_000_000)] = 1_000
    bootstrap_seed: Seed = 0
    template_pool: Literal["targets", "targets+sources"] = "targets"
    multi_targets: Count = 5
    multi_target_few: Literal["exclude", "fewer"] = "exclude"
    mining_neighbours: Count = 4
    mining_retrieval: Literal["max", "intersection"] = "max"
    rankings_seeds: Literal["first", "all"] = "first"
    heldout_search: Literal["exact", "ivf"] = field(default="exact", repr=False)  # hashed apart
    unseen: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            names = [task(name).name if is_import(name) or name not in TASKS else name for name in self.tasks]
        except ConfigError as error:
            raise ValueError(f"tasks: {error}") from error
        if not names:
            raise ValueError("tasks must name at least one; leave it out for all")
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"tasks names {commas(repeated)} more than once")
        if "none" not in self.hubness:
            raise ValueError('hubness must have "none" among its corrections: methods are ranked by it')


# --- what a task asks for ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts of one language by key (`text.text_key`), one per row of the requested matrix.

    `texts` has the texts themselves, for methods that run an encoder of their own. Problems with the same
    texts in the same order share one embedding, keyed by `address`.
    """

    language: str
    keys: list[str]
    texts: Sequence[str] | None = None

    @classmethod
    def of(cls, language: str, texts: Sequence[str]) -> "Texts":
        """Make `Texts` from texts, with the key of each."""
        return cls(language, text_keys(texts), texts)

    @cached_property
    def address(self) -> str:
        """Fingerprint of all texts, in order."""
        return fingerprint(self.language, self.keys)

    def take(self, rows: Sequence[int]) -> "Texts":
        """Select texts by row, in that order."""
        texts = None if self.texts is None else [self.texts[row] for row in rows]
        return Texts(self.language, [self.keys[row] for row in rows], texts)

    def then(self, other: "Texts") -> "Texts":
        """Append other texts of the same language."""
        texts = None if self.texts is None or other.texts is None else [*self.texts, *other.texts]
        return Texts(self.language, [*self.keys, *other.keys], texts)

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A task's inputs from one corpus: `tables[table, partition]`, where the partition is a language or a pair.

    For sentence pairs, `languages` are those of source and target, repeated if there is only one. For utterances,
    `parallel` is whether equal ids are translations: for all utterances, for some, or never. If `trains` is false, the
    training split of the sentence pairs is not embedded.
    """

    corpus: str
    languages: tuple[str, ...]
    tables: Mapping[tuple[str, str], pa.Table]
    kind: Kind = "utterances"
    parallel: Parallel = "all"
    trains: bool = True

    @property
    def pair(self) -> str:
        """Partition of the tables of sentence pairs."""
        return "-".join(self.languages)


# --- what a method gives ----------------------------------------------------------------------------------


@runtime_checkable
class LateInteraction(Protocol):
    """An embedding that is not a matrix, with its own similarity of two texts instead of the cosine.

    Both sides of a comparison have the same class.
    """

    def __len__(self) -> int:
        """Return the number of texts."""
        ...

    def take(self, rows: Int[np.ndarray, " rows"]) -> "LateInteraction":
        """Select texts by row, in that order."""
        ...

    def identities(self) -> np.ndarray:
        """Return one value per text, equal for texts whose embeddings are equal to the bit."""
        ...

    def similarity(self, pool: Any) -> Float32[np.ndarray, "queries pool"]:
        """Return the similarity of every text with every text of the pool."""
        ...

    def paired(self, other: Any) -> Float32[np.ndarray, " texts"]:
        """Return the similarity of each text with the other text of the same row."""
        ...


Embedded = np.ndarray | LateInteraction
"""Embedding of texts: a matrix with one row per text, or a late interaction."""


# --- what a task gives ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem(ABC):
    """One evaluation set: the texts of each role, and the pure function that scores their matrices.

    Attributes:
        task: name of the task.
        dataset: name of the corpus.
        evaluated_on: `en-de` has queries in en and the pool in de; `de` is one language.
        texts: by role, for instance `query` and `pool`, or `train` and `test`.
        settings: whatever else distinguishes this problem from others of its task; stored in the metric rows.
        embeddings: names of the embeddings it applies to; None: all embeddings of a method.
        takes_late_interaction: whether `score` takes a `LateInteraction` as well; a class attribute.
    """

    takes_late_interaction: ClassVar[bool] = False

    task: str
    dataset: str
    evaluated_on: str
    texts: Mapping[str, Texts]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    embeddings: tuple[str, ...] | None = None

    @abstractmethod
    def score(self, matrices: Mapping[str, Any]) -> list[Measurement]:
        """Return measurements from one matrix per role, whose rows are the texts of the role in order."""

    def applies_to(self, embedding: str) -> bool:
        return self.embeddings is None or embedding in self.embeddings


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelProblem(ABC):
    """One evaluation set of sentences whose words are to be tagged; other attributes are as in `Problem`.

    Attributes:
        evaluated_on: the language.
        sentences: the words of each sentence.
    """

    task: str
    dataset: str
    evaluated_on: str
    sentences: Sequence[Sequence[str]]
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @abstractmethod
    def score(self, tags: Sequence[Sequence[str]]) -> list[Measurement]:
        """Return measurements from a BIO tag for every word of every sentence."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of evaluation.

    Attributes:
        name: in metrics and leaderboards; for the library's tasks, as in `TASKS`.
        scope: whether its inputs are of a language pair, of one language, of either (`both`), or of all languages of a
            training set, if there are at least three. A corpus of sentence pairs gives inputs of each of its pairs to
            all tasks except those of a set.
        tables: names of the tables it reads, from `READABLE`; of these, a corpus provides those that its kind has.
        problems: function from inputs to problems; none if the corpus has nothing for this task.
        kinds: kinds of corpora that it applies to.
        ranked: embeddings for the leaderboard; a method is ranked by the first of them that it has.
        lower_is_better: applies to every metric of the task.
        code_version: must change with every change that changes results.
    """

    name: str
    scope: Literal["pair", "language", "both", "set"]
    tables: tuple[str, ...]
    problems: Callable[[Inputs, EvaluationConfig], Sequence[Problem | LabelProblem]]
    kinds: tuple[Kind, ...] = ("utterances",)
    ranked: tuple[str, ...] = ("meaning", "sentence")
    lower_is_better: bool = False
    code_version: str = "1"

    def __post_init__(self) -> None:
        safe_part(self.name)
        if unreadable := sorted({*self.tables} - {*READABLE}):
            raise ValueError(f"task {self.name!r} reads tables {commas(unreadable)}; tasks can read {commas(READABLE)}")

    def partitions(self, kind: Kind, languages: Sequence[str]) -> list[tuple[str, str]]:
        """Return the keys of `Inputs.tables` that the task needs for these languages of a corpus of this kind."""
        is_paired = KINDS[kind] == "sentence_pairs"
        parts = ["-".join(languages)] if is_paired else list(dict.fromkeys(languages))
        return [(name, part) for name in self.tables if (name in PAIRED) == is_paired for part in parts]


def task(name: str) -> Task:
    """Return the task of that name, from the library or, as `module` or `module:ATTRIBUTE`, from a user's package."""
    loaded = find("task", name, TASKS, "TASK")
    if not isinstance(loaded, Task):
        remedy = "export an instance of disent_core.evaluation.Task"
        raise ConfigError(f"task {name!r}: this is a {type(loaded).__name__}, not a task; {remedy}")
    if name not in TASKS and loaded.name in TASKS and loaded is not task(loaded.name):
        raise ConfigError(f"task {name!r}: its name {loaded.name!r} is already the name of a built-in task; rename it")
    return loaded
