"""Read result files of mteb (https://github.com/embeddings-benchmark/mteb) as rows; mteb itself is not needed.

A file is `MODEL/REVISION/TASK.json`, or `MODEL/REVISION/experiments/EXPERIMENT/TASK.json` where a model has several
embeddings or settings; `model_meta.json` beside it says which. So are those in the folder of `mteb.ResultCache` and in
the repository `embeddings-benchmark/results`.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from disent_core.corpora.languages import language_code
from disent_core.corpora.lines import read_bytes
from disent_core.errors import TableError, located, quoted

PREFIX = "Disent"
"""Of the names of tasks of mteb that are made from the tasks here: `DisentTemplateRetrieval`."""
OURS = "disent/"
"""Of the names of models of mteb that are heads of disent."""
_META = "model_meta.json"
_AGAIN = "Copy the file again, or run mteb again"


@dataclass(frozen=True)
class Twin:
    """What a task of mteb is called here.

    Attributes:
        task: name of the task that measures the same; that of mteb if there is none.
        dataset: name of its data in published figures.
        metrics: names here of the metrics that are defined alike.
    """

    task: str
    dataset: str
    metrics: Mapping[str, str] = field(default_factory=dict)


_RETRIEVAL = {"hit_rate_at_1": "accuracy_at_1"}
_CORRELATION = {"cosine_pearson": "pearson", "cosine_spearman": "spearman"}
_OF_OURS = {"pearson": "pearson", "spearman": "spearman"}
"""By the model's own similarity, which of a head of disent is our cosine: of two equal cosines one may differ in its
last bit, and a rank with it."""
_PROBE = {"accuracy": "accuracy"}
TWINS: Mapping[str, Twin] = {
    "Tatoeba": Twin("tatoeba_retrieval", "tatoeba", {"accuracy": "accuracy_at_1"}),
    "STS17": Twin("sts", "sts2017", _CORRELATION),
    "MassiveIntentClassification": Twin("MassiveIntentClassification", "massive"),
    "MassiveScenarioClassification": Twin("MassiveScenarioClassification", "massive"),
}
"""Official tasks of mteb that are read. `MassiveIntentClassification` has no twin: its classifier is another one."""


def result_files(folder: Path, also: Collection[str] = ()) -> list[Path]:
    """Result files of the tasks in `TWINS`, of disent's own tasks, and of the tasks `also`, sorted.

    Args:
        folder: of results, or a folder with a folder `results` in it.
        also: further names of tasks.
    """
    inner = folder / "results"
    root = inner if inner.is_dir() else folder
    if not root.is_dir():
        remedy = "Put results of mteb there, or correct [mteb.results] of the configuration"
        raise TableError(located(folder, None, "there is no such folder", remedy))
    wanted = {*TWINS, *also}
    revisions = [revision for model in _folders(root) for revision in _folders(model)]
    folders = [folder for revision in revisions for folder in (revision, *_folders(revision / "experiments"))]
    paths = (path for folder in folders for path in folder.glob("*.json"))
    return sorted(path for path in paths if path.stem in wanted or path.stem.startswith(PREFIX))


def _folders(parent: Path) -> list[Path]:
    return sorted(child for child in parent.iterdir() if child.is_dir()) if parent.is_dir() else []


def read_results(path: Path, source: str) -> list[dict[str, Any]]:
    """Rows of one result file in the schema `mteb_results`, one a number; calibration (`nauc_*`) is left out.

    Args:
        path: of the file.
        source: name of the folder in the configuration.
    """
    result, model = _parsed(path), _model(path)
    if "mteb_dataset_name" in result:
        convert = 'mteb.results.TaskResult.from_disk(Path("FILE")).to_disk(Path("FILE"))'
        raise TableError(located(path, None, "mteb wrote this before version 1.11", f"Convert it: {convert}"))
    name = _text(path, result, "task_name")
    twin = twin_of(name, is_ours=model["model"].startswith(OURS))
    common = {
        "source": source,
        "task": twin.task,
        "mteb_task": name,
        **model,
        "settings": json.dumps({key: result.get(key) for key in ("mteb_version", "dataset_revision")}, sort_keys=True),
        "measured_at": _time(result.get("date")),
    }
    return [
        {
            **common,
            **_place(twin, str(scores["hf_subset"])),
            "split": split,
            "metric": twin.metrics.get(metric, metric),
            "mteb_metric": metric,
            "is_same": metric in twin.metrics,
            "value": value,
        }
        for split, scores in _scores(path, result)
        for metric, value in _numbers(scores)
    ]


def _parsed(path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(read_bytes(path))
        json.dumps(parsed, ensure_ascii=False).encode()  # half a surrogate pair can't be stored
    except (ValueError, RecursionError) as error:
        raise TableError(located(path, None, f"this is no JSON ({error})", _AGAIN)) from error
    if not isinstance(parsed, dict):
        raise TableError(located(path, None, "this is no result of mteb: it is no object", _AGAIN))
    return parsed


def _text(path: Path, parsed: Mapping[str, Any], key: str) -> str:
    value = parsed.get(key)
    if not isinstance(value, str) or not value:
        raise TableError(located(path, None, f"this is no result of mteb: {key} is {quoted(value)}", _AGAIN))
    return value


def _model(path: Path) -> dict[str, Any]:
    """Columns that say which model and embedding a file is of; those of a head of disent as `metrics` has them."""
    parts, experiment = path.parent, ""
    if parts.parent.name == "experiments":
        parts, experiment = parts.parent.parent, parts.name
    meta = _parsed(path.with_name(_META)) if path.with_name(_META).is_file() else {}
    name = meta.get("name") or parts.parent.name.replace("__", "/", 1)
    kwargs, head = (meta.get(key) or {} for key in ("experiment_kwargs", "loader_kwargs"))
    if not isinstance(kwargs, dict) or not isinstance(head, dict):
        problem = "experiment_kwargs and loader_kwargs must be objects"
        raise TableError(located(path.with_name(_META), None, problem, _AGAIN))
    is_ours, seed = str(name).startswith(OURS), kwargs.get("seed")
    return {
        "model": str(name),
        "revision": str(meta.get("revision") or parts.name),
        "experiment": experiment,
        "method": str(head.get("method") or name) if is_ours else str(name),
        "encoder": str(head.get("encoder") or "") if is_ours else "",
        "trained_on": str(head.get("trained_on") or "") if is_ours else "",
        "embedding": str(kwargs.get("embedding") or "sentence") if is_ours else "sentence",
        "seed": seed if is_ours and type(seed) is int and 0 <= seed < 2**63 else None,
    }


def twin_of(name: str, *, is_ours: bool) -> Twin:
    """What a task of mteb is called here; one without a twin keeps its name, for task and data.

    Args:
        name: of the task.
        is_ours: whether the model is a head of disent.
    """
    twin = TWINS.get(name) or (_own_twin(name) if name.startswith(PREFIX) else Twin(name, name))
    has_cosines = is_ours and _CORRELATION.items() <= twin.metrics.items()
    others = {theirs: ours for theirs, ours in twin.metrics.items() if theirs not in _CORRELATION}
    return replace(twin, metrics={**others, **_OF_OURS}) if has_cosines else twin


def _own_twin(name: str) -> Twin:
    words = re.sub("(?<!^)(?=[A-Z])", "_", name.removeprefix(PREFIX)).lower()
    probes = "retrieval" not in words  # what mteb calls accuracy of a retrieval is a recall
    return Twin(words, "", {**_RETRIEVAL, **_CORRELATION, **(_PROBE if probes else {})})


def _place(twin: Twin, subset: str) -> dict[str, str]:
    """Data set and direction of a subset: `deu-eng` of Tatoeba is `de-en`; subsets of our own tasks name both."""
    if not twin.dataset:
        dataset, _, evaluated_on = subset.partition(":")
        return {"dataset": dataset, "evaluated_on": evaluated_on}
    return {"dataset": twin.dataset, "evaluated_on": "-".join(map(_code, subset.split("-")))}


def _code(part: str) -> str:
    try:
        return language_code(part)
    except ValueError:  # "default", a region
        return part


def _scores(path: Path, result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    splits = result.get("scores")
    if not isinstance(splits, dict) or not all(isinstance(listed, list) for listed in splits.values()):
        raise TableError(located(path, None, "this is no result of mteb: scores are no lists by split", _AGAIN))
    for split, listed in splits.items():
        for scores in listed:
            if not isinstance(scores, dict) or not isinstance(scores.get("hf_subset"), str):
                problem = f"this is no result of mteb: scores of {quoted(split)} name no hf_subset"
                raise TableError(located(path, None, problem, _AGAIN))
            yield split, scores


def _numbers(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in scores.items():
        number = _number(value)
        if number is not None and not name.startswith("nauc"):
            yield name, number


def _number(value: object) -> float | None:
    """A finite number, else None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _time(seconds: object) -> datetime | None:
    """When a result was made; None if the file does not say."""
    number = _number(seconds)
    try:
        return None if number is None else datetime.fromtimestamp(number, UTC)
    except (OverflowError, ValueError, OSError):
        return None
