"""Run one step in this process, as a run of Dagster; a fresh step needs none, since a look at its files will do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import extract_data_version_from_entry
from dagster._core.execution.plan.objects import StepFailureData
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from disent_assets.failures import check_text, failed_checks_text, failure_text
from disent_assets.instance import FACE, QUIET, home_tag
from disent_assets.plan import Step
from disent_core.errors import StorageError

LOCATION = "disent"
"""Name of the code location in `workspace.yaml`."""
ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(
        ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name="disent_assets.definitions"), LOCATION),
        "__repository__",
    ),
    "__ASSET_JOB",
)
"""Runs with the origin of the code location are on the page Timeline."""
COMMAND = "user"
"""Tag of a run: the command that started it. The UI shows it in the column *Launched by*."""
NOT_REPEATED = {"dagster/max_retries": "0"}
"""If its process dies, the user repeats the command, or the daemon the refresh; the daemon must not repeat this run."""


@dataclass(frozen=True)
class Outcome:
    """What came of a step.

    Attributes:
        made: tables that were made.
        reused: tables that were up to date.
        encoded: texts that were encoded.
        steps: optimiser steps that were trained.
        changed: whether any content or version differs from what Dagster had recorded before.
        warnings: the checks that failed but stop nothing.
        failure: why the step failed, if it did.
        traceback: of the failure, with those of its causes.
        is_of_disk: whether the disk failed or is full, so that other steps would fail too.
    """

    made: int = 0
    reused: int = 0
    encoded: int = 0
    steps: int = 0
    changed: bool = False
    warnings: tuple[str, ...] = ()
    failure: str | None = None
    traceback: str | None = None
    is_of_disk: bool = False


def run_step(
    definitions: dg.Definitions,
    step: Step,
    instance: dg.DagsterInstance,
    *,
    is_fresh: bool = False,
    tags: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a step; a failure is part of the outcome.

    A fresh step costs no run: its function only looks whether its files are what they should be. If it made anything
    again, because a file was damaged, a run records that.

    Args:
        definitions: with the assets of the step.
        step: which assets, of which partition.
        instance: records the run.
        is_fresh: whether Dagster holds all its assets for fresh.
        tags: of the run, beside those that every run of the command line has.
    """
    recorded = dict(recorded_versions(instance, step))
    if not is_fresh:
        return _run(definitions, step, instance, recorded, tags or {})
    try:
        results = list(_call(definitions, step))
    except dg.Failure as failure:  # a run records it; if that fails too, the first message names the cause
        ran = _run(definitions, step, instance, recorded, tags or {})
        return ran if ran.failure is None else replace(ran, failure=failure.description)
    checks = [check for _, result in results for check in result.check_results or ()]
    versions = {result.asset_key or step.keys[0]: result.data_version for _, result in results}
    looked = _counts((name, result.metadata or {}) for name, result in results)
    is_recorded = {key: version and version.value for key, version in versions.items()} == recorded
    if is_recorded and not looked.made and not any(map(_stops, checks)):
        return replace(looked, warnings=tuple(_warnings(checks)))
    ran = _run(definitions, step, instance, recorded, tags or {})
    return replace(ran, made=looked.made, reused=looked.reused, encoded=looked.encoded, steps=looked.steps)


# --- by a run ---------------------------------------------------------------------------------------------


def _run(
    definitions: dg.Definitions,
    step: Step,
    instance: dg.DagsterInstance,
    recorded: dict[dg.AssetKey, str | None],
    tags: Mapping[str, str],
) -> Outcome:
    if "create_run_for_job" not in vars(instance):
        prepare(instance, ORIGIN)
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        asset_selection=list(step.keys),
        partition_key=step.partition,
        instance=instance,
        run_config=QUIET,
        tags={**FACE, **home_tag(instance), **NOT_REPEATED, **tags},
        raise_on_error=False,
    )
    failure = None if result.success else "a run failed; see it in the UI"
    return outcome_of(step, result.all_events, recorded, run_failure=failure)


