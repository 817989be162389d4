"""The job `refresh`, one run that makes what is stale or missing, and when it starts: sensors, and a schedule at night.

The command `disent materialize` runs the same job. `docs/operations.md`, section Refresh, describes it for users.
"""

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import dagster as dg
from pydantic import Field

from disent_assets import LOADED_AT
from disent_assets.lineage.factory import device_pool, prefixed_name
from disent_assets.lineage.metadata import check_result
from disent_assets.lineage.relations import state_events
from disent_assets.run.corpus_versions import CorpusVersions, are_settled, read_sources
from disent_assets.run.dagster_private import LOCATION, prepare_runs
from disent_assets.run.error_messages import failure_of_steps
from disent_assets.run.plan import StepRun, plan, steps_of
from disent_assets.run.progress import RunLog
from disent_assets.run.runner import Report, Result, run_steps
from disent_assets.run.step import DATA_VERSION, evaluation, log_news, news
from disent_assets.run.steps import command, find_states, forget_versions, observed_contents, record_states, steps_in
from disent_assets.run.workers import Load
from disent_assets.settings.environment import RunSettings, is_local
from disent_assets.settings.instance import BEGAN, FACE, HIDDEN, NOT_REPEATED, QUIET, home_tag, open_instance, used
from disent_assets.warehouse.refresh import newest_refresh, read_build, update_states
from disent_assets.web.alerts import alert_sensor, regression_sensor
from disent_core.config.load import load_config
from disent_core.config.model import signature
from disent_core.corpora.paths import FileStats, file_stats
from disent_core.errors import DisentError, TableError
from disent_core.lineage.state import State, missing_input, name_of, stale_inputs, write_published
from disent_core.lineage.steps import DATABASE
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.locks import is_shared
from disent_core.storage.tables import fingerprint

REFRESH = "refresh"  # name of the job
STEP = "make_what_is_stale"  # name of its only step
COMMAND = "user"  # run tag: the command that started it, which the UI shows in the column *Launched by*
OF_JOB = {f"{HIDDEN}_refresh": "job"}  # tag of the job's runs; `dagster.yaml` allows one at a time
NUMBER = "disent/refresh"  # tag of a run that changed numbers: its refresh number, as in the table `runs`
OF_RUN = "disent/run"  # tag of single steps' runs: the run that requested them
OF_STEPS = {COMMAND: REFRESH}  # tag of runs that make results themselves


