"""Run one step on one partition in this process, and record its inputs, outputs and cost."""

import ctypes
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg

from disent_assets.run.dagster_private import step_function
from disent_assets.run.error_messages import failed_checks, failure_of, is_of_disk
from disent_assets.run.plan import AssetStep, StepRun
from disent_assets.run.steps import steps_in
from disent_assets.settings.profiles import database_errors
from disent_assets.warehouse.costs import Meter, recorded_cost
from disent_core.config.model import Config, signature
from disent_core.errors import ConfigError, StorageError, located
from disent_core.lineage.state import Records, StepRecord, name_of, read_record, write_record
from disent_core.lineage.workspace import Key, Workspace

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameter numbers in malloc.h
KEPT = 512 << 20  # bytes; a single block of more than half of them is still returned at once
CONFIG_TAG = "disent/config"  # run tag: fingerprint of the configuration its step was submitted with
FURTHER_TAG = "disent/further_partitions"  # run tag: JSON list of partitions besides `PARTITION_TAG`
DATA_VERSION = "dagster/data_version"  # tag of Dagster's events
PARTITION_TAG = "dagster/partition"
_REMEDY = "Start the same command again; if that does not help, give every machine the same file and version of disent"
MADE = "recomputed"  # metadata key of each result of a step
Make = Callable[[str], Iterable[dg.MaterializeResult]]
Event = dg.AssetMaterialization | dg.AssetCheckEvaluation


# --- what an asset does -----------------------------------------------------------------------------------


def make_recorded(
    workspace: Workspace, key: Key, partition: str, make: Make, device: str
) -> list[dg.MaterializeResult]:
    """Make the outputs of a step on a partition (empty if it has none); record its cost, and its state."""
    records, name = Records(workspace, steps_in(workspace)), partition or None
    step = records.step_of[key]
    last = records.of(step, name)
    # Read before anything is made, so that changes meanwhile count as changes.
    record = StepRecord(step.version, records.reads(step, name), last.contents if last else {})
    meter = Meter()
    try:
        with freed_memory_kept():
            results = list(make(partition))
    except Exception as error:
        with suppress(StorageError):  # the disk may be full
            write_record(workspace, key, name, replace(record, error=_first_line(failure_of(error))))
        raise
    if made := [result for result in results if is_made(result)]:
        cost = meter.cost()
        results = [
            result._replace(metadata={**(result.metadata or {}), **cost.metadata}) if is_made(result) else result
            for result in results
        ]
        record = replace(record, seconds=cost.seconds, cost=recorded_cost(cost, made[0].metadata or {}, device))
    contents = {"/".join(output): version_of(result) for output, result in zip(step.outputs, results, strict=True)}
    errors = failed_checks(results, dg.AssetCheckSeverity.ERROR)
    record = replace(record, contents=contents, error=_first_line("; ".join(errors)) or None)
    if not record.same_state(last) or made:
        write_record(workspace, key, name, record)
    return results


def record_failure(workspace: Workspace, run: StepRun, failure: str) -> None:
    """Record that a step failed, unless the step has done so itself: its process may have been killed."""
    records = Records(workspace, steps_in(workspace))
    if (step := records.step_of.get(run.key)) is None:
        return
    last = records.of(step, run.partition) or StepRecord("", {})
    if last.error is None:
        reads = records.reads(step, run.partition)
        record = StepRecord(step.version, reads, last.contents, error=_first_line(failure))
        with suppress(StorageError):
            write_record(workspace, run.key, run.partition, record)


def is_made(result: dg.MaterializeResult) -> bool:
    """Return whether the step computed this result instead of finding it up to date."""
    return bool((result.metadata or {}).get(MADE))


def version_of(result: dg.MaterializeResult) -> str:
    return result.data_version.value if result.data_version else ""


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Make malloc keep freed memory inside this block, and return it to the system at the end (glibc only).

    By default, large blocks are returned at once. Training frees and allocates the same tensors in every batch, so
    every page of them would be mapped and zeroed again.
    """
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "mallopt"):
        yield
        return
    library.mallopt(MMAP_THRESHOLD, KEPT // 2)
    library.mallopt(TRIM_THRESHOLD, KEPT)
    try:
        yield
    finally:
        library.malloc_trim(0)


# --- the tags of a submitted step ----------------------------------------------------------------


def partitions_of(tags: Mapping[str, str]) -> list[str]:
    """Return the partitions of a run; an empty list if its step has none."""
    return [tags[PARTITION_TAG], *json.loads(tags.get(FURTHER_TAG, "[]"))] if PARTITION_TAG in tags else []


def configuration_tag(config: Config) -> dict[str, str]:
    """Return the tag, equal for equal configurations even if links lead to the file by another path."""
    return {CONFIG_TAG: signature(replace(config, path=Path(config.path.name)))[:12]}


def check_configuration(config: Config, tags: Mapping[str, str]) -> None:
    """Check that a step's process has loaded the configuration the step was submitted with.

    A run not submitted by disent, such as one started in the web UI, has no tag.
    """
    submitted = tags.get(CONFIG_TAG)
    if submitted is not None and submitted != (loaded := configuration_tag(config)[CONFIG_TAG]):
        problem = f"this step was submitted with configuration {submitted}, but its process has loaded {loaded}"
        raise ConfigError(located(config.path, None, problem, _REMEDY))


# --- without a run of Dagster -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Outcome of a step."""

    made: int = 0  # tables that were made
    reused: int = 0  # tables that were up to date
    encoded: int = 0  # texts that were encoded
    steps: int = 0  # optimiser steps that were trained
    changed: bool = False  # whether any content differs from what was recorded before
    is_news: bool = False  # whether to report to Dagster
    # The materialisation of every asset, each followed by the evaluations of its checks.
    events: Sequence[Event] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()  # failed checks that do not stop anything
    failure: str | None = None
    traceback: str | None = None
    is_of_disk: bool = False  # whether the disk failed or is full, so that other steps would fail too


