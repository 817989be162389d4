"""Official tasks of mteb on local files: Tatoeba, STS17 and the classification of MASSIVE.

A task has its official name only if the texts are the official ones as far as mteb's own statistics tell: as many
texts, and as many characters to one a text and half a percent (mteb's copies keep line feeds, and are not normalised).
So sample corpora, limited corpora and other splits never appear under an official name.
"""

# pyright: reportMissingImports=false
# mteb is an extra.

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.corpora.languages import language_code
from disent_core.evaluation.contract import Problem, Texts
from disent_core.evaluation.tasks.retrieval_problem import RetrievalProblem
from disent_core.evaluation.tasks.sts import CorrelationProblem
from disent_core.mteb_bridge.encoder import Spoken
from disent_core.mteb_bridge.tasks import columns, local

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

log = logging.getLogger(__name__)

TATOEBA, STS17 = "Tatoeba", "STS17"
MASSIVE = {"MassiveIntentClassification": "intent", "MassiveScenarioClassification": "domain"}
"""Task -> column of `utterances` with the label."""
SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_TOLERANCE = 0.005


def pair_tasks(problems: Iterable[Problem]) -> "tuple[list[AbsTask], list[Problem]]":
    """Return Tatoeba and STS17 from problems of `tatoeba_retrieval` and `sts`, and the problems that are neither."""
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
    """Return the classification of intents and scenarios.

    `utterances` has language and rows by locale as mteb's subsets or MASSIVE name it (`de`, `de-DE`, `zh-CN`).
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
    """Return the official task that a problem may belong to, and the roles of its two columns."""
    if problem.task == "tatoeba_retrieval" and type(problem) is RetrievalProblem:
        return (TATOEBA if problem.settings.get("hubness") is None else None), ("query", "pool")
    return (STS17 if problem.task == "sts" and type(problem) is CorrelationProblem else None), ("source", "target")


@cache
def _of_mteb(name: str) -> tuple[Sequence[str], Any]:
    """Return the subsets of an official task, and the statistics of its texts that mteb comes with."""
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
    """Return texts and characters of a split of a subset by the statistics of mteb, for pairs those of both sides."""
    statistics = _of_mteb(name)[1][split]["hf_subset_descriptive_stats"][subset]
    if "text_statistics" in statistics:
        return statistics["num_samples"], statistics["text_statistics"]["total_text_length"]
    return statistics["num_samples"] * 2, statistics["number_of_characters"]
