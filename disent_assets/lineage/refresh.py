"""The job `refresh`: one run that makes what is stale or missing, independent partitions side by side.

The command `disent materialize` runs the same job. When a refresh starts is in `automation.py`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import dagster as dg
from pydantic import Field

from disent_assets.lineage.compute import device_pool
from disent_assets.lineage.corpus_versions import read_sources
from disent_assets.lineage.factory import prefixed_name
from disent_assets.run.asset_steps import AssetStep, command, steps_in, steps_of
from disent_assets.run.dagster_private import prepare_runs
from disent_assets.run.events import RunLog
from disent_assets.run.plan import StepRun, plan
from disent_assets.run.runner import Report, Result, run_steps
from disent_assets.run.status import find_states, forget_versions, observe, record_states
from disent_assets.run.step import compute
from disent_assets.settings.environment import is_local
from disent_assets.settings.instance import BEGAN, FACE, HIDDEN, NOT_REPEATED, QUIET, home_tag, open_instance, used
from disent_core.lineage.state import State, stale_inputs
from disent_core.lineage.workspace import Workspace

Load = Callable[[Workspace], dg.Definitions]
REFRESH = "refresh"
"""Name of the job."""
STEP = "make_what_is_stale"
"""Name of its only step."""
COMMAND = "user"
"""Tag of a run: the command that started it. The UI shows it in the column *Launched by*."""
OF_JOB = {f"{HIDDEN}_refresh": "job"}
"""Tag of the job's runs; `dagster.yaml` lets one of them run at a time."""
OF_STEPS = {COMMAND: REFRESH}
"""Tag of the runs that make results by themselves."""


class Extent(dg.Config):
    """What a refresh looks at."""

    everything: bool = Field(
        default=False,
        description="Read all published files again, and look at the files of all results: it also finds those that "
        "were deleted or damaged.",
    )
    look_at_fresh: bool = Field(default=False, description="Look at the files of all results.")
    selection: list[str] = Field(default=[], description="Only these assets: names of stages, or Dagster's syntax.")
    partition: str | None = Field(default=None, description="Only this partition, and what it is made from.")


def refresh_job(
    load: Load,
    assets: dg.Definitions,
    workspace: Workspace,
    *,
    workers: int | None,
    submits: bool = False,
    pool: str | None = None,
    report: Report | None = None,
    ended: Callable[[Result], None] = lambda _: None,
) -> dg.JobDefinition:
    """Return the job on a workspace whose assets are loaded.

    Args:
        load: makes the assets in other processes.
        assets: of the workspace.
        workspace: its configuration and folder of results.
        workers: how many steps run at once; None as for `run_steps`.
        submits: whether they run elsewhere, each in a run of its own; this job then only waits for them.
        pool: of the accelerator, if the steps take it; by default that of the profile.
        report: receives what happens, beside the log of the run.
        ended: receives what came of the steps.
    """
    of_device = None if submits or device_pool(workspace.config) is None else pool or device_pool(workspace.config)

    @dg.op(name=prefixed_name(workspace.prefix, STEP), pool=of_device)
    def step(context: dg.OpExecutionContext, config: Extent) -> None:
        with used(context.instance, workspace.home):
            result = _make(context, config, load, steps_of(workspace, assets), workspace, workers, submits, report)
        ended(result)
        if result.failed:
            raise failure_of(result.failed)

    @dg.job(
        name=prefixed_name(workspace.prefix, REFRESH),
        tags=OF_STEPS if report else {**OF_JOB, **OF_STEPS},  # a command takes no place in the queue
        executor_def=dg.in_process_executor if submits else None,
        description="Makes what is stale or missing, like `disent materialize`; its log has what every step made.",
    )
    def job() -> None:
        step()

    return job


def run_command(
    load: Load,
    workspace: Workspace,
    name: str,
    selections: Sequence[str],
    partition: str | None,
    *,
    workers: int | None,
    report: Report,
) -> Result:
    """Run the job in this process on a selection; return what came of its steps, also if some failed.

    Args:
        load: makes the assets of a workspace.
        workspace: to run in.
        name: of the command, for the UI.
        selections: as for `plan`.
        partition: as for `plan`.
        workers: as for `run_steps`.
        report: receives what happens.
    """
    results: list[Result] = []
    assets, submits = load(workspace), not is_local()
    plan(steps_of(workspace, assets), selections, partition)  # an error of the selection makes no run
    job = refresh_job(load, assets, workspace, workers=workers, submits=submits, report=report, ended=results.append)
    extent = Extent(look_at_fresh=True, selection=list(selections), partition=partition)
    tags = {**FACE, **NOT_REPEATED, COMMAND: name, BEGAN: datetime.now(UTC).isoformat()}
    with open_instance(workspace.home) as instance:
        prepare_runs(instance, REFRESH)
        with suppress(dg.Failure):
            job.execute_in_process(
                instance=instance,
                run_config={**QUIET, "ops": {STEP: {"config": extent.model_dump()}}},
                tags=tags | home_tag(instance),
            )
    return results[0]


def _make(
    context: dg.OpExecutionContext,
    extent: Extent,
    load: Load,
    steps: list[AssetStep],
    workspace: Workspace,
    workers: int | None,
    submits: bool,
    report: Report | None,
) -> Result:
    began = context.run.tags.get(BEGAN)
    began_at = datetime.fromisoformat(began) if began else datetime.now(UTC)
    command.set((context.run_id, began_at))
    if extent.everything:
        forget_versions(workspace)
    versions = read_sources(workspace)
    for event in observe(workspace, context.instance, versions):
        context.log_event(event)
    found = find_states(workspace, versions)
    runs = plan(steps, extent.selection, extent.partition)
    if not (extent.everything or extent.look_at_fresh):
        runs = due(runs, found)
    log = RunLog(context, workspace, {step.key: step for step in steps}, report)
    tags = {**OF_STEPS, BEGAN: began_at.isoformat()}
    result = run_steps(
        load,
        workspace,
        steps,
        runs,
        found,
        workers=workers,
        report=log,
        submitted_by=(context.instance, tags) if submits else None,
    )
    if extent.everything and not result.failed and not submits and runs[-1].key == steps[-1].key:
        # Nothing is reported that Dagster knows. This tells the freshness policy that all was looked at.
        log.report(runs[-1], compute(workspace, steps[-1], None).events, is_news=True)
    found = find_states(workspace)
    record_states(workspace, found)
    chosen = [("/".join(key), run.partition) for run in runs for key in run.outputs]
    by_output = {"/".join(output): step for step in steps_in(workspace) for output in step.outputs}
    result.stale_inputs = stale_inputs(found, lambda asset, name: by_output[asset].parents(name), chosen)
    return result


def due(runs: list[StepRun], found: list[State]) -> list[StepRun]:
    """Return the steps with an asset that is not fresh, or depends on one that is not."""
    open_ = {(state.asset, state.partition) for state in found if not state.is_settled}
    return [run for run in runs if any(("/".join(key), run.partition) in open_ for key in run.outputs)]


def failure_of(failed: dict[StepRun, str]) -> dg.Failure:
    """Return the failure of a refresh; an alert takes the list from its metadata."""
    listed = [{"step": step.name, "partition": step.partition, "error": error} for step, error in failed.items()]
    lines = [f"{step}: {error}" for step, error in failed.items()]
    return dg.Failure("\n".join(lines), metadata={"failed": dg.MetadataValue.json(listed)}, allow_retries=False)
