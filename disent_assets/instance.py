"""Open Dagster's state (runs, events, data versions) in `DISENT_HOME/dagster`, and run assets in this process.

The UI reads the same folder.
"""

import fcntl
import logging
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import dagster as dg
from dagster._core.definitions.asset_selection import DagsterInvalidAssetSelectionError
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from sqlalchemy.exc import DBAPIError

from disent_assets.failures import failed_checks_text, failure_text
from disent_core.errors import StorageError, located
from disent_core.storage.atomic import locked, storage_errors

SETTINGS = Path(__file__).with_name("dagster.yaml")
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

FACE = {"disent/face": "command line"}
"""Tag of the runs that a process of the command line, not Dagster's daemon, has to end."""
UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


def dagster_home(home: Path) -> Path:
    """Make the folder of Dagster's state, with the project's `dagster.yaml` in it; returns its path."""
    folder = home / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "dagster.yaml"
    if not settings.is_file() or settings.read_bytes() != SETTINGS.read_bytes():
        shutil.copyfile(SETTINGS, settings)
    return folder


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of a folder of results."""
    with _state_errors(home / "dagster"):
        with locked(home / "dagster"):  # if two first runs start at once, one would fail to make the databases
            folder = str(dagster_home(home))
            instance = dg.DagsterInstance.from_config(folder)
        os.environ["DAGSTER_HOME"] = folder  # child processes of a run read it
        with instance, Path(folder, "processes.lock").open("w") as lock:
            _end_killed_runs(instance, lock)
            fcntl.flock(lock, fcntl.LOCK_SH)  # the system releases it when this process ends, also if it is killed
            yield instance


@contextmanager
def _state_errors(folder: Path) -> Iterator[None]:
    """Turn an error of reading or writing Dagster's state into one line."""
    with storage_errors(folder):
        try:
            yield
        except DBAPIError as error:
            problem = f"Dagster's own state can't be read or written ({error.orig})"
            remedy = "If the disk is not full, delete this folder: results stay, the history of runs is lost"
            raise StorageError(located(folder, None, problem, remedy)) from error


def _end_killed_runs(instance: dg.DagsterInstance, lock: TextIO) -> None:
    """End the runs of killed processes: each still occupies its place in a pool, for which later runs would wait."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another process is alive, so its runs may be too
        return
    for run in instance.get_runs(dg.RunsFilter(tags=FACE, statuses=UNFINISHED)):
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        instance.report_run_failed(run, "The process of this run was killed.")


@dataclass(frozen=True)
class Step:
    """The assets that one run materialises, for one partition (None if they have no partitions)."""

    keys: tuple[dg.AssetKey, ...]
    partition: str | None

    def __str__(self) -> str:
        stages = ", ".join(dict.fromkeys(key.path[0] for key in self.keys))
        return f"{stages} [{self.partition}]" if self.partition else stages


def plan(definitions: dg.Definitions, selection: str | None, partition: str | None) -> list[Step]:
    """The runs that materialise a selection, upstream first; assets with the same partitions share runs.

    Raises:
        ValueError: if the selection or the partition matches nothing.
    """
    graph = definitions.resolve_asset_graph()
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    selected = _select(graph, selection) if selection else graph.get_all_asset_keys()
    left = [key for key in graph.toposorted_asset_keys if key in selected and graph.get(key).is_materializable]
    if not left:
        raise ValueError(f"nothing to materialise in selection {selection!r}")
    steps: list[Step] = []
    while left:
        wave = _wave(graph, left)
        left = [key for key in left if key not in wave]
        partitions = graph.get(wave[0]).partitions_def
        names = [None] if partitions is None else list(partitions.get_partition_keys())
        steps += [Step(tuple(wave), name) for name in names if partition in (None, name)]
    if not steps:
        raise ValueError(f"no asset of the selection has a partition {partition!r}")
    return steps


def _select(graph: BaseAssetGraph, selection: str) -> set[dg.AssetKey]:
    """The assets of a selection, and those that the same steps make."""
    try:
        return set(dg.AssetSelection.from_string(selection).required_multi_asset_neighbors().resolve(graph))
    except (DagsterInvalidAssetSelectionError, dg.DagsterInvalidSubsetError) as error:
        raise ValueError(f"selection {selection!r} can't be read; write for instance 'key:heads/*'") from error


def _wave(graph: BaseAssetGraph, left: Sequence[dg.AssetKey]) -> list[dg.AssetKey]:
    """The assets with the partitions of the first one left whose parents are done or in the same wave."""
    partitions = graph.get(left[0]).partitions_def
    wave: list[dg.AssetKey] = []
    for key in left:  # in topological order, so parents come first
        waits_for = (graph.get(key).parent_keys & set(left)) - set(wave)
        if graph.get(key).partitions_def == partitions and not waits_for:
            wave.append(key)
    return wave


class RunError(Exception):
    """A run failed; the message is the step's own."""


def materialize(definitions: dg.Definitions, step: Step, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """Run one step in this process.

    Raises:
        RunError: with the message of the step that failed; results of earlier steps stay as they are.
    """
    job = definitions.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        asset_selection=list(step.keys),
        partition_key=step.partition,
        instance=instance,
        run_config=QUIET,
        tags=FACE,
        raise_on_error=False,
    )
    if not result.success:
        raise RunError(_reason(result, step))
    return result


def _reason(result: dg.ExecuteInProcessResult, step: Step) -> str:
    for event in result.filter_events(lambda event: event.is_step_failure):
        failure = event.step_failure_data
        if failure.error is not None:
            logging.getLogger(__name__).debug("%s", failure.error.to_string())
        checks = failed_checks_text(failure, result.get_asset_check_evaluations(), str(step))
        if text := checks or failure_text(failure):
            return text
    return "a run failed; see it in the UI"
