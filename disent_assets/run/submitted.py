"""Run steps elsewhere: submit them as Dagster runs, whose launchers and executors find machines.

Executors run the steps of runs, so each step has its own run, besides the run that submits them. A run takes seconds to
start, on a busy cluster half a minute, so partitions of one asset that take less time share runs.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import dagster as dg

from disent_assets.run import dagster_private
from disent_assets.run.error_messages import failure_text
from disent_assets.run.plan import AssetStep, StepRun
from disent_assets.run.step import FURTHER_TAG, MADE, PARTITION_TAG, Outcome, configuration_tag, counted
from disent_assets.run.steps import steps_in
from disent_assets.run.workers import Log
from disent_assets.settings.environment import code_locations
from disent_assets.settings.instance import NOT_REPEATED, home_tag
from disent_assets.settings.profiles import LOOK_SECONDS, database_errors, retried
from disent_core.errors import DisentError, located
from disent_core.lineage.state import StepRecord, read_record
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.results import result_exists

SHORT_SECONDS, RUN_SECONDS = 15.0, 30.0  # longest expected time of a step that shares a run, and of all steps of a run


@dataclass
class _Run:
    """A submitted run, with its steps' previous records; several steps differ only in partition."""

    steps: list[StepRun]
    before: list[StepRecord | None]
    latest: StepRun  # the step it is working on, according to its events
    cursor: str | None = None


