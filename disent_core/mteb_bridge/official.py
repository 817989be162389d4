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
from disent_core.mteb_bridge.languages import Spoken
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
    """Tatoeba and STS17 from problems of `tatoeba_retrieval` and `sts`, and the problems that are neither."""
    from datasets import Dataset, DatasetDict

    found: dict[str, dict[str, tuple[Any, Spoken]]] = {TATOEBA: {}, STS17: {}}
    others: list[Problem] = []
    for problem in problems:
        name, roles = _official(problem)
        subset = _subsets(name).get(problem.evaluated_on) if name else None
        if name is None or subset is None or subset in found[name]:
            others.append(problem)
            continue
        sides = [problem.texts[role] for role in roles]
        table = {"sentence1": list(sides[0].texts or ()), "sentence2": list(sides[1].texts or ())}
        if isinstance(problem, CorrelationProblem):
            table["score"] = problem.gold.tolist()
        if _is_official(name, subset, "test", [text for side in ("sentence1", "sentence2") for text in table[side]]):
            found[name][subset] = DatasetDict({"test": Dataset.from_dict(table)}), columns(*sides)
        else:
            others.append(problem)
    return [_local(name, subsets) for name, subsets in found.items() if subsets], others


def massive_tasks(utterances: Mapping[str, tuple[str, pa.Table]]) -> "list[AbsTask]":
    """The classification of intents and scenarios.

    Args:
        utterances: locale as mteb's subsets or MASSIVE name it (`de`, `de-DE`, `zh-CN`) -> language here, and rows.
    """
    from datasets import Dataset, DatasetDict

    found: dict[str, dict[str, tuple[Any, Spoken]]] = {name: {} for name in MASSIVE}
    for name, label in MASSIVE.items():
        subsets = _official_subsets(name)
        for locale, (language, rows) in utterances.items():
            subset = next((one for one in (locale, locale.partition("-")[0]) if one in subsets), None)
            parts = {theirs: _labelled(rows, ours, label) for ours, theirs in SPLITS.items()}
            if subset is None or not all(
                _is_official(name, subset, part, data["text"]) for part, data in parts.items()
            ):
                continue
            spoken = columns(*(Texts.of(language, data["text"]) for data in parts.values()))
            found[name][subset] = DatasetDict({part: Dataset.from_dict(data) for part, data in parts.items()}), spoken
    return [_local(name, subsets, eval_splits=["test"]) for name, subsets in found.items() if subsets]


def _local(name: str, subsets: Mapping[str, tuple[Any, Spoken]], **chosen: Any) -> "AbsTask":
    import mteb

    task = mteb.get_task(name, hf_subsets=list(subsets), **chosen)
    data, spoken = ({subset: value[place] for subset, value in subsets.items()} for place in (0, 1))
    return local(task, data, spoken)


def _official(problem: Problem) -> tuple[str | None, tuple[str, str]]:
    """The official task that a problem may belong to, and the roles of its two columns."""
    if problem.task == "tatoeba_retrieval" and type(problem) is RetrievalProblem:
        return (TATOEBA if problem.settings.get("hubness") is None else None), ("query", "pool")
    return (STS17 if problem.task == "sts" and type(problem) is CorrelationProblem else None), ("source", "target")


@cache
def _subsets(name: str) -> dict[str, str]:
    """Direction as disent names it -> subset: `de-en` -> `deu-eng` of Tatoeba."""
    return {"-".join(map(language_code, subset.split("-"))): subset for subset in _official_subsets(name)}


@cache
def _official_subsets(name: str) -> Sequence[str]:
    import mteb

    return mteb.get_task(name).metadata.hf_subsets


def _labelled(rows: pa.Table, split: str, label: str) -> dict[str, list[str]]:
    of_split = rows.filter(pc.equal(rows["split"], split))
    return {"text": of_split["text"].to_pylist(), "label": [value or "" for value in of_split[label].to_pylist()]}


def _is_official(name: str, subset: str, split: str, texts: Sequence[str]) -> bool:
    """Whether the texts of a subset may be the official ones."""
    samples, characters = official_size(name, subset, split)
    found = sum(map(len, texts))
    if len(texts) == samples and abs(found - characters) <= samples + _TOLERANCE * characters:
        return True
    log.info("%s %s: %d texts, %d characters; officially %d, %d", name, subset, len(texts), found, samples, characters)
    return False


def official_size(name: str, subset: str, split: str) -> tuple[int, int]:
    """Texts and characters of a split of a subset, by the statistics that mteb comes with; both sides of pairs."""
    told = _statistics(name)[split]["hf_subset_descriptive_stats"][subset]
    pairs = "text_statistics" not in told
    total = told["number_of_characters"] if pairs else told["text_statistics"]["total_text_length"]
    return told["num_samples"] * (2 if pairs else 1), total


@cache
def _statistics(name: str) -> Any:
    import mteb

    return mteb.get_task(name).metadata.descriptive_stats
