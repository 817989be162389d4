"""The job `refresh`: one run that makes what is stale or missing, independent partitions side by side.

What belongs here: what one refresh does. What does not: when it starts, see `automation.py`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

import dagster as dg
from pydantic import Field

from disent_assets.factory import prefixed_name
from disent_assets.instance import HIDDEN, open_instance
from disent_assets.plan import Step, plan
from disent_assets.published_files import observe
from disent_assets.run_step import COMMAND, Outcome, run_step
from disent_assets.runner import Report, run_steps
from disent_assets.status import State, states
from disent_core.experiment.workspace import Workspace

Load = Callable[[Workspace], dg.Definitions]
Open = Callable[[dg.OpExecutionContext], AbstractContextManager[dg.DagsterInstance]]
"""Opens the instance that records the runs of the steps."""

REFRESH = "refresh"
"""Name of the job."""
STEP = "make_what_is_stale"
"""Name of its only step."""
OF_JOB = {f"{HIDDEN}_refresh": "job"}
"""Tag of the job's runs; `dagster.yaml` lets one of them run at a time."""
OF_STEPS = {COMMAND: REFRESH}
"""Tag of the runs of its steps."""


class Extent(dg.Config):
    """What a refresh looks at."""

    everything: bool = Field(
        default=False,
        description="Read all published files again, and look at the files of all results: it also finds those that "
        "were deleted or damaged.",
    )


def refresh_job(
    load: Load,
    assets: dg.Definitions,
    workspace: Workspace,
    *,
    workers: int | None,
    submits: bool = False,
    opened: Open | None = None,
) -> dg.JobDefinition:
    """The job on a workspace whose assets are loaded.

    Args:
        load: makes the assets in other processes.
        assets: of the workspace.
        workspace: its configuration and folder of results.
        workers: how many steps run at once; None as for `run_steps`.
        submits: whether they run elsewhere; this job then only waits for them.
        opened: gives the instance that records the runs of the steps; by default, that of the folder of results.
    """

    @dg.op(name=prefixed_name(workspace.prefix, STEP))
    def step(context: dg.OpExecutionContext, config: Extent) -> None:
        with opened(context) if opened else open_instance(workspace.home) as instance:
            observe(workspace, instance, hash_again=config.everything)
            steps = plan(assets, prefix=workspace.prefix)
            chosen = steps if config.everything else due(steps, states(workspace, assets, instance))
            report = _Log(context.log)
            result = run_steps(
                load, workspace, chosen, instance, workers=workers, report=report, tags=OF_STEPS, submits=submits
            )
            if config.everything and not result.failed:
                # A step that is up to date has no run. This one tells the freshness policy that all was looked at.
                run_step(assets, steps[-1], instance, tags=OF_STEPS)
        if result.failed:
            raise failure_of(result.failed)

    @dg.job(
        name=prefixed_name(workspace.prefix, REFRESH),
        tags=OF_JOB,
        executor_def=dg.in_process_executor if submits else None,
        description="Makes what is stale or missing, like `disent materialize`. Every result that it makes has a run.",
    )
    def job() -> None:
        step()

    return job


def due(steps: Sequence[Step], of_all: Iterable[State]) -> list[Step]:
    """The steps with an asset that is not fresh, or depends on one that is not.

    Args:
        steps: of a plan.
        of_all: the states of all partitions.
    """
    open_ = {(state.asset, state.partition) for state in of_all if not state.is_settled}
    return [step for step in steps if any((key.to_user_string(), step.partition) in open_ for key in step.keys)]


def failure_of(failed: dict[Step, str]) -> dg.Failure:
    """The failure of a refresh; an alert takes the list from its metadata."""
    listed = [{"step": step.name, "partition": step.partition, "error": error} for step, error in failed.items()]
    lines = [f"{step}: {error}" for step, error in failed.items()]
    return dg.Failure("\n".join(lines), metadata={"failed": dg.MetadataValue.json(listed)}, allow_retries=False)


class _Log(Report):
    """Writes what happens to the log of the run."""

    def __init__(self, log: logging.Logger) -> None:
        self.lines = log

    def begin(self, step: Step) -> None:
        self.lines.info("%s", step)

    def end(self, step: Step, outcome: Outcome) -> None:
        if outcome.failure is not None:
            self.lines.error("%s: %s", step, outcome.failure)

    def block(self, step: Step) -> None:
        self.lines.warning("%s: not made, because something that it needs has failed", step)

    def log(self, step: Step, level: int, text: str) -> None:
        self.lines.log(level, "%s: %s", step, text)
