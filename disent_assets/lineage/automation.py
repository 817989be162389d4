"""When results are refreshed: sensors that see changes, and a schedule at night.

What belongs here: when the job `refresh` runs. What does not: what it does, see `refresh.py`. `docs/operations.md`,
section Refresh, describes both for users.
"""

import fcntl
import json
import time
from collections.abc import Mapping, Sequence
from urllib.error import URLError
from urllib.request import Request, urlopen

import dagster as dg

from disent_assets.lineage.corpus_versions import CorpusVersions, are_settled, read_sources
from disent_assets.lineage.factory import prefixed_name
from disent_assets.lineage.refresh import OF_STEPS, STEP, Extent, Load, refresh_job
from disent_assets.run.dagster_private import LOCATION
from disent_assets.run.status import observe
from disent_assets.settings.environment import RunSettings
from disent_assets.web.alerts import alert_sensor
from disent_core.config.load import load_config
from disent_core.config.signature import signature
from disent_core.corpora.paths import file_stats
from disent_core.errors import DisentError
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.tables import fingerprint

LOOK_SECONDS, LOOK_EVERY_SECONDS = 20, 5
"""Limit of hashing in one tick of the sensor (Dagster ends a tick after a minute), and the time between two ticks."""
RELOAD_EVERY_SECONDS = 15
NIGHTLY = "0 3 * * *"
"""At 03:00 UTC."""
RELOAD = """mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }"""
REQUESTED = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]


def automated(load: Load, workspace: Workspace, settings: RunSettings) -> dg.Definitions:
    """The assets, the job that refreshes them, and what starts it.

    Args:
        load: makes the assets of a workspace.
        workspace: the workspace whose assets are loaded.
        settings: of the process.
    """
    assets = load(workspace)
    elsewhere = settings.profile != "local"
    refresh = refresh_job(load, assets, workspace, workers=settings.workers, submits=elsewhere)
    alerts = [alert_sensor(settings.alerts, settings.ui)] if settings.alerts else []
    loaded = fingerprint(definitions_signature(assets), settings.started)
    look = look_sensor(workspace, refresh, loaded)
    return dg.Definitions(
        assets=assets.assets,
        jobs=[refresh],
        schedules=[nightly_schedule(workspace, refresh)],
        sensors=[look, _reload_sensor(load, workspace, settings.ui), *alerts],
    )


def definitions_signature(assets: dg.Definitions) -> str:
    """Fingerprint of what is to be made: every asset with its partitions and the version of its code."""
    graph = assets.resolve_asset_graph()
    nodes = [graph.get(key) for key in sorted(graph.get_all_asset_keys())]
    return fingerprint(
        [
            (node.key.path, node.code_version, node.partitions_def and node.partitions_def.get_partition_keys())
            for node in nodes
        ]
    )


# --- what starts a refresh --------------------------------------------------------------------------------


