"""What is fresh, stale or missing, and because of what: Dagster's data versions, read for every partition."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleCause
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.observe import observe as run_observation
from dagster._core.loader import LoadingContextForTest

from disent_assets.corpora import FILES
from disent_assets.instance import QUIET


@dataclass(frozen=True)
class State:
    """One partition of one asset; `is_settled` if it is fresh and so is all that it is made from."""

    asset: str
    partition: str | None
    status: str
    causes: tuple[str, ...]
    is_settled: bool


def observe(definitions: dg.Definitions, instance: dg.DagsterInstance) -> None:
    """Record the present data versions of the published files."""
    files = definitions.resolve_asset_graph().assets_def_for_key(FILES)
    run_observation([files], run_config=QUIET, instance=instance)


def states(definitions: dg.Definitions, instance: dg.DagsterInstance) -> Iterator[State]:
    """State of every partition of every asset, upstream first."""
    graph = definitions.resolve_asset_graph()
    unsettled: set[AssetKeyPartitionKey] = set()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    for key in graph.toposorted_asset_keys:
        node = graph.get(key)
        if not node.is_materializable:
            continue
        names = [None] if node.partitions_def is None else node.partitions_def.get_partition_keys()
        for name in names:
            causes = dict.fromkeys(_text(cause) for cause in resolver.get_stale_root_causes(key, name))
            status, place = resolver.get_status(key, name).value.lower(), AssetKeyPartitionKey(key, name)
            if status != "fresh" or unsettled & set(resolver._get_partition_dependencies(key=place)):
                unsettled.add(place)
            yield State(key.to_user_string(), name, status, tuple(causes), place not in unsettled)


def _text(cause: StaleCause) -> str:
    parent = cause.dependency or cause.key
    name = parent.asset_key.to_user_string()
    return f"{name}{f' [{parent.partition_key}]' if parent.partition_key else ''}: {cause.reason}"


def summary(found: Iterable[State], *, show_all: bool) -> str:
    """A line for each partition that is not fresh (or for every one), then the counts."""
    counts: Counter[str] = Counter()
    lines, waiting = [], 0
    for state in found:
        counts[state.status] += 1
        waiting += state.status == "fresh" and not state.is_settled
        if show_all or state.status != "fresh":
            name = f"{state.asset} [{state.partition}]" if state.partition else state.asset
            lines.append(f"{state.status:8}{name}{'  <- ' if state.causes else ''}{'; '.join(state.causes[:3])}")
    total = ", ".join(f"{counts[status]} {status}" for status in ("fresh", "stale", "missing"))
    if waiting:
        total += f"\n{waiting} of the fresh ones depend on these and are made again where that changes what they read."
    remedy = "" if counts["fresh"] == counts.total() else "\nRun 'disent materialize' to refresh what is not fresh."
    return "\n".join([*lines, total]) + remedy
