"""Run steps elsewhere: each is submitted as a run of Dagster, whose launcher and executor find a machine for it.

What belongs here: how runs are submitted and followed. What does not: where they run, see `profiles`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
from dagster._core.execution.submit_asset_runs import submit_asset_run
from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster._core.storage.tags import PARTITION_NAME_TAG
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.controller import get_daemon_statuses
from dagster._daemon.run_coordinator import QueuedRunCoordinatorDaemon
from dagster._utils import SingleInstigatorDebugCrashFlags

from disent_assets.instance import home_tag
from disent_assets.plan import Step
from disent_assets.profiles.patience import LOOK_SECONDS, database_errors, patient
from disent_assets.resources import code_locations
from disent_assets.run_step import NOT_REPEATED, Outcome, outcome_of, recorded_versions
from disent_assets.same_configuration import configuration_tag
from disent_assets.status import is_lost
from disent_core.errors import DisentError, located
from disent_core.experiment.workspace import Workspace

_UNUSED: SingleInstigatorDebugCrashFlags = {}


@dataclass
class _Run:
    step: Step
    recorded: Mapping[dg.AssetKey, str | None]
    cursor: str | None = field(default=None)


class Submitted:
    """Submits steps and follows their runs, which go on where they are if this process is killed.

    A step that Dagster holds for fresh is submitted only if its files are gone.
    """

    def __init__(
        self,
        workspace: Workspace,
        instance: dg.DagsterInstance,
        tags: Mapping[str, str],
        count: int,
        log: Callable[[Step, int, str], None],
    ) -> None:
        self.workspace, self.instance, self.count, self.log = workspace, instance, count, log
        self.tags = {**home_tag(instance), **NOT_REPEATED, **configuration_tag(workspace.config), **tags}
        _check_that_runs_start(instance)
        self.runs: dict[str, _Run] = {}
        self.due: list[Step] = []
        named = WorkspaceFileTarget([str(code_locations())])
        self.locations = WorkspaceProcessContext(instance, named, code_server_log_level="warning")
        self.locations.__enter__()

    def is_free(self) -> bool:
        return len(self.runs) < self.count

    def start(self, step: Step, *, is_fresh: bool) -> None:
        if is_fresh and not any(is_lost(self.workspace, key.path, step.partition) for key in step.keys):
            self.due.append(step)
            return
        run, recorded = patient(self._submit)(step)
        self.runs[run] = _Run(step, recorded)

    def _submit(self, step: Step) -> tuple[str, Mapping[dg.AssetKey, str | None]]:
        """Submit a run; returns its id and the versions before it. Nobody follows one that the database has lost."""
        recorded = dict(recorded_versions(self.instance, step))
        of_partition = {} if step.partition is None else {PARTITION_NAME_TAG: step.partition}
        request = dg.RunRequest(asset_selection=list(step.keys), tags={**self.tags, **of_partition})
        run = asyncio.run(
            submit_asset_run(
                None,
                request,
                0,
                self.instance,
                self.locations,
                self._context(),
                {},
                _UNUSED,
                logging.getLogger(__name__),
            )
        )
        return run.run_id, recorded

    def _context(self) -> WorkspaceRequestContext:
        context = self.locations.create_request_context()
        if errors := [entry.load_error for entry in context.get_code_location_entries().values() if entry.load_error]:
            raise DisentError(f"{code_locations()}: the code location can't be loaded: {errors[0].message.strip()}")
        return context

    def ended(self) -> Iterator[tuple[Step, Outcome]]:
        while self.due:
            step = self.due.pop()
            yield step, Outcome(reused=len(step.keys))
        if not self.runs:
            return
        time.sleep(LOOK_SECONDS)
        for run in patient(self.instance.get_runs)(dg.RunsFilter(run_ids=list(self.runs))):
            followed = self.runs[run.run_id]
            patient(self._tell)(run.run_id, followed)
            if run.is_finished:
                del self.runs[run.run_id]
                yield followed.step, patient(self._outcome)(run, followed)

    def _tell(self, run: str, followed: _Run) -> None:
        """Log the lines that are new."""
        records = self.instance.get_records_for_run(run, followed.cursor)
        followed.cursor = records.cursor
        for entry in (record.event_log_entry for record in records.records):
            if entry.dagster_event is None:
                self.log(followed.step, int(entry.level), entry.user_message)
            elif entry.dagster_event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY:
                seconds = entry.dagster_event.step_retry_data.seconds_to_wait or 0.0
                told = f"the process of {entry.dagster_event.step_key} was lost; it is tried again in {seconds:.1f} s"
                self.log(followed.step, logging.WARNING, told)  # an equal line would not be shown

    def _outcome(self, run: dg.DagsterRun, followed: _Run) -> Outcome:
        events = [entry.dagster_event for entry in self.instance.all_logs(run.run_id) if entry.dagster_event]
        told = [event.message for event in events if event.is_engine_event and event.message]
        failure = None if run.is_success else told[-1] if told else "its run was ended"  # unless a step has failed
        return outcome_of(followed.step, events, followed.recorded, run_failure=failure)

    def close(self) -> None:
        """Cancel what runs, and end the code server if this process has started it."""
        for run in list(self.runs):
            with suppress(*database_errors()):
                self.instance.run_coordinator.cancel_run(run)
        self.locations.__exit__(None, None, None)


def _check_that_runs_start(instance: dg.DagsterInstance) -> None:
    """Check that runs which are submitted do not wait for ever: a `dagster.yaml` of the profile `local` has a queue.

    Raises:
        DisentError: if they are put into a queue from which no daemon takes them.
    """
    if not isinstance(instance.run_coordinator, QueuedRunCoordinator):
        return
    daemon = QueuedRunCoordinatorDaemon.daemon_type()
    if not get_daemon_statuses(instance, [daemon])[daemon].healthy:
        problem = "it was made for the profile local: runs would wait for a daemon of Dagster, and none is alive"
        file = Path(instance.root_directory, "dagster.yaml")
        raise DisentError(located(file, None, problem, "Delete it, and this profile writes its own"))
