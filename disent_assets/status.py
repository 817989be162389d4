"""What is fresh, stale or missing, and because of what: Dagster's data versions, read for every partition."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleCause
from dagster._core.definitions.observe import observe as run_observation
from dagster._core.loader import LoadingContextForTest

from disent_assets.corpora import FILES
from disent_assets.instance import QUIET


@dataclass(frozen=True)
class State:
    """One partition of one asset."""

    asset: str
    partition: str | None
    status: str
    causes: tuple[str, ...]


def observe(definitions: dg.Definitions, instance: dg.DagsterInstance) -> None:
    """Record the present data versions of the published files."""
    files = definitions.resolve_asset_graph().assets_def_for_key(FILES)
    run_observation([files], run_config=QUIET, instance=instance)


def states(definitions: dg.Definitions, instance: dg.DagsterInstance) -> Iterator[State]:
    """State of every partition of every asset, upstream first."""
    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    for key in graph.toposorted_asset_keys:
        node = graph.get(key)
        if not node.is_materializable:
            continue
        names = [None] if node.partitions_def is None else node.partitions_def.get_partition_keys()
        for name in names:
            causes = dict.fromkeys(_text(cause) for cause in resolver.get_stale_root_causes(key, name))
            yield State(key.to_user_string(), name, resolver.get_status(key, name).value.lower(), tuple(causes))


def _text(cause: StaleCause) -> str:
    parent = cause.dependency or cause.key
    name = parent.asset_key.to_user_string()
    return f"{name}{f' [{parent.partition_key}]' if parent.partition_key else ''}: {cause.reason}"


def summary(found: Iterable[State], *, show_all: bool) -> str:
    """A line for each partition that is not fresh (or for every one), then the counts."""
    counts: Counter[str] = Counter()
    lines = []
    for state in found:
        counts[state.status] += 1
        if show_all or state.status != "fresh":
            name = f"{state.asset} [{state.partition}]" if state.partition else state.asset
            lines.append(f"{state.status:8}{name}{'  <- ' if state.causes else ''}{'; '.join(state.causes[:3])}")
    total = ", ".join(f"{counts[status]} {status}" for status in ("fresh", "stale", "missing"))
    remedy = "" if counts["fresh"] == counts.total() else "\nRun 'disent materialize' to refresh what is not fresh."
    return "\n".join([*lines, total]) + remedy