class Extent(dg.Config):
    """What a refresh looks at."""

    everything: bool = Field(
        default=False,
        description="Read all published files again, and look at the files of all results, to find also those "
        "that were deleted or damaged.",
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
    """Return the job on a workspace whose assets are loaded; `load` makes them in other processes.

    A job that `submits` only waits for steps that run elsewhere, each in its own run. `pool` is the accelerator's, if
    the steps take it; by default the profile's. `report` receives events, in addition to the log of the run, and
    `ended` the steps' outcomes; `workers` is as for `run_steps`.
    """
    of_device = None if submits or device_pool(workspace.config) is None else pool or device_pool(workspace.config)

    def make(context: dg.OpExecutionContext, extent: Extent) -> Result:
        began = context.run.tags.get(BEGAN)
        began_at = datetime.fromisoformat(began) if began else datetime.now(UTC)
        command.set((context.run_id, began_at))
        if extent.everything:
            forget_versions(workspace)
        versions = read_sources(workspace)
        for event in observe(workspace, context.instance, versions):
            context.log_event(event)  # pyright: ignore[reportArgumentType] - it takes evaluations too
        steps, states = steps_of(workspace, assets), find_states(workspace, versions)
        runs = plan(steps, extent.selection, extent.partition, _languages(workspace, extent.partition))
        if not (extent.everything or extent.look_at_fresh):
            runs = due(runs, states)
        log = RunLog(context, workspace, {step.key: step for step in steps}, report)
        tags = {**OF_STEPS, BEGAN: began_at.isoformat(), OF_RUN: context.run_id}
        elsewhere = (context.instance, tags) if submits else None
        before = newest_refresh(read_build(workspace))
        result = run_steps(load, workspace, steps, runs, states, workers=workers, report=log, submitted_by=elsewhere)
        if extent.everything and not result.failed and not submits and runs[-1].key == steps[-1].key:
            # Only news is reported to Dagster. This tells the freshness policy that everything was checked.
            last = result.outcomes[runs[-1]]
            if not last.is_news:
                confirmed = [event for event in last.events if event.asset_key in steps[-1].asset.keys]
                log.report(runs[-1], confirmed, is_news=True)
        if (number := newest_refresh(read_build(workspace))) != before:
            context.instance.add_run_tags(context.run_id, {NUMBER: str(number)})
            context.log.info("this is refresh %s: disent diff shows which numbers it has changed", number)
        states = find_states(workspace)
        update_states(workspace, record_states(workspace, states))
        log_news(context, list(state_events(workspace)))  # even if the warehouse step failed or did not run
        chosen = [("/".join(key), run.partition) for run in runs for key in run.outputs]
        by_output = {"/".join(output): step for step in steps_in(workspace) for output in step.outputs}
        result.stale_inputs = stale_inputs(states, lambda asset, name: by_output[asset].parents(name), chosen)
        return result

    @dg.op(name=prefixed_name(workspace.prefix, STEP), pool=of_device)
    def step(context: dg.OpExecutionContext, config: Extent) -> None:
        with used(context.instance, workspace.home):
            result = make(context, config)
        ended(result)
        if result.failed:
            raise failure_of_steps({(run.key, run.partition): error for run, error in result.failed.items()})

    @dg.job(
        name=prefixed_name(workspace.prefix, REFRESH),
        tags=OF_STEPS if report else {**OF_JOB, **OF_STEPS},  # a command takes no slot in the queue
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
    """Run the job in this process on a selection, as in `plan`; return the steps' outcomes, even if some failed.

    The UI shows the command's name; other arguments as in `refresh_job`.
    """
    results: list[Result] = []
    assets, submits = load(workspace), not is_local()
    languages = _languages(workspace, partition)
    runs = plan(steps_of(workspace, assets), selections, partition, languages)  # an invalid selection creates no run
    if selections:
        _check_inputs(workspace, runs, selections, partition)
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


def _languages(workspace: Workspace, partition: str | None) -> tuple[str, ...]:
    config = workspace.config
    return config.languages_of(partition) if partition in config.training_sets else ()


def _check_inputs(
    workspace: Workspace, runs: Sequence[StepRun], selections: Sequence[str], partition: str | None
) -> None:
    """Reject a selection with steps whose inputs neither exist nor are selected, before any step runs."""
    chosen = dict.fromkeys((run.key, run.partition) for run in runs)
    if lacking := missing_input(find_states(workspace, {}), steps_in(workspace), chosen.keys()):
        missing, reader = map(name_of, lacking)
        remedy = with_upstream(selections, partition)
        raise TableError(f"{missing} has not been made, is not selected, and {reader} reads it. Run {remedy}")


_WORD = re.compile(r"[\w/:*\"]+")
"""A selection without operators."""


def with_upstream(selections: Sequence[str], partition: str | None) -> str:
    """Return the command that makes a selection and everything it is made from."""
    bare = (selection.lstrip("+") for selection in selections)
    upstream = (f"+{selection}" if _WORD.fullmatch(selection) else f"+({selection})" for selection in bare)
    return shlex.join(("disent", "materialize", *upstream, *(("--partition", partition) if partition else ())))


def due(runs: list[StepRun], states: list[State]) -> list[StepRun]:
    """Return the steps with an asset that is not fresh, or depends on one that is not fresh."""
    open_ = {(state.asset, state.partition) for state in states if not state.is_settled}
    return [run for run in runs if any(("/".join(key), run.partition) in open_ for key in run.outputs)]


def observe(
    workspace: Workspace, instance: dg.DagsterInstance, versions: Mapping[Key, CorpusVersions]
) -> list[dg.AssetObservation | dg.AssetCheckEvaluation]:
    """Record the current versions of the published files; return the events to report to Dagster."""
    if all(read.is_complete for read in versions.values()):
        write_published(workspace, observed_contents(versions))
    events: list[dg.AssetObservation | dg.AssetCheckEvaluation] = []
    for key, read in versions.items():
        asset = dg.AssetKey([*workspace.prefix, *key])
        log, kind = instance.event_log_storage, dg.DagsterEventType.ASSET_OBSERVATION
        known = log.get_latest_tags_by_partition(asset, kind, [DATA_VERSION])
        for name, version in read.versions.items():
            if known.get(name, {}).get(DATA_VERSION) != version:
                events.append(dg.AssetObservation(asset, partition=name, tags={DATA_VERSION: version}))
    checked = [
        evaluation(dg.AssetKey([*workspace.prefix, *key]), check_result(key, read.check))
        for key, read in versions.items()
        if read.is_complete
    ]
    return [*events, *news(instance, checked)]  # pyright: ignore[reportReturnType] - none of these is a result


# --- sensors and schedule ---------------------------------------------------------------------------------------------

LOOK_SECONDS, LOOK_EVERY_SECONDS = 20, 5
"""Seconds of hashing allowed in a sensor tick (Dagster ends a tick after a minute), and seconds between ticks."""
RELOAD_EVERY_SECONDS = 15
LOAD_SECONDS = 40  # limit of test-loading changed code in another process
NIGHTLY = "0 3 * * *"  # at 03:00 UTC
RELOAD = """mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }"""
BACKFILL = "dagster/backfill"  # tag of runs that the UI starts for several assets or partitions
REQUESTED = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]


def automated(load: Load, workspace: Workspace, settings: RunSettings) -> dg.Definitions:
    """Return the assets of a workspace, the job that refreshes them, and the sensor and schedule that start it."""
    assets = load(workspace)
    elsewhere = settings.profile != "local"
    refresh = refresh_job(load, assets, workspace, workers=settings.workers, submits=elsewhere)
    loaded = fingerprint(definitions_signature(assets), settings.started)
    sensors = [look_sensor(workspace, refresh, loaded), _reload_sensor(load, workspace, settings.ui)]
    if settings.alerts:
        sensors.append(alert_sensor(settings.alerts, settings.ui))
        sensors.append(regression_sensor(settings.alerts, settings.ui, [*workspace.prefix, *DATABASE]))
    return dg.Definitions(
        assets=assets.assets,
        asset_checks=assets.asset_checks,
        jobs=[refresh],
        schedules=[nightly_schedule(workspace, refresh)],
        sensors=sensors,
    )


def definitions_signature(assets: dg.Definitions) -> str:
    """Return the fingerprint of what to make: every asset with its partitions and code version."""
    graph = assets.resolve_asset_graph()
    nodes = [(node, node.partitions_def) for node in map(graph.get, sorted(graph.get_all_asset_keys()))]
    return fingerprint(
        [(node.key.path, node.code_version, names and names.get_partition_keys()) for node, names in nodes]
    )


# --- what starts a refresh --------------------------------------------------------------------------------


def look_sensor(
    workspace: Workspace, refresh: dg.JobDefinition, loaded: str, keys: Sequence[dg.AssetKey] | None = None
) -> dg.SensorDefinition:
    """Return the sensor that starts a refresh after a change in what the workspace is made from.

    `loaded` is the fingerprint of the assets. With `keys`, the instance has other assets than these, and the sensor
    must be started by hand.
    """

    @dg.sensor(
        name=prefixed_name(workspace.prefix, "start_refresh"),
        job=refresh,
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if keys is None else dg.DefaultSensorStatus.STOPPED,
        description="Starts one refresh if published files, the configuration or the code have changed, or a result "
        "was made by hand. If you stop it, only the nightly refresh runs by itself.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        by_key = read_sources(workspace, seconds=LOOK_SECONDS)
        events = observe(workspace, context.instance, by_key)
        by_hand = newest_by_hand(context.instance, keys) or (context.cursor or "").partition(" ")[0]
        # Changes during a refresh are not in its cursor, so the next tick after it requests another.
        contents = [(key, sorted(read.versions.items()), read.unreadable) for key, read in by_key.items()]
        seen = f"{by_hand} {fingerprint(loaded, contents)}"
        is_due = bool(context.instance.get_runs(dg.RunsFilter(job_name=refresh.name, statuses=REQUESTED), limit=1))
        is_filled = has_backfill(context.instance, keys)
        reason = _reason_to_wait(workspace, by_key, is_new=seen != context.cursor, is_due=is_due, is_filled=is_filled)
        if reason is not None:
            return dg.SensorResult(skip_reason=reason, asset_events=events)
        return dg.SensorResult([dg.RunRequest()], cursor=seen, asset_events=events)

    return look


def has_backfill(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey] | None) -> bool:
    """Return whether a backfill run of these assets (None: all) is waiting or in progress."""
    open_ = instance.get_runs(dg.RunsFilter(statuses=[*REQUESTED, dg.DagsterRunStatus.STARTED]))
    of_backfill = [run.asset_selection for run in open_ if BACKFILL in run.tags]
    return any(keys is None or selection is None or selection & set(keys) for selection in of_backfill)


def newest_by_hand(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey] | None) -> str:
    """Return the run that made the newest result of these assets (None: all); empty if a refresh, or in progress.

    Whatever depends on a result made by hand may be stale.
    """
    log = instance.event_log_storage
    if keys is None:
        records = log.get_event_records(dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION), limit=1)
    else:
        records = [record.asset_entry.last_materialization_record for record in log.get_asset_records(keys)]
    newest = max(filter(None, records), key=lambda record: record.storage_id, default=None)
    if newest is None:
        return ""
    run = instance.get_run_by_id(newest.run_id)
    is_by_hand = run is None or (run.is_finished and not OF_STEPS.items() <= run.tags.items())
    return (newest.run_id or str(newest.storage_id)) if is_by_hand else ""


