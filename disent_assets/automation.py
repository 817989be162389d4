"""What runs without being asked: where a file, a setting or the code has moved, just what depends on it.

What belongs here: when something runs, for all assets in one place. What does not: what it does; every step looks
itself whether its inputs have changed. `docs/operations.md`, section Refresh, tells it to users.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph import executable_in_same_run
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph

from disent_assets.corpus_versions import Look, are_settled, look_at_pairs, look_at_utterances, record_of, stamps
from disent_assets.instance import FACE, RunError, materialize, open_instance, plan
from disent_assets.stages.corpora import FILES, PAIR_FILES
from disent_core.config.load import load_config
from disent_core.config.model import Config
from disent_core.errors import DisentError
from disent_core.experiment.workspace import Workspace
from disent_core.storage.tables import fingerprint

LOOK_SECONDS, LOOK_EVERY_SECONDS = 20, 10
"""Of hashing in one look at the published files, below the minute after which Dagster ends it; between two looks."""
DECIDE_EVERY_SECONDS = 5
RELOAD_EVERY_SECONDS = 15
NIGHTLY = "0 3 * * *"
"""At three, universal time."""
LOCATION = "disent"
"""Name of the code location in `workspace.yaml`."""
DATA_VERSION = "dagster/data_version"
RELOAD = """mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }"""


@dataclass(frozen=True)
class Place:
    """Where an asset stands in the graph, as far as its condition asks for it.

    `companions` are parents that take it along in their run, where it sees for itself whether it has to do anything.
    `far` are ancestors beyond its parents that it waits for.
    """

    companions: tuple[dg.AssetKey, ...] = ()
    far: tuple[dg.AssetKey, ...] = ()


def condition(place: Place) -> dg.AutomationCondition[dg.AssetKey]:
    """When a partition is made: what it is made from has other content, its code has changed, or it is missing.

    Content, not time: a parent that was made again with equal content wakes nothing. What changes while a partition
    is being made is not taken for done when that ends: Dagster's own `since_last_handled` would lose it. A run that
    fails is not repeated until something has changed; one whose process dies is, once, by `run_retries`.
    What companions change in the run that makes it too is nothing that it could have missed.
    """
    of = dg.AutomationCondition
    requested, updated = of.newly_requested(), of.newly_updated()
    companions = dg.AssetSelection.assets(*place.companions)
    goes_along = of.any_deps_match(of.will_be_requested()).allow(companions)
    changed = of.any_deps_match(of.data_version_changed())
    by_others = changed.ignore(companions)
    by_daemon = updated & ~of.all_new_updates_have_run_tags(tag_values=FACE)
    meanwhile = (by_others | goes_along) & (of.in_progress() | by_daemon)
    pending = (changed | goes_along).since(requested | updated).with_label("a dependency has changed")
    wanted = (
        pending
        | meanwhile.since(requested & ~meanwhile).with_label("a dependency has changed during the run")
        | of.code_version_changed().since(requested | updated).with_label("the code has changed")
        | of.newly_missing().since(requested | updated).with_label("it is missing")
    )
    # What has changed comes on several ways, of which some are longer: it should run once all of it has arrived.
    is_coming = (changed.since(requested | updated) & ~of.will_be_requested()) | of.in_progress()
    blocked = of.any_deps_missing() | of.in_progress() | of.any_deps_match(is_coming)
    blocked |= of.any_deps_match(of.any_deps_in_progress())
    for key in place.far:
        blocked |= of.asset_matches(key, is_coming)
    ready = wanted & ~blocked.with_label("blocked")
    # A run may end while this is decided: its end is seen, and what it has made only a tick later.
    return (ready & (goes_along | ~ready.newly_true()) if place.companions else ready).with_label("refresh")


Load = Callable[[Workspace], dg.Definitions]


def automated(load: Load, workspace: Workspace, ui: str | None) -> dg.Definitions:
    """The assets with their condition, and what watches over them.

    Args:
        load: makes the assets of a workspace.
        workspace: that they are made from.
        ui: address of the web server, to ask it to load a changed configuration; None if there is none.
    """
    assets = load(workspace)
    refresh = _refresh(assets, workspace)
    observed = {FILES, PAIR_FILES} & assets.resolve_asset_graph().get_all_asset_keys()
    return dg.Definitions(
        assets=with_condition(assets),
        jobs=[refresh],
        schedules=[_nightly(refresh)],
        sensors=[_deciding(), _looking(workspace, observed), _reloading(load, workspace, ui)],
    )


def with_condition(assets: dg.Definitions) -> list[Any]:
    """The same assets; those that are made, and are not only observed, have their condition."""
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
    """The place of an asset; only of ancestors that have no partitions, or if it has none, is told which are far."""
    node = graph.get(key)
    parents = {parent for parent in node.parent_keys if graph.get(parent).is_materializable}
    ancestors = graph.get_ancestor_asset_keys(key) - parents - {key}
    far = {
        each
        for each in ancestors
        if graph.get(each).is_materializable and None in (node.partitions_def, graph.get(each).partitions_def)
    }
    return Place(
        companions=tuple(sorted(parent for parent in parents if executable_in_same_run(graph, key, parent))),
        far=tuple(sorted(far)),
    )


def _deciding() -> dg.AutomationConditionSensorDefinition:
    return dg.AutomationConditionSensorDefinition(
        "refresh_what_has_changed",
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=DECIDE_EVERY_SECONDS,
        emit_backfills=False,  # a backfill waits half a minute between any two levels of the graph
        description="Runs what depends on changed content. Stop it, and nothing runs by itself but at night.",
    )


# --- published files --------------------------------------------------------------------------------------


def _looking(workspace: Workspace, keys: set[dg.AssetKey]) -> dg.SensorDefinition:
    @dg.sensor(
        name="look_at_published_files",
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks at the files of the corpora, and records new content. Starts no run.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        looks = {key: _look_at(workspace, key, LOOK_SECONDS) for key in sorted(keys)}
        events = [event for key, found in looks.items() for event in observations(context.instance, key, found)]
        return dg.SensorResult(asset_events=events) if events else dg.SkipReason(_said(looks))

    return look


def _look_at(workspace: Workspace, key: dg.AssetKey, seconds: float) -> Look:
    return (look_at_utterances if key == FILES else look_at_pairs)(workspace, seconds=seconds)


def observations(instance: dg.DagsterInstance, key: dg.AssetKey, look: Look) -> Iterator[dg.AssetObservation]:
    """Of the partitions whose content is another one than Dagster knows."""
    known = instance.event_log_storage.get_latest_tags_by_partition(
        key, dg.DagsterEventType.ASSET_OBSERVATION, [DATA_VERSION]
    )
    for name, version in look.versions.items():
        if known.get(name, {}).get(DATA_VERSION) != version:
            yield dg.AssetObservation(key, partition=name, tags={DATA_VERSION: version})


def _said(looks: Mapping[dg.AssetKey, Look]) -> str:
    unreadable = [f"{key.path[-1]} [{name}]" for key, look in looks.items() for name in look.unreadable]
    if not all(look.is_whole for look in looks.values()):
        return "Hashing has not come to its end; the next look goes on."
    return f"Nothing has changed. Can't be read: {', '.join(unreadable)}" if unreadable else "Nothing has changed."


# --- configuration ----------------------------------------------------------------------------------------


def _reloading(load: Load, workspace: Workspace, ui: str | None) -> dg.SensorDefinition:
    @dg.sensor(
        name="load_changed_configuration",
        minimum_interval_seconds=RELOAD_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Loads the configuration again when it, or the languages and pairs that the corpora have, are "
        "other ones: partitions are made at load.",
    )
    def reload(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        seen = _state(workspace)
        if seen is not None and seen == context.cursor:
            return dg.SkipReason("Nothing has changed.")
        said, is_done = _reloaded(load, workspace, ui)
        return dg.SensorResult(skip_reason=said, cursor=seen if is_done else None)

    return reload


def _state(workspace: Workspace) -> str | None:
    """Of the loaded configuration and of all that one is made from; None while that is too young to be told by it."""
    config = workspace.config
    paths = [config.path, *(workspace.corpus_path(corpus.name) for corpus in config.corpora)]
    found = [stamp for path in paths for stamp in stamps(path)]
    is_settled = are_settled(found, time.time_ns())
    return fingerprint(signature(config), found) if is_settled else None


def signature(config: Config) -> str:
    """Stands for all that the definitions are made from."""
    return fingerprint(repr(config))


def _reloaded(load: Load, workspace: Workspace, ui: str | None) -> tuple[str, bool]:
    """What to say, and whether nothing is left to be done.

    A configuration that can't be loaded is not: a code location that fails to load has no sensors to mend it.
    """
    try:
        found = load_config(workspace.config.path)
        if signature(found) == signature(workspace.config):
            return "Nothing has changed.", True
        load(Workspace(found, workspace.home)).resolve_asset_graph()
    except (DisentError, ValueError, dg.DagsterError) as error:
        return f"The last configuration stays: {error}", False
    if ui is None or not _ask(ui):
        return f"The configuration has changed. Reload the code location '{LOCATION}' on the page Deployment.", False
    return "The configuration has changed and is loaded again.", False


def _ask(ui: str) -> bool:
    """Have the web server load the code location again; whether it has answered."""
    query = json.dumps({"query": RELOAD, "variables": {"name": LOCATION}}).encode()
    try:
        with urlopen(Request(f"{ui}/graphql", query, {"Content-Type": "application/json"}), timeout=30) as answer:
            return answer.status == 200
    except (URLError, TimeoutError, ConnectionError):
        return False


# --- at night, or by hand ---------------------------------------------------------------------------------


def _refresh(assets: dg.Definitions, workspace: Workspace) -> dg.JobDefinition:
    """What `disent materialize` does, as a job: everything in one process, upstream first, whatever Dagster knows."""

    @dg.op(description="Hashes all published files anew, then runs every step; those that are up to date do nothing.")
    def everything(context: dg.OpExecutionContext) -> None:
        for table in ("utterances", "sentence_pairs"):
            record_of(workspace, table).unlink(missing_ok=True)
        with open_instance(workspace.home) as instance:
            for key in sorted({FILES, PAIR_FILES} & assets.resolve_asset_graph().get_all_asset_keys()):
                for event in observations(instance, key, _look_at(workspace, key, math.inf)):
                    instance.report_runless_asset_event(event)
            for step in plan(assets, None, None):
                context.log.info("%s", step)
                try:
                    materialize(assets, step, instance)
                except RunError as failure:
                    raise dg.Failure(str(failure), allow_retries=False) from failure

    @dg.job(name="refresh", description=everything.description)
    def refresh() -> None:
        everything()

    return refresh


def _nightly(refresh: dg.JobDefinition) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name="refresh_at_night",
        job=refresh,
        cron_schedule=NIGHTLY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Catches what the sensors can't see, such as a file of results that was deleted.",
    )