def compute(workspace: Workspace, step: AssetStep, partition: str | None) -> Outcome:
    """Make the assets of a step with their function; a failure becomes part of the outcome."""
    before = read_record(workspace, step.key, partition)
    has_partitions, run_without_tags = partition is not None, dg.DagsterRun("disent")
    logged: list[Event] = []
    context = SimpleNamespace(
        partition_key=partition,
        has_partition_key=has_partitions,
        run=run_without_tags,
        instance=None,  # the receiver of the outcome reports it
        log_event=logged.append,
    )
    try:
        made = step_function(step.asset)(context)
        results = [made] if isinstance(made, dg.MaterializeResult) else list(made)
    except (dg.Failure, *database_errors()) as error:
        text = "".join(traceback.format_exception(error))
        return Outcome(failure=failure_of(error), traceback=text, is_of_disk=is_of_disk(error))
    after = read_record(workspace, step.key, partition)
    errors = "; ".join(failed_checks(results, dg.AssetCheckSeverity.ERROR))
    failure = f"{name_of((step.key, partition))}: {errors}. Nothing downstream is made until the data is corrected"
    outcome = counted(results)
    return replace(
        outcome,
        changed=before is None or after is None or before.contents != after.contents,
        is_news=bool(outcome.made) or after is None or not after.same_state(before),
        events=[*events_of(results, partition, step.asset_keys[0]), *logged],
        warnings=tuple(failed_checks(results, dg.AssetCheckSeverity.WARN)),
        failure=failure if errors else None,
    )


def events_of(
    results: Iterable[dg.MaterializeResult], partition: str | None, key: Sequence[str] = ()
) -> Iterator[Event]:
    """Yield each asset's materialisation and its checks' evaluations; `key` is for results without one."""
    for result in results:
        asset, tags = dg.AssetKey.from_coercible(result.asset_key or list(key)), {DATA_VERSION: version_of(result)}
        yield dg.AssetMaterialization(asset, metadata=result.metadata, partition=partition, tags=tags)
        yield from (evaluation(asset, check, partition) for check in result.check_results or ())


def evaluation(key: dg.AssetKey, check: dg.AssetCheckResult, partition: str | None = None) -> dg.AssetCheckEvaluation:
    """Return the event with the outcome of a check."""
    assert check.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=check.check_name,
        passed=check.passed,
        metadata=check.metadata,
        severity=check.severity,
        description=check.description,
        partition=partition,
    )


def log_news(context: Any, events: Sequence[Event]) -> None:
    """Log the news of external assets; all events, if the context has no instance to ask."""
    for event in events if context.instance is None else news(context.instance, events):
        context.log_event(event)


def news(instance: dg.DagsterInstance, events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events of assets whose content or check outcomes are new to Dagster.

    Each event costs a commit to its database, and most relations of a warehouse stay the same.
    """
    made = [event.asset_key for event in events if isinstance(event, dg.AssetMaterialization)]
    checks = {event.asset_check_key: event for event in events if isinstance(event, dg.AssetCheckEvaluation)}
    records = instance.get_asset_records(made) if made else []
    entries = [entry for record in records if (entry := record.asset_entry.last_materialization)]
    latest = [event for entry in entries if (event := entry.asset_materialization)]
    versions = {event.asset_key: (event.tags or {}).get(DATA_VERSION) for event in latest}
    known = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    evaluations = {key: record.evaluation for key, record in known.items() if record.evaluation}
    outcomes = {key: (evaluation.passed, evaluation.metadata) for key, evaluation in evaluations.items()}
    for event in events:
        if isinstance(event, dg.AssetMaterialization):
            is_known = versions.get(event.asset_key) == (event.tags or {}).get(DATA_VERSION)
        else:
            is_known = outcomes.get(event.asset_check_key) == (event.passed, event.metadata)
        if not is_known:
            yield event


def counted(results: Iterable[dg.MaterializeResult | dg.AssetMaterialization]) -> Outcome:
    metadata: list[dict[str, Any]] = [dict(result.metadata or {}) for result in results]
    tables = [{name: getattr(value, "value", value) for name, value in of.items()} for of in metadata]
    made = sum(bool(table.get(MADE)) for table in tables)
    return Outcome(
        made=made,
        reused=len(tables) - made,
        encoded=max((table.get("encoded", 0) for table in tables), default=0),  # one forward pass for all tables
        steps=sum(table.get("steps", 0) for table in tables),
    )
