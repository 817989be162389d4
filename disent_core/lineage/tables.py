"""List and read the tables of a run by name: the files declared by the configuration, and those that exist."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from disent_core.config.model import Config
from disent_core.encoders import name_of_kind
from disent_core.errors import TableError, located
from disent_core.evaluation.contract import TASKS, task
from disent_core.lineage.steps import steps
from disent_core.lineage.workspace import OF_LANGUAGES, OF_PAIRS, Workspace
from disent_core.methods.spec import TrainingCost
from disent_core.storage.results import none_if_damaged, result_exists
from disent_core.storage.tables import SCHEMAS, fingerprint, read_info, read_table, rows_table

DECLARED = (
    *(name for _, name in (*OF_LANGUAGES, *OF_PAIRS)), "aligned_pairs", "parallel_mates", "training_curve",
    "metrics", "rankings", "outcomes", "comparisons", "settings_search", "mteb_results",
)  # fmt: skip
"""Tables that steps make."""


def stored_tables(workspace: Workspace) -> dict[str, list[Path]]:
    """Return the existing files of declared partitions, by table."""
    return {name: [path for path in paths if result_exists(path)] for name, paths in declared_tables(workspace).items()}


def read_stored(workspace: Workspace, name: Sequence[str]) -> pa.Table:
    """Read the existing partitions of a table, concatenated.

    The table's name may be preceded by the stage, and followed by the first parts of a partition.
    """
    declared = declared_tables(workspace)
    stages = {_parts(workspace, path)[0] for paths in declared.values() for path in paths}
    first = 0 if name and name[0] in stages else 1
    table = next(iter(name[1 - first :]), "")
    if table not in declared:
        raise ValueError(f"unknown table {'/'.join(name)!r}; choose one of {', '.join(declared)}")
    partitions = {path: _parts(workspace, path)[first:] for path in declared[table]}
    paths = [path for path, parts in partitions.items() if parts[: len(name)] == tuple(name)]
    if not paths:
        available = ", ".join("/".join(parts) for parts in partitions.values()) or "none"
        raise ValueError(f"{'/'.join(name)!r} is not a partition of {table}; there are {available}")
    stored = [path for path in paths if result_exists(path)]
    if not stored:
        raise TableError(located(paths[0], None, "this table does not exist yet", "Run `disent materialize` first"))
    return pa.concat_tables([read_table(path, SCHEMAS[table]) for path in stored])


def _parts(workspace: Workspace, path: Path) -> tuple[str, ...]:
    """Return stage, table and partition of a file."""
    return path.relative_to(workspace.home / "tables").with_suffix("").parts


def declared_tables(workspace: Workspace) -> dict[str, list[Path]]:
    """Return the files of all partitions that the configuration declares, by table, whether they exist or not."""
    declared: dict[str, list[Path]] = {name: [] for name in DECLARED}
    for step in steps(workspace):
        for partition in step.partitions or [""]:
            for name, paths in step.tables(partition).items():
                declared[name] += paths
    for key in OF_PAIRS:  # per corpus, though a partition has the files of several
        pairs = ((corpus, "-".join(pair)) for corpus, of in workspace.config.sentence_pairs.items() for pair in of)
        order = {workspace.table(*key, *part): index for index, part in enumerate(pairs)}
        declared[key[1]].sort(key=order.__getitem__)
    return declared | {name: [workspace.table("warehouse", name, "all")] for name in VOCABULARY}


def refresh_vocabulary(workspace: Workspace) -> None:
    """Write the tables that describe configured methods, encoders and training sets, and all tasks."""
    for name, rows_of in VOCABULARY.items():
        rows = rows_of(workspace.config)
        workspace.refresh("warehouse", name, "all", inputs=fingerprint(rows), make=partial(rows_table, rows, name))


def _methods(config: Config) -> list[dict[str, Any]]:
    """Return the rows of `configured_methods`: method and settings by the name that `metrics` uses."""
    return [
        {
            "method": method.name,
            "base_method": method.method.name,
            "settings": json.dumps(asdict(method.settings), sort_keys=True),
            "may_stop_early": method.method.may_stop_early(method.settings),
        }
        for method in (config.methods[name] for name in config.experiment.methods)
    ]


def training_costs(workspace: Workspace, curves: Iterable[Path]) -> pa.Table:
    """Return the rows of `training_costs`, from the notes in the files of training curves."""
    rows = []
    for path in curves:
        info = none_if_damaged(lambda path=path: read_info(path))
        cost = TrainingCost.of(info) if info is not None else None
        if cost is not None:
            _, _, encoder, method, trained_on = _parts(workspace, path)
            rows.append({"method": method, "encoder": encoder, "trained_on": trained_on, **asdict(cost)})
    return rows_table(rows, "training_costs")


def _encoders(config: Config) -> list[dict[str, Any]]:
    """Return the rows of `encoders`, without the models' paths, which are specific to a machine."""
    rows = []
    for name, settings in config.encoders.items():
        values = {key: value for key, value in asdict(settings).items() if key != "path"}
        text, saw = json.dumps(values, sort_keys=True), settings.has_seen(config)
        rows.append({"encoder": name, "kind": name_of_kind(settings), "settings": text, "encoder_saw": saw})
    return rows


def _named_sets(config: Config) -> list[dict[str, Any]]:
    """Return the rows of `training_sets`: pairs that heads are trained on, and their languages, by name."""
    return [
        {
            "training_set": name,
            "pairs": ["-".join(pair) for pair in config.pair_languages[name]],
            "languages": list(config.languages_of(name)),
        }
        for name in config.training_sets
        if name in config.named_sets
    ]


def scored_embeddings(tasks: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows of `scored_embeddings`: the embeddings by which each task ranks methods."""
    return [
        {
            "task": scored_task.name,
            "embedding": embedding,
            "preference": preference,
            "lower_is_better": scored_task.lower_is_better,
        }
        for scored_task in map(task, tasks)
        for preference, embedding in enumerate(scored_task.ranked, start=1)
    ]


VOCABULARY: Mapping[str, Callable[[Config], list[dict[str, Any]]]] = {
    "configured_methods": _methods,
    "encoders": _encoders,
    "training_sets": _named_sets,
    "scored_embeddings": lambda config: scored_embeddings(dict.fromkeys((*TASKS, *config.evaluation.tasks))),
}
"""Tables that describe the configuration, and their rows."""