def outcome_of(
    step: Step,
    events: Sequence[dg.DagsterEvent],
    recorded: Mapping[dg.AssetKey, str | None],
    *,
    run_failure: str | None,
) -> Outcome:
    """What came of a step that was run.

    Args:
        step: which assets, of which partition.
        events: of its run.
        recorded: the data version of each asset before.
        run_failure: that the run has failed, in words for a failure of no step; None if it has succeeded.
    """
    made = [event for event in events if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION]
    named = ((event.node_name, event.materialization.metadata) for event in made)
    materialised = [event.materialization for event in made]
    outcome = _counts((name, {key: value.value for key, value in metadata.items()}) for name, metadata in named)
    changed = any((one.tags or {}).get("dagster/data_version") != recorded.get(one.asset_key) for one in materialised)
    evaluated = [event for event in events if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION]
    checks = [event.asset_check_evaluation_data for event in evaluated]
    failures = [event.step_failure_data for event in events if event.is_step_failure]
    has_failed = run_failure is not None
    return replace(
        outcome,
        changed=changed,
        warnings=tuple(_warnings(checks)),
        failure=(_reason(failures, checks, step) or run_failure) if has_failed else None,
        traceback=_traceback(failures) if has_failed else None,
        is_of_disk=any(map(_is_of_disk, failures)),
    )


def prepare(instance: dg.DagsterInstance, origin: RemoteJobOrigin | None) -> None:
    """Give runs what the public method can't: their origin, and no processes that copy the output of steps.

    Steps print nothing, and Dagster would start four processes a run for that.
    """
    instance.create_run_for_job = partial(type(instance).create_run_for_job, instance, remote_job_origin=origin)
    instance._compute_log_manager = NoOpComputeLogManager()


def _counts(materialised: Iterable[tuple[str, Any]]) -> Outcome:
    """Counts over tables, each with the step that made it and its metadata."""
    made = reused = steps = 0
    texts: dict[str, int] = {}
    for name, metadata in materialised:
        made += bool(metadata.get("recomputed"))
        reused += not metadata.get("recomputed")
        steps += metadata.get("steps", 0)
        texts[name] = metadata.get("encoded", 0)  # vectors and states come from one forward pass
    return Outcome(made=made, reused=reused, encoded=sum(texts.values()), steps=steps)


def _warnings(checks: Iterable[dg.AssetCheckResult | dg.AssetCheckEvaluation]) -> Iterator[str]:
    """The checks that failed but stop nothing."""
    for check in checks:
        if not check.passed and check.severity == dg.AssetCheckSeverity.WARN:
            yield check_text(check)


def _is_of_disk(failure: StepFailureData) -> bool:
    error = failure.error
    while error is not None and error.cls_name != StorageError.__name__:
        error = error.cause
    return error is not None


def _stops(check: dg.AssetCheckResult) -> bool:
    return not check.passed and check.severity == dg.AssetCheckSeverity.ERROR


def _reason(failures: Iterable[StepFailureData], evaluated: Sequence[dg.AssetCheckEvaluation], step: Step) -> str:
    reasons: dict[str, None] = {}
    for failure in failures:
        checks = failed_checks_text(failure, evaluated, str(step))
        if text := checks or failure_text(failure):
            reasons[text] = None
    return "\n".join(reasons)


def _traceback(failures: Iterable[StepFailureData]) -> str:
    return "\n".join(failure.error.to_string() for failure in failures if failure.error is not None)


# --- by looking -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Context:
    """All that the function of an asset reads of its context."""

    partition: str | None

    @property
    def has_partition_key(self) -> bool:
        """Whether the asset has partitions."""
        return self.partition is not None

    @property
    def partition_key(self) -> str:
        """The partition to make."""
        assert self.partition is not None
        return self.partition

    @property
    def run(self) -> dg.DagsterRun:
        """One without tags."""
        return dg.DagsterRun("look")


def _call(definitions: dg.Definitions, step: Step) -> Iterator[tuple[str, dg.MaterializeResult]]:
    """Call the functions of the assets without a run; gives each result with the name of its function."""
    graph = definitions.resolve_asset_graph()
    for asset in dict.fromkeys(graph.assets_def_for_key(key) for key in step.keys):
        function: Any = asset.node_def.compute_fn  # pyright: ignore[reportAttributeAccessIssue]
        results = function.decorated_fn(*[_Context(step.partition)] * function.has_context_arg())
        for result in [results] if isinstance(results, dg.MaterializeResult) else results:
            yield asset.node_def.name, result


def recorded_versions(instance: dg.DagsterInstance, step: Step) -> Iterator[tuple[dg.AssetKey, str | None]]:
    """The data version of every asset of the step that Dagster has recorded last."""
    for key in step.keys:
        record = instance.get_latest_data_version_record(key, False, step.partition)
        version = record and extract_data_version_from_entry(record.event_log_entry)
        yield key, version.value if version else None