def _reason_to_wait(
    workspace: Workspace, by_key: Mapping[Key, CorpusVersions], *, is_new: bool, is_due: bool, is_filled: bool
) -> str | None:
    if not all(read.is_complete for read in by_key.values()):
        return "Hashing is not finished; the next tick continues it."
    if not is_new:
        unreadable = [f"{key[-1]} [{name}]" for key, read in by_key.items() for name in read.unreadable]
        return f"Nothing has changed. Can't be read: {', '.join(unreadable)}" if unreadable else "Nothing has changed."
    if is_due:
        return "A refresh is about to start."
    if is_filled:
        return "Something has changed; waiting for the running backfill."
    lock = workspace.home / "dagster" / "processes.lock"
    if lock.is_file() and is_shared(lock):  # a killed refresh or command does not count
        return "Something has changed; waiting for the running refresh or command."
    return None


def nightly_schedule(workspace: Workspace, refresh: dg.JobDefinition, *, starts: bool = True) -> dg.ScheduleDefinition:
    """Return the schedule of a refresh that checks everything; unless it `starts`, it must be started by hand."""
    return dg.ScheduleDefinition(
        name=prefixed_name(workspace.prefix, "refresh_at_night"),
        job=refresh,
        run_config=dg.RunConfig(ops={prefixed_name(workspace.prefix, STEP): Extent(everything=True)}),
        cron_schedule=NIGHTLY,
        default_status=dg.DefaultScheduleStatus.RUNNING if starts else dg.DefaultScheduleStatus.STOPPED,
        description="Repairs what the sensors can't see, such as a deleted file of results.",
    )