def look_sensor(
    workspace: Workspace, refresh: dg.JobDefinition, loaded: str, own: Sequence[dg.AssetKey] | None = None
) -> dg.SensorDefinition:
    """Starts one refresh after a change of what the workspace is made from.

    Args:
        workspace: whose published files are looked at.
        refresh: the job that it starts.
        loaded: fingerprint of the assets.
        own: keys of the assets, in an instance with other assets; there, somebody has to start the sensor.
    """

    @dg.sensor(
        name=prefixed_name(workspace.prefix, "start_refresh"),
        job=refresh,
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if own is None else dg.DefaultSensorStatus.STOPPED,
        description="Starts one refresh if published files, the configuration or the code have changed, or a result "
        "was made by hand. If you stop it, only the nightly refresh runs by itself.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        by_key = read_sources(workspace, seconds=LOOK_SECONDS)
        events = observe(workspace, context.instance, by_key)
        by_hand = newest_by_hand(context.instance, own) or (context.cursor or "").partition(" ")[0]
        # Whatever changes while a refresh runs is not in its cursor, so the next tick after it asks for another.
        seen = f"{by_hand} {fingerprint(loaded, _contents(by_key))}"
        is_due = bool(context.instance.get_runs(dg.RunsFilter(job_name=refresh.name, statuses=REQUESTED), limit=1))
        reason = _reason_to_wait(workspace, by_key, is_new=seen != context.cursor, is_due=is_due)
        if reason is not None:
            return dg.SensorResult(skip_reason=reason, asset_events=events)
        return dg.SensorResult([dg.RunRequest()], cursor=seen, asset_events=events)

    return look


def _contents(by_key: Mapping[Key, CorpusVersions]) -> list[object]:
    return [(key, sorted(read.versions.items()), read.unreadable) for key, read in by_key.items()]


def newest_by_hand(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey] | None) -> str:
    """The run that made the newest result; empty if a refresh has made it, or the run goes on.

    What depends on a result that was made by hand may be stale.

    Args:
        instance: that has recorded the results.
        keys: of the assets that count; None for all.
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
    workspace: Workspace, by_key: Mapping[Key, CorpusVersions], *, is_new: bool, is_due: bool
) -> str | None:
    if not all(read.is_complete for read in by_key.values()):
        return "Hashing is not finished; the next tick continues it."
    if not is_new:
        unreadable = [f"{key[-1]} [{name}]" for key, read in by_key.items() for name in read.unreadable]
        return f"Nothing has changed. Can't be read: {', '.join(unreadable)}" if unreadable else "Nothing has changed."
    if is_due:
        return "A refresh is about to start."
    if _is_busy(workspace):
        return "Something has changed; waits for the refresh or the command that runs."
    return None


def _is_busy(workspace: Workspace) -> bool:
    """Whether a refresh or a command has opened the results; the system notices if it is killed."""
    lock = workspace.home / "dagster" / "processes.lock"
    if not lock.is_file():
        return False
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def nightly_schedule(workspace: Workspace, refresh: dg.JobDefinition, *, starts: bool = True) -> dg.ScheduleDefinition:
    """Starts a refresh that looks at everything; unless it `starts` by itself, when somebody has started it."""
    return dg.ScheduleDefinition(
        name=prefixed_name(workspace.prefix, "refresh_at_night"),
        job=refresh,
        run_config=dg.RunConfig(ops={prefixed_name(workspace.prefix, STEP): Extent(everything=True)}),
        cron_schedule=NIGHTLY,
        default_status=dg.DefaultScheduleStatus.RUNNING if starts else dg.DefaultScheduleStatus.STOPPED,
        description="Repairs what the sensors can't see, such as a deleted file of results.",
    )


# --- configuration ----------------------------------------------------------------------------------------


def _reload_sensor(load: Load, workspace: Workspace, ui: str | None) -> dg.SensorDefinition:
    @dg.sensor(
        name="load_changed_configuration",
        minimum_interval_seconds=RELOAD_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reloads the configuration when it, or the languages and pairs of the corpora, have changed: "
        "partitions are made at load.",
    )
    def reload(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        state = _file_state(workspace)
        if state is not None and state == context.cursor:
            return dg.SkipReason("Nothing has changed.")
        reason, is_done = _reload_if_changed(load, workspace, ui)
        return dg.SensorResult(skip_reason=reason, cursor=state if is_done else None)

    return reload


def _file_state(workspace: Workspace) -> str | None:
    """Fingerprint of the loaded configuration and of the stats of the files behind it; None while they are too young.

    Stats of files that were just written do not show every change, see `corpus_versions`.
    """
    config = workspace.config
    paths = [config.path, *(workspace.corpus_path(corpus.name) for corpus in config.corpora)]
    stats = [stat for path in paths for stat in file_stats(path)]
    is_settled = are_settled(stats, time.time_ns())
    return fingerprint(signature(config), stats) if is_settled else None


def _reload_if_changed(load: Load, workspace: Workspace, ui: str | None) -> tuple[str, bool]:
    """Reload a changed configuration; returns the message for the UI, and whether nothing is left to do.

    A configuration with errors is not loaded: a code location that fails to load has no sensor that could repair it.
    """
    try:
        config = load_config(workspace.config.path)
        if signature(config) == signature(workspace.config):
            return "Nothing has changed.", True
        load(Workspace(config, workspace.home)).resolve_asset_graph()
    except (DisentError, ValueError, dg.DagsterError) as error:
        return f"The last configuration stays: {error}", False
    if ui is None or not _request_reload(ui):
        return f"The configuration has changed. Reload the code location '{LOCATION}' on the page Deployment.", False
    return "The configuration has changed and is loaded again.", False


def _request_reload(ui: str) -> bool:
    """Ask the web server to reload the code location; returns whether it has answered."""
    query = json.dumps({"query": RELOAD, "variables": {"name": LOCATION}}).encode()
    try:
        with urlopen(Request(f"{ui}/graphql", query, {"Content-Type": "application/json"}), timeout=30) as answer:
            return answer.status == 200
    except (URLError, TimeoutError, ConnectionError):
        return False
