"""Report for every partition whether it is fresh, stale, missing or failed, and why, by Dagster's data versions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.definitions.data_version import StaleCause
from dagster._core.definitions.events import AssetKeyPartitionKey

from disent_assets.failures import failed_checks, failure_text
from disent_assets.published_files import unreadable_tables
from disent_assets.staleness import staleness
from disent_core.experiment import corpora
from disent_core.experiment.keys import EMBEDDINGS, HEAD, METRICS, aligned_key, embedding_key
from disent_core.experiment.workspace import Workspace
from disent_core.storage.checksums import is_stored
from disent_core.storage.remote import remote_of

DOWNLOADS = ("corpora", "downloads")
FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_PLAIN = {
    "has a new data version": "its content has changed",
    "has a new code version": "its code or settings have changed",
}
"""What Dagster says, in words that need no glossary."""
OF_STEPS = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.ASSET_CHECK_EVALUATION}


@dataclass(frozen=True)
class State:
    """The state of one partition of an asset; `is_settled` if it and everything upstream of it are fresh."""

    asset: str
    partition: str | None
    status: str
    causes: tuple[str, ...]
    is_settled: bool


def states(workspace: Workspace, definitions: dg.Definitions, instance: dg.DagsterInstance) -> Iterator[State]:
    """The state of every partition of every asset, upstream first."""
    graph = definitions.resolve_asset_graph()
    unsettled: set[AssetKeyPartitionKey] = set()
    failures = Failures(instance, graph)
    resolver, unreadable = staleness(instance, graph), unreadable_tables(workspace)
    for key in graph.toposorted_asset_keys:
        node = graph.get(key)
        if not node.is_materializable:
            continue
        names = [None] if node.partitions_def is None else node.partitions_def.get_partition_keys()
        for name in names:
            causes = dict.fromkeys(_text(cause) for cause in resolver.get_stale_root_causes(key, name))
            status, partition = resolver.get_status(key, name).value.lower(), AssetKeyPartitionKey(key, name)
            own = key.path[len(workspace.prefix) :]
            if status != "missing" and is_lost(workspace, own, name):
                status, causes = "missing", {"its files are gone": None}
            if status == "missing" and tuple(own) == DOWNLOADS and not corpora.due(workspace):
                status, causes = "fresh", {}
            if status == "fresh" and (key, name) in unreadable:
                status, causes = "stale", {"its published files can't be read": None}
            record = resolver._get_latest_data_version_record(key=partition)
            reason = failures.of_check(key, record.run_id) if record is not None else None
            if status != "fresh":
                reason = failures.of(key, name, since=resolver.newest_file(key=partition)) or reason
            if reason is not None:
                status, causes = "failed", {reason: None}
            if status != "fresh" or unsettled & set(resolver._get_partition_dependencies(key=partition)):
                unsettled.add(partition)
            yield State(key.to_user_string(), name, status, tuple(causes), partition not in unsettled)


def stale_inputs(
    graph: BaseAssetGraph,
    instance: dg.DagsterInstance,
    chosen: Iterable[tuple[str, str | None]],
    found: Iterable[State],
) -> list[State]:
    """What is not fresh, is not chosen itself, and is read on the way to what is chosen; upstream first.

    Args:
        graph: of the assets.
        instance: of Dagster.
        chosen: asset and partition of each chosen partition.
        found: the states of all partitions, upstream first.
    """
    open_ = {(one.asset, one.partition): one for one in found if not one.is_settled}
    own = set(chosen)
    due = [name for name in own if name in open_]
    resolver, seen = staleness(instance, graph), set(due)
    while due:
        asset, partition = due.pop()
        of = AssetKeyPartitionKey(dg.AssetKey.from_user_string(asset), partition)
        above = resolver._get_partition_dependencies(key=of)
        names = {(one.asset_key.to_user_string(), one.partition_key) for one in above} & open_.keys() - seen
        seen |= names
        due += names
    return [one for name, one in open_.items() if name in seen - own and one.status != "fresh"]


class Failures:
    """The errors of the last runs of partitions."""

    def __init__(self, instance: dg.DagsterInstance, graph: BaseAssetGraph) -> None:
        self.instance, self.graph = instance, graph
        self.planned: dict[dg.AssetKey, dict[str | None, tuple[str, int]]] = {}
        self.reasons: dict[str, dict[str | None, str]] = {}
        self.failed_runs = set(instance.get_run_ids(dg.RunsFilter(statuses=FAILED)))

    def of(self, key: dg.AssetKey, partition: str | None, *, since: int) -> str | None:
        """First line of the error of the last run that should have made the partition; None if that did not fail.

        Args:
            key: of the asset.
            partition: its partition, if it has any.
            since: storage id of an event; an error of a run before it is one of files that have changed.
        """
        run, event = self._planned(key).get(partition, (None, 0))
        if run is None or event < since:
            return None
        reasons = self._reasons(run)
        return reasons.get(self._step(key), reasons.get(None))

    def of_check(self, key: dg.AssetKey, run: str) -> str | None:
        """First line of the error of a step that has made an asset, and has failed for a check of it; None if not."""
        return self._reasons(run).get(self._step(key))

    def _step(self, key: dg.AssetKey) -> str:
        return self.graph.assets_def_for_key(key).node_def.name

    def _reasons(self, run: str) -> dict[str | None, str]:
        if run not in self.failed_runs:
            return {}
        if run not in self.reasons:
            self.reasons[run] = failures_of(self.instance, run)
        return self.reasons[run]

    def _planned(self, key: dg.AssetKey) -> dict[str | None, tuple[str, int]]:
        """Partition -> the last run that should have made it but has not, and the storage id of its plan."""
        if key not in self.planned:
            log = self.instance.event_log_storage
            if self.graph.get(key).partitions_def is not None:
                attempts = log.get_latest_asset_partition_materialization_attempts_without_materializations(key)
                self.planned[key] = dict(attempts.items())
            else:
                planned, records = log.get_latest_planned_materialization_info(key), log.get_asset_records([key])
                made = records[0].asset_entry.last_materialization if records else None
                is_due = planned is not None and (made is None or made.run_id != planned.run_id)
                self.planned[key] = {None: (planned.run_id, planned.storage_id)} if planned and is_due else {}
        return self.planned[key]


def failures_of(instance: dg.DagsterInstance, run: str) -> dict[str | None, str]:
    """Step -> first line of its error, for a failed run; if no step failed, None -> the error of the run."""
    events = [entry.get_dagster_event() for entry in instance.all_logs(run, of_type=OF_STEPS)]
    if failed := [event for event in events if event.is_step_failure]:
        checks = [event.asset_check_evaluation_data for event in events if not event.is_step_failure]
        return {event.step_key: _failure(event, checks) for event in failed}
    of_run = {dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_CANCELED}
    messages = [entry.get_dagster_event().message or "" for entry in instance.all_logs(run, of_type=of_run)]
    return {None: _first_line(messages[-1]) if messages else "its run was ended"}


def _failure(event: dg.DagsterEvent, checks: Sequence[dg.AssetCheckEvaluation]) -> str:
    failure = event.step_failure_data
    return _first_line(failed_checks(failure, checks) or failure_text(failure))


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def is_lost(workspace: Workspace, key: Sequence[str], partition: str | None) -> bool:
    """Whether files of a partition that was made no longer exist."""
    return not all(is_stored(path) for path in _files(workspace, key, partition))


def _files(workspace: Workspace, key: Sequence[str], partition: str | None) -> list[Path]:
    match (*key, partition):
        case ("embeddings", encoder, _, None) if tuple(key) == aligned_key(encoder):
            files = [workspace.aligned(encoder)]
        case ("embeddings", encoder, _, None):
            files = [workspace.pretrained(encoder)]
        case ("embeddings", encoder, _, str(language)):
            table = next(table for table in EMBEDDINGS if embedding_key(encoder, table) == tuple(key))
            parts = (workspace.embeddings / table / encoder).glob(f"*/{language}/part-*.parquet")
            absent = workspace.embeddings / table / encoder / language
            is_local = remote_of(absent) is None  # a bucket tells no folder by a part of its name
            files = [next(parts, absent)] if is_local else []
        case ("heads", encoder, name, str(pair)) if name.endswith(HEAD):
            files = [workspace.head(encoder, name.removesuffix(HEAD), pair)]
        case ("evaluation", encoder, name, str(pair)) if name.endswith(METRICS):
            files = [workspace.table("evaluation", "metrics", encoder, name.removesuffix(METRICS), pair)]
        case ("targets", ("aligned_pairs" | "parallel_mates") as table, str(pair)):
            files = [workspace.table("targets", table, pair)]
        case ("evaluation", encoder, _, None):
            files = [workspace.table("evaluation", "comparisons", encoder)]
        case ("warehouse", *_):
            files = [workspace.warehouse]
        case (stage, ("sentence_pairs" | "code_switched_pairs") as table, str(pair)):
            config = workspace.config
            of_pair = config.corpora_of_sentence_pair if table == "sentence_pairs" else config.switchable_corpora
            files = [workspace.table(stage, table, corpus.name, pair) for corpus in of_pair(pair)]
        case (stage, table, str(language)):
            training = table not in ("utterances", "template_pairs")
            tables = workspace.config.corpora_of(language, training=training)
            files = [workspace.table(stage, table, corpus.name, language) for corpus in tables]
        case _:  # gates make no files; readers of downloads check that they exist
            files = []
    return files


def _text(cause: StaleCause) -> str:
    parent = cause.dependency or cause.key
    name = parent.asset_key.to_user_string()
    where = f" [{parent.partition_key}]" if parent.partition_key else ""
    return f"{name}{where}: {_PLAIN.get(cause.reason, cause.reason)}"


def summary(states: Iterable[State], *, show_all: bool) -> str:
    """One line for each partition that is not fresh (with `show_all`, for every partition), then the counts."""
    counts: Counter[str] = Counter()
    lines, waiting = [], 0
    for state in states:
        counts[state.status] += 1
        waiting += state.status == "fresh" and not state.is_settled
        if show_all or state.status != "fresh":
            name = f"{state.asset} [{state.partition}]" if state.partition else state.asset
            lines.append(f"{state.status:8}{name}{'  <- ' if state.causes else ''}{'; '.join(state.causes[:3])}")
    shown = ("fresh", "stale", "missing", *(["failed"] if counts["failed"] else []))
    total = ", ".join(f"{counts[status]} {status}" for status in shown)
    if waiting:
        total += f"\n{waiting} of the fresh ones depend on these and are made again if what they read changes."
    if counts["failed"]:
        total += "\nCorrect what the errors of the failed ones name; the page of a run in the UI shows its log."
    remedy = "" if counts["fresh"] == counts.total() else "\nRun 'disent materialize' to refresh what is not fresh."
    return "\n".join([*lines, total]) + remedy
