"""What is fresh, stale or missing, and because of what: Dagster's data versions, read for every partition."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleCause
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.observe import observe as run_observation
from dagster._core.loader import LoadingContextForTest

from disent_assets.corpora import FILES, PAIR_FILES
from disent_assets.instance import QUIET
from disent_assets.resources import Workspace


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
    graph = definitions.resolve_asset_graph()
    for key in (FILES, PAIR_FILES):
        if key in graph.get_all_asset_keys():
            run_observation([graph.assets_def_for_key(key)], run_config=QUIET, instance=instance)


def states(workspace: Workspace, definitions: dg.Definitions, instance: dg.DagsterInstance) -> Iterator[State]:
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
            if status != "missing" and is_lost(workspace, key.path, name):
                status, causes = "missing", {"its files are gone": None}
            if status != "fresh" or unsettled & set(resolver._get_partition_dependencies(key=place)):
                unsettled.add(place)
            yield State(key.to_user_string(), name, status, tuple(causes), place not in unsettled)


def is_lost(workspace: Workspace, key: Sequence[str], partition: str | None) -> bool:
    """Whether an asset's files are not where its run has put them."""
    return not all(path.exists() for path in _files(workspace, key, partition))


def _files(workspace: Workspace, key: Sequence[str], partition: str | None) -> list[Path]:
    match (*key, partition):
        case ("embeddings", encoder, _, None):
            files = [workspace.pretrained(encoder)]
        case ("embeddings", encoder, table, str(language)):
            parts = (workspace.embeddings / table / encoder).glob(f"*/{language}/part-*.parquet")
            files = [next(parts, workspace.embeddings / table / encoder / language)]
        case ("heads", encoder, method, str(pair)):
            files = [workspace.head(encoder, method, pair)]
        case ("evaluation", encoder, method, str(pair)):
            files = [workspace.table("evaluation", "metrics", encoder, method, pair)]
        case ("targets", "aligned_pairs", str(pair)):
            files = [workspace.table("targets", "aligned_pairs", pair)]
        case ("evaluation", encoder, _, None):
            files = [workspace.table("evaluation", "comparisons", encoder)]
        case ("warehouse", *_):
            files = [workspace.warehouse]
        case (stage, ("sentence_pairs" | "code_switched_pairs") as table, str(pair)):
            corpora = [
                corpus
                for corpus in workspace.config.corpora_of_sentence_pair(pair)
                if table == "sentence_pairs" or corpus.is_switchable
            ]
            files = [workspace.table(stage, table, corpus.name, pair) for corpus in corpora]
        case (stage, table, str(language)):
            training = table not in ("utterances", "template_pairs")
            corpora = workspace.config.corpora_of(language, training=training)
            files = [workspace.table(stage, table, corpus.name, language) for corpus in corpora]
        case _:  # downloads, which their readers look for themselves
            files = []
    return files


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