# --- configuration and code -------------------------------------------------------------------------------


def _reload_sensor(load: Load, workspace: Workspace, ui: str | None) -> dg.SensorDefinition:
    # All loaded modules, as they declare the versions of steps. Code that only computes is loaded in a step's process.
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    sources = sorted({Path(file) for file in files if file})
    loaded = _stats(sources)

    @dg.sensor(
        name="load_changed_configuration",
        minimum_interval_seconds=RELOAD_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reloads the code location when the configuration, the languages and pairs of the corpora, or the "
        "code of disent and of the modules that the configuration names have changed: partitions and versions are made "
        "at load.",
    )
    def reload(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        code = _stats(sources)
        state = _file_state(workspace, code)
        if state is not None and state == context.cursor:
            return dg.SkipReason("Nothing has changed.")
        # A reload's cursor has the state before it, so edits during the reload differ from it.
        is_edited = code != loaded or any(max(stat[2:4]) > LOADED_AT for stat in code)
        if is_edited and state is None:
            reason, is_done = "The code was just edited; waiting a moment.", False
        elif is_edited:
            error = load_error()  # the same code is not tried twice
            reason, is_done = (f"The previous code stays in use: {error}", True) if error else _reload("code", ui)
        else:
            reason, is_done = _reload_if_changed(load, workspace, ui)
        return dg.SensorResult(skip_reason=reason, cursor=state if is_done else None)

    return reload


def _stats(paths: Sequence[Path]) -> FileStats:
    return [stat for path in paths for stat in file_stats(path)]


def _file_state(workspace: Workspace, code: FileStats) -> str | None:
    """Return the fingerprint of the loaded configuration, and of the stats of its files and the code.

    None while files are too young: stats of files just written may miss changes, see `corpus_versions`.
    """
    config = workspace.config
    stats = [*_stats([config.path, *(workspace.corpus_path(corpus.name) for corpus in config.corpora)]), *code]
    return fingerprint(signature(config), stats) if are_settled(stats, time.time_ns()) else None


def load_error() -> str | None:
    """Return why a new process can't load the definitions; None if it can."""
    command = [sys.executable, "-c", "from disent_assets.definitions import defs; defs().resolve_asset_graph()"]
    try:
        loaded = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"loading it takes more than {LOAD_SECONDS} s"
    return None if loaded.returncode == 0 else (loaded.stderr.strip().splitlines() or ["it ended with no message"])[-1]


def _reload_if_changed(load: Load, workspace: Workspace, ui: str | None) -> tuple[str, bool]:
    """Reload a changed configuration; return the message for the UI, and whether nothing is left to do.

    A configuration with errors is not loaded: a code location that fails to load has no sensor to recover it.
    """
    try:
        config = load_config(workspace.config.path)
        if signature(config) == signature(workspace.config):
            return "Nothing has changed.", True
        load(Workspace(config, workspace.home)).resolve_asset_graph()
    except (DisentError, ValueError, dg.DagsterError) as error:
        return f"The previous configuration stays in use: {error}", False
    reason, _ = _reload("configuration", ui)
    return reason, False


def _reload(changed: str, ui: str | None) -> tuple[str, bool]:
    """Ask the web server to reload the code location; return the message for the UI, and whether it does."""
    query = json.dumps({"query": RELOAD, "variables": {"name": LOCATION}}).encode()
    with suppress(URLError, TimeoutError, ConnectionError):
        if ui is not None:
            with urlopen(Request(f"{ui}/graphql", query, {"Content-Type": "application/json"}), timeout=30) as answer:
                if answer.status == 200:
                    return f"The {changed} has changed and is loaded again.", True
    return f"The {changed} has changed. Reload the code location '{LOCATION}' on the page Deployment.", False
