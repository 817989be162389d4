"""Read result files of mteb (https://github.com/embeddings-benchmark/mteb) as rows; mteb itself is not needed.

A file is `MODEL/REVISION/TASK.json`, or `MODEL/REVISION/experiments/EXPERIMENT/TASK.json` where a model has several
embeddings or settings; `model_meta.json` beside it names them. The folder of `mteb.ResultCache` and the repository
`embeddings-benchmark/results` have this layout.
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
from disent_core.corpora.paths import read_bytes
from disent_core.errors import TableError, located, quoted
from disent_core.settings import LARGEST_RECORD

PREFIX = "Disent"
"""Name prefix of mteb tasks made from the tasks here: `DisentTemplateRetrieval`."""
OURS = "disent/"
"""Name prefix of mteb models that are heads of disent."""
_META = "model_meta.json"
_LONGEST = 1_000  # characters of a name
_AGAIN = "Copy the file again, or run mteb again"


@dataclass(frozen=True)
class Twin:
    """The name here of a task of mteb."""

    task: str  # our task that measures the same; mteb's name if there is none
    dataset: str  # its name in published figures
    metrics: Mapping[str, str] = field(default_factory=dict)  # our names of the metrics with the same definition


_CORRELATION = {"cosine_pearson": "pearson", "cosine_spearman": "spearman"}
_OF_OURS = {"pearson": "pearson", "spearman": "spearman"}
"""By the model's own similarity, which of a head of disent is our cosine: of two equal cosines one may differ in its
last bit, and a rank with it."""
TWINS: Mapping[str, Twin] = {
    "Tatoeba": Twin("tatoeba_retrieval", "tatoeba", {"accuracy": "accuracy_at_1"}),
    "STS17": Twin("sts", "sts2017", _CORRELATION),
    "MassiveIntentClassification": Twin("MassiveIntentClassification", "massive"),
    "MassiveScenarioClassification": Twin("MassiveScenarioClassification", "massive"),
}
"""Official mteb tasks that are read. `MassiveIntentClassification` has no twin: its classifier is a different one."""


def result_files(folder: Path, also: Collection[str] = ()) -> list[Path]:
    """Return the result files of the tasks in `TWINS`, of disent's own tasks, and of the tasks `also`, sorted."""
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
    """Return the rows of a result file in the schema `mteb_results`, one per number, without `nauc_*` (calibration)."""
    result, model = _parsed(path), _model(path)
    if "mteb_dataset_name" in result:
        convert = 'mteb.results.TaskResult.from_disk(Path("FILE")).to_disk(Path("FILE"))'
        raise TableError(located(path, None, "mteb wrote this before version 1.11", f"Convert it: {convert}"))
    name = _text(path, result, "task_name", "")
    if not name:
        raise _no_result(path, f"task_name is {quoted(result.get('task_name'))}")
    twin = twin_of(name, is_ours=model["model"].startswith(OURS))
    versions = {key: _text(path, result, key, "") or None for key in ("mteb_version", "dataset_revision")}
    common = {
        "source": source,
        "task": twin.task,
        "mteb_task": name,
        **model,
        "settings": json.dumps(versions, sort_keys=True),
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
        for metric, score in scores.items()
        if (value := _number(score)) is not None and not metric.startswith("nauc")
    ]


def _parsed(path: Path) -> dict[str, Any]:
    if path.is_file() and path.stat().st_size > LARGEST_RECORD:
        raise _no_result(path, f"it has more than {LARGEST_RECORD:,} bytes")
    try:
        parsed = json.loads(read_bytes(path))
        json.dumps(parsed, ensure_ascii=False).encode()  # a lone surrogate can't be stored
    except (ValueError, RecursionError) as error:
        raise TableError(located(path, None, f"this is not valid JSON ({error})", _AGAIN)) from error
    if not isinstance(parsed, dict):
        raise _no_result(path, "it is not an object")
    return parsed


def _no_result(path: Path, fault: str) -> TableError:
    return TableError(located(path, None, f"this is not a result of mteb: {fault}", _AGAIN))


def _text(path: Path, values: Mapping[str, Any], key: str, default: str) -> str:
    """Return a short string from an object; `default` if it has none."""
    value = values.get(key)
    if value is not None and not (isinstance(value, str) and len(value) <= _LONGEST):
        raise _no_result(path, f"{key} is {quoted(value)}, not a text of at most {_LONGEST:,} characters")
    return value or default


def _model(path: Path) -> dict[str, Any]:
    """Return the columns that identify a file's model and embedding; for a head of disent, as in `metrics`."""
    revision, experiment = path.parent, ""
    if revision.parent.name == "experiments":
        revision, experiment = revision.parent.parent, revision.name
    meta_path = path.with_name(_META)
    meta = _parsed(meta_path) if meta_path.is_file() else {}
    name = _text(meta_path, meta, "name", revision.parent.name.replace("__", "/", 1))
    options, head = (meta.get(key) or {} for key in ("experiment_kwargs", "loader_kwargs"))
    if not isinstance(options, dict) or not isinstance(head, dict):
        fault = "experiment_kwargs and loader_kwargs must be objects"
        raise TableError(located(meta_path, None, fault, _AGAIN))
    if not name.startswith(OURS):
        options, head = {}, {}
    seed = options.get("seed")
    return {
        "model": name,
        "revision": _text(meta_path, meta, "revision", revision.name),
        "experiment": experiment,
        "method": _text(meta_path, head, "method", name),
        "encoder": _text(meta_path, head, "encoder", ""),
        "trained_on": _text(meta_path, head, "trained_on", ""),
        "embedding": _text(meta_path, options, "embedding", "sentence"),
        "seed": seed if type(seed) is int and 0 <= seed < 2**63 else None,
    }


def twin_of(name: str, *, is_ours: bool) -> Twin:
    """Return an mteb task's twin here; without one, the task and its data set keep mteb's name."""
    twin = TWINS.get(name, Twin(name, name))
    if name.startswith(PREFIX):
        words = re.sub("(?<!^)(?=[A-Z])", "_", name.removeprefix(PREFIX)).lower()
        # mteb's "accuracy" of a retrieval is a recall.
        probe = {} if "retrieval" in words else {"accuracy": "accuracy"}
        twin = Twin(words, "", {"hit_rate_at_1": "accuracy_at_1", **_CORRELATION, **probe})
    if is_ours and _CORRELATION.items() <= twin.metrics.items():
        others = {theirs: ours for theirs, ours in twin.metrics.items() if theirs not in _CORRELATION}
        return replace(twin, metrics={**others, **_OF_OURS})
    return twin


def _place(twin: Twin, subset: str) -> dict[str, str]:
    """Return data set and direction: Tatoeba's `deu-eng` is `de-en`; subsets of our own tasks name both."""
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
        raise _no_result(path, "scores are not lists by split")
    for split, listed in splits.items():
        for scores in listed:
            if not isinstance(scores, dict) or not isinstance(scores.get("hf_subset"), str):
                raise _no_result(path, f"scores of {quoted(split)} name no hf_subset")
            if max(map(len, (split, scores["hf_subset"], *scores))) > _LONGEST:
                raise _no_result(path, f"a name in the scores has more than {_LONGEST:,} characters")
            yield split, scores


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _time(seconds: object) -> datetime | None:
    number = _number(seconds)
    try:
        return None if number is None else datetime.fromtimestamp(number, UTC)
    except (OverflowError, ValueError, OSError):
        return None
