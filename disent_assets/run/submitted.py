"""Run steps elsewhere: each is submitted as a run of Dagster, whose launcher and executor find a machine for it.

Executors run the steps of runs, so this profile has one run for each step, beside the run that submits them.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg

from disent_assets.run import dagster_private
from disent_assets.run.error_messages import failure_text
from disent_assets.run.plan import AssetStep, StepRun, steps_in
from disent_assets.run.step import Outcome, configuration_tag, counted
from disent_assets.run.workers import Log
from disent_assets.settings.environment import code_locations
from disent_assets.settings.instance import NOT_REPEATED, home_tag
from disent_assets.settings.profiles.retry_database import LOOK_SECONDS, database_errors, retried
from disent_core.errors import DisentError, located
from disent_core.lineage.state import StepRecord, read_record
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.results import result_exists


@dataclass
class _Run:
    step: StepRun
    before: StepRecord | None
    cursor: str | None = None


class Submitted:
    """Submits steps and follows their runs, which go on where they are if this process is killed.

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
    ) -> None:
        self.workspace, self.steps, self.instance, self.count, self.log = workspace, steps, instance, count, log
        self.tags = {**home_tag(instance), **NOT_REPEATED, **configuration_tag(workspace.config), **tags}
        queues = isinstance(instance.run_coordinator, dg.QueuedRunCoordinator)
        if queues and not dagster_private.is_daemon_alive(instance, dagster_private.QUEUE_DAEMON):
            # A `dagster.yaml` of the profile `local` has a queue from which no daemon takes runs.
            problem = "it was made for the profile local: runs would wait for a daemon of Dagster, and none is alive"
            file = Path(instance.root_directory, "dagster.yaml")
            raise DisentError(located(file, None, problem, "Delete it, and this profile writes its own"))
        self.runs: dict[str, _Run] = {}
        self.due: list[StepRun] = []
        self.opened = ExitStack()
        self.locations = self.opened.enter_context(dagster_private.code_locations(instance, code_locations()))

    def is_free(self) -> bool:
        return len(self.runs) < self.count

    def start(self, step: StepRun, *, is_fresh: bool) -> None:
        files = [path for of in steps_in(self.workspace) if of.key == step.key for path in of.files(step.partition)]
        if is_fresh and all(map(result_exists, files)):
            self.due.append(step)
        else:
            run = retried(self._submit)(step)  # a run missing from the database is not tracked
            self.runs[run] = _Run(step, self._record(step))

    def _submit(self, step: StepRun) -> str:
        context = self.locations.create_request_context()
        if errors := dagster_private.load_errors(context):
            raise DisentError(f"{code_locations()}: the code location can't be loaded: {errors[0]}")
        of_partition = {} if step.partition is None else {"dagster/partition": step.partition}
        keys = [dg.AssetKey(key) for key in self.steps[step.key].asset_keys]
        return dagster_private.submit(self.instance, self.locations, context, keys, {**self.tags, **of_partition})

    def _record(self, step: StepRun) -> StepRecord | None:
        return read_record(self.workspace, step.key, step.partition)

    def ended(self) -> Iterator[tuple[StepRun, Outcome]]:
        while self.due:
            step = self.due.pop()
            yield step, Outcome(reused=len(step.outputs))
        if not self.runs:
            return
        time.sleep(LOOK_SECONDS)
        for run in retried(self.instance.get_runs)(dg.RunsFilter(run_ids=list(self.runs))):
            followed = self.runs[run.run_id]
            retried(self._log_lines)(run.run_id, followed)
            if run.is_finished:
                del self.runs[run.run_id]
                yield followed.step, retried(self._outcome)(run, followed)

    def _log_lines(self, run: str, followed: _Run) -> None:
        records = self.instance.get_records_for_run(run, followed.cursor)
        followed.cursor = records.cursor
        for entry in (record.event_log_entry for record in records.records):
            if entry.dagster_event is None:
                self.log(followed.step, int(entry.level), entry.user_message)
            elif entry.dagster_event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY:
                seconds = entry.dagster_event.step_retry_data.seconds_to_wait or 0.0
                lost = f"{entry.dagster_event.step_key} lost its process or its store"
                text = f"{lost}; it is tried again in {seconds:.1f} s"
                self.log(followed.step, logging.WARNING, text)  # an equal line would not be shown

    def _outcome(self, run: dg.DagsterRun, followed: _Run) -> Outcome:
        events = [entry.dagster_event for entry in self.instance.all_logs(run.run_id) if entry.dagster_event]
        made = [event for event in events if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION]
        checks = [event for event in events if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION]
        evaluated = [event.asset_check_evaluation_data for event in checks]
        warned = [check for check in evaluated if not check.passed and check.severity == dg.AssetCheckSeverity.WARN]
        record = self._record(followed.step)
        outcome = replace(
            counted([event.materialization for event in made]),
            changed=record is None or followed.before is None or record.contents != followed.before.contents,
            warnings=tuple(f"check {check.check_name} failed" for check in warned),
        )
        return outcome if run.is_success else replace(outcome, failure=self._failure(events, record))

    def _failure(self, events: list[dg.DagsterEvent], record: StepRecord | None) -> str:
        failures = dict.fromkeys(failure_text(event) for event in events if event.is_step_failure)
        messages = [event.message for event in events if event.is_engine_event and event.message]
        by_step = record.error if record and failures else None
        return by_step or "\n".join(failures) or (messages[-1] if messages else "its run was ended")

    def close(self) -> None:
        """Cancel what runs, and end the code server if this process has started it."""
        for run in list(self.runs):
            with suppress(*database_errors()):
                self.instance.run_coordinator.cancel_run(run)
        self.opened.close()