class Submitted:
    """Submits steps and follows their runs, which continue if this process is killed.

    A fresh step is submitted only if its files are gone.
    """

    def __init__(
        self,
        workspace: Workspace,
        steps: Mapping[Key, AssetStep],
        instance: dg.DagsterInstance,
        tags: Mapping[str, str],
        count: int,
        log: Log,
        seconds: Mapping[str, float],
    ) -> None:
        self.workspace, self.steps, self.instance, self.count, self.log = workspace, steps, instance, count, log
        self.seconds = dict(seconds)  # expected times of steps by name; other steps get a run each
        self.tags = {**home_tag(instance), **NOT_REPEATED, **configuration_tag(workspace.config), **tags}
        queues = isinstance(instance.run_coordinator, dg.QueuedRunCoordinator)
        if queues and not dagster_private.is_daemon_alive(instance, dagster_private.QUEUE_DAEMON):
            # With the profile `local`, `dagster.yaml` has a queue that no daemon serves.
            problem = "it was made for the profile local: runs would wait for a Dagster daemon, and none is running"
            file = Path(instance.root_directory, "dagster.yaml")
            raise DisentError(located(file, None, problem, "Delete it, and this profile writes its own"))
        self.runs: dict[str, _Run] = {}
        self.due: list[StepRun] = []
        self.waiting: list[list[StepRun]] = []  # steps of the next runs
        self.opened = ExitStack()
        self.locations = self.opened.enter_context(dagster_private.code_locations(instance, code_locations()))

    def is_free(self) -> bool:
        waiting = (min(1.0, sum(map(self._share, steps))) for steps in self.waiting)
        return len(self.runs) + sum(waiting) < self.count

    def _share(self, step: StepRun) -> float:
        seconds = self.seconds.get(step.name, RUN_SECONDS)
        can_share = step.partition is not None and not step.uses_device and seconds < SHORT_SECONDS
        return seconds / RUN_SECONDS if can_share else 1.0

    def start(self, step: StepRun, *, is_fresh: bool) -> None:
        files = [path for of in steps_in(self.workspace) if of.key == step.key for path in of.files(step.partition)]
        if is_fresh and all(map(result_exists, files)):
            self.due.append(step)
            return
        for steps in self.waiting:
            if steps[0].key == step.key and sum(map(self._share, [*steps, step])) <= 1:
                steps.append(step)
                return
        self.waiting.append([step])

    def _submit_waiting(self) -> None:
        while self.waiting and len(self.runs) < self.count:
            steps = self.waiting.pop(0)
            before = [self._record(step) for step in steps]
            run = retried(self._submit)(steps)  # a run missing in the database is not tracked
            self.runs[run] = _Run(steps, before, steps[0])

    def _submit(self, steps: Sequence[StepRun]) -> str:
        context = self.locations.create_request_context()
        if errors := dagster_private.load_errors(context):
            raise DisentError(f"{code_locations()}: the code location can't be loaded: {errors[0]}")
        first, *further = [step.partition for step in steps]
        of_partitions = {PARTITION_TAG: first} if first is not None else {}
        of_further = {FURTHER_TAG: json.dumps(further)} if further else {}
        keys = [dg.AssetKey(key) for key in self.steps[steps[0].key].asset_keys]
        tags = {**self.tags, **of_partitions, **of_further}
        return dagster_private.submit(self.instance, self.locations, context, keys, tags)

    def _record(self, step: StepRun) -> StepRecord | None:
        return read_record(self.workspace, step.key, step.partition)

    def ended(self) -> Iterator[tuple[StepRun, Outcome]]:
        while self.due:
            step = self.due.pop()
            yield step, Outcome(reused=len(step.outputs))
        self._submit_waiting()
        if not self.runs:
            return
        time.sleep(LOOK_SECONDS)
        for run in retried(self.instance.get_runs)(dg.RunsFilter(run_ids=list(self.runs))):
            followed = self.runs[run.run_id]
            retried(self._log_lines)(run.run_id, followed)
            if run.is_finished:
                del self.runs[run.run_id]
                yield from retried(self._outcomes)(run, followed)

    def _log_lines(self, run: str, followed: _Run) -> None:
        records = self.instance.get_records_for_run(run, followed.cursor)
        followed.cursor = records.cursor
        for entry in (record.event_log_entry for record in records.records):
            event = entry.dagster_event
            if event is None:
                self.log(followed.latest, int(entry.level), entry.user_message)
            elif event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY:
                seconds = event.step_retry_data.seconds_to_wait or 0.0
                lost = f"{event.step_key} lost its process or its store"
                text = f"{lost}; it will be tried again in {seconds:.1f} s"
                self.log(followed.latest, logging.WARNING, text)  # an equal line would not be shown
            elif event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
                after = {step.partition: following for step, following in pairwise(followed.steps)}
                followed.latest = after.get(event.partition, followed.latest)

    def _outcomes(self, run: dg.DagsterRun, followed: _Run) -> list[tuple[StepRun, Outcome]]:
        """Return the steps' outcomes; steps that a lost run of several has not reached are submitted separately."""
        events = [entry.dagster_event for entry in self.instance.all_logs(run.run_id) if entry.dagster_event]
        outcomes, shares = [], len(followed.steps) > 1
        for step, before in zip(followed.steps, followed.before, strict=True):
            of_step = [event for event in events if _is_of(event, step)] if shares else events
            record = self._record(step)
            outcome = self._outcome(run, of_step, record, before, shares=shares)
            is_reached = outcome.made or outcome.reused or record != before
            if shares and run.status == dg.DagsterRunStatus.FAILURE and not is_reached:
                self.seconds.pop(step.name, None)
                self.waiting.append([step])
            else:
                outcomes.append((step, outcome))
        return outcomes

    def _outcome(
        self,
        run: dg.DagsterRun,
        events: Sequence[dg.DagsterEvent],
        record: StepRecord | None,
        before: StepRecord | None,
        *,
        shares: bool,
    ) -> Outcome:
        reported = [
            event.materialization
            for event in events
            if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION
            and MADE in event.materialization.metadata  # relations, which the warehouse also reports, are not results
        ]
        made = {event.asset_key: event for event in reversed(reported)}.values()  # a second attempt reports it again
        checks = [event for event in events if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION]
        evaluated = [event.asset_check_evaluation_data for event in checks]
        warned = [check for check in evaluated if not check.passed and check.severity == dg.AssetCheckSeverity.WARN]
        outcome = replace(
            counted(made),
            changed=record is None or before is None or record.contents != before.contents,
            warnings=tuple(f"check {check.check_name} failed" for check in warned),
        )
        is_made = bool(shares and made and not (record and record.error))  # before another step of the run failed
        return outcome if run.is_success or is_made else replace(outcome, failure=self._failure(events, record))

    def _failure(self, events: Sequence[dg.DagsterEvent], record: StepRecord | None) -> str:
        failures = dict.fromkeys(failure_text(event) for event in events if event.is_step_failure)
        messages = [event.message for event in events if event.is_engine_event and event.message]
        by_step = record.error if record and failures else None
        return by_step or "\n".join(failures) or (messages[-1] if messages else "its run was ended")

    def close(self) -> None:
        """Cancel running runs, and end the code server if this process started it."""
        for run in list(self.runs):
            with suppress(*database_errors()):
                self.instance.run_coordinator.cancel_run(run)
        self.opened.close()


def _is_of(event: dg.DagsterEvent, step: StepRun) -> bool:
    """Return whether an event of a run of several steps is about this step or the whole run."""
    if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
        return event.asset_check_evaluation_data.partition == step.partition
    return event.partition == step.partition or event.event_type != dg.DagsterEventType.ASSET_MATERIALIZATION
