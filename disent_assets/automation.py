"""Automatic refresh: sensors, schedules and the condition under which an asset runs.

What belongs here: when assets run. What does not: what they do; every step checks itself whether its inputs have
changed. `docs/operations.md`, section Refresh, describes it for users.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph import executable_in_same_run
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph

from disent_assets.corpus_versions import (
    CorpusVersions,
    are_settled,
    stamps,
)
from disent_assets.instance import FACE, open_instance
from disent_assets.plan import plan
from disent_assets.published_files import observations, observe, read_versions
from disent_assets.runner import run_steps
from disent_core.config.load import load_config
from disent_core.config.model import Config
from disent_core.errors import DisentError
from disent_core.experiment.workspace import Workspace
from disent_core.storage.tables import fingerprint

OBSERVE_SECONDS, OBSERVE_EVERY_SECONDS = 20, 10
"""Limit of hashing in one tick of the sensor (Dagster ends a tick after a minute), and the time between two ticks."""
EVALUATE_EVERY_SECONDS = 5
RELOAD_EVERY_SECONDS = 15
NIGHTLY = "0 3 * * *"
"""At 03:00 UTC."""
LOCATION = "disent"
"""Name of the code location in `workspace.yaml`."""
RELOAD = """mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }"""


@dataclass(frozen=True)
class Place:
    """The place of an asset in the graph, as its condition needs it.

    Attributes:
        same_run_parents: parents whose run includes the asset too; the step then checks itself whether it is stale.
        distant_ancestors: ancestors beyond its parents that it waits for.
    """

    same_run_parents: tuple[dg.AssetKey, ...] = ()
    distant_ancestors: tuple[dg.AssetKey, ...] = ()


def condition(place: Place) -> dg.AutomationCondition[dg.AssetKey]:
    """The condition under which a partition runs: a dependency or the code has changed, or the partition is missing.

    It compares content, not time: a parent that was made again with equal content starts no run. A change during the
    run of a partition starts another run after it; Dagster's `since_last_handled` would lose that change. A failed
    run is not repeated until something has changed; `run_retries` repeats a run whose process has died once.
    A change by a same-run parent in the shared run does not count, because the asset has read it in that run.
    """
    of = dg.AutomationCondition
    requested, updated = of.newly_requested(), of.newly_updated()
    same_run_parents = dg.AssetSelection.assets(*place.same_run_parents)
    joins_run = of.any_deps_match(of.will_be_requested()).allow(same_run_parents)
    changed = of.any_deps_match(of.data_version_changed())
    by_others = changed.ignore(same_run_parents)
    by_daemon = updated & ~of.all_new_updates_have_run_tags(tag_values=FACE)
    during_run = (by_others | joins_run) & (of.in_progress() | by_daemon)
    pending = (changed | joins_run).since(requested | updated).with_label("a dependency has changed")
    is_stale = (
        pending
        | during_run.since(requested & ~during_run).with_label("a dependency has changed during the run")
        | of.code_version_changed().since(requested | updated).with_label("the code has changed")
        | of.newly_missing().since(requested | updated).with_label("it is missing")
    )
    # A change reaches the asset on several paths of different length: it runs once the last of them has arrived.
    is_coming = (changed.since(requested | updated) & ~of.will_be_requested()) | of.in_progress()
    blocked = of.any_deps_missing() | of.in_progress() | of.any_deps_match(is_coming)
    blocked |= of.any_deps_match(of.any_deps_in_progress())
    for key in place.distant_ancestors:
        blocked |= of.asset_matches(key, is_coming)
    ready = is_stale & ~blocked.with_label("blocked")
    # A run may end during the evaluation. This tick then sees its end, but only the next tick sees its results.
    return (ready & (joins_run | ~ready.newly_true()) if place.same_run_parents else ready).with_label("refresh")


Load = Callable[[Workspace], dg.Definitions]


def automated(load: Load, workspace: Workspace, ui: str | None) -> dg.Definitions:
    """The assets with their condition, the sensors, the job and the schedule.

    Args:
        load: makes the assets of a workspace.
        workspace: the workspace whose assets are loaded.
        ui: address of the web server, which reloads a changed configuration on request; None if there is none.
    """
    assets = load(workspace)
    refresh = _refresh_job(load, assets, workspace)
    return dg.Definitions(
        assets=with_condition(assets),
        jobs=[refresh],
        schedules=[_nightly_schedule(refresh)],
        sensors=[_refresh_sensor(), _observation_sensor(workspace), _reload_sensor(load, workspace, ui)],
    )


def with_condition(assets: dg.Definitions) -> list[Any]:
    """The same assets; every asset that is materialised, not just observed, gets its condition."""
    graph = assets.resolve_asset_graph()

    def conditioned(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(automation_condition=condition(place_of(graph, spec.key)))

    return [
        asset.map_asset_specs(conditioned)
        if isinstance(asset, dg.AssetsDefinition) and asset.is_materializable
        else asset
        for asset in assets.assets or ()
    ]


def place_of(graph: BaseAssetGraph, key: dg.AssetKey) -> Place:
    """The place of an asset; an ancestor counts as distant only if it, or the asset, has no partitions."""
    node = graph.get(key)
    parents = {parent for parent in node.parent_keys if graph.get(parent).is_materializable}
    ancestors = graph.get_ancestor_asset_keys(key) - parents - {key}
    distant = {
        ancestor
        for ancestor in ancestors
        if graph.get(ancestor).is_materializable and None in (node.partitions_def, graph.get(ancestor).partitions_def)
    }
    return Place(
        same_run_parents=tuple(sorted(parent for parent in parents if executable_in_same_run(graph, key, parent))),
        distant_ancestors=tuple(sorted(distant)),
    )


def _refresh_sensor() -> dg.AutomationConditionSensorDefinition:
    return dg.AutomationConditionSensorDefinition(
        "refresh_what_has_changed",
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=EVALUATE_EVERY_SECONDS,
        emit_backfills=False,  # a backfill waits half a minute between any two levels of the graph
        description="Runs whatever depends on changed content. If you stop it, only the nightly job runs by itself.",
    )


# --- published files --------------------------------------------------------------------------------------


def _observation_sensor(workspace: Workspace) -> dg.SensorDefinition:
    @dg.sensor(
        name="look_at_published_files",
        minimum_interval_seconds=OBSERVE_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reads the files of the corpora and records new content. Starts no run.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        by_key = read_versions(workspace, seconds=OBSERVE_SECONDS)
        events = list(observations(context.instance, by_key))
        return dg.SensorResult(asset_events=events) if events else dg.SkipReason(_skip_reason(by_key))

    return look


def _skip_reason(by_key: Mapping[dg.AssetKey, CorpusVersions]) -> str:
    unreadable = [f"{key.path[-1]} [{name}]" for key, read in by_key.items() for name in read.unreadable]
    if not all(read.is_complete for read in by_key.values()):
        return "Hashing is not finished; the next tick continues it."
    return f"Nothing has changed. Can't be read: {', '.join(unreadable)}" if unreadable else "Nothing has changed."


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
    """Fingerprint of the loaded configuration and of the stamps of the files behind it; None while they are too young.

    Stamps of files that were just written do not show every change, see `corpus_versions`.
    """
    config = workspace.config
    paths = [config.path, *(workspace.corpus_path(corpus.name) for corpus in config.corpora)]
    file_stamps = [stamp for path in paths for stamp in stamps(path)]
    is_settled = are_settled(file_stamps, time.time_ns())
    return fingerprint(signature(config), file_stamps) if is_settled else None


def signature(config: Config) -> str:
    """Fingerprint of everything in the configuration that the definitions depend on."""
    return fingerprint(repr(config))


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


# --- at night, or by hand ---------------------------------------------------------------------------------


def _refresh_job(load: Load, assets: dg.Definitions, workspace: Workspace) -> dg.JobDefinition:
    """`disent materialize` as a job: runs everything in one process, upstream first, whatever Dagster has recorded."""

    @dg.op(description="Hashes all published files again, then runs every step; steps that are up to date do nothing.")
    def everything() -> None:
        with open_instance(workspace.home) as instance:
            observe(workspace, instance, hash_again=True)
            result = run_steps(load, workspace, plan(assets), instance)
            if result.failed:
                raise dg.Failure("\n".join(result.failed.values()), allow_retries=False)

    @dg.job(name="refresh", description=everything.description)
    def refresh() -> None:
        everything()

    return refresh


def _nightly_schedule(refresh: dg.JobDefinition) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name="refresh_at_night",
        job=refresh,
        cron_schedule=NIGHTLY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Repairs what the sensors can't see, such as a deleted file of results.",
    )
