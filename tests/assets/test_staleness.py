"""Staleness follows Dagster's rules, beyond its limit of dependencies, with a fixed number of queries an asset."""

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from disent_assets.instance import QUIET
from disent_assets.staleness import staleness

FILES, TABLE, END = dg.AssetKey("files"), dg.AssetKey("table"), dg.AssetKey("end")


class Lineage:
    """Files of some languages -> a table of each -> one end that gathers them."""

    def __init__(self, count: int) -> None:
        self.instance = dg.DagsterInstance.ephemeral()
        self.names = [f"l{number}" for number in range(count)]
        languages = dg.StaticPartitionsDefinition(self.names)

        @dg.observable_source_asset(key=FILES, partitions_def=languages)
        def files() -> dg.DataVersionsByPartition:
            return dg.DataVersionsByPartition({})

        @dg.asset(key=TABLE, deps=[files], partitions_def=languages, code_version="1")
        def table(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
            return dg.MaterializeResult(data_version=dg.DataVersion(f"1 of {context.partition_key}"))

        @dg.asset(key=END, deps=[TABLE], code_version="1")
        def end() -> None: ...

        self.definitions = dg.Definitions(assets=[files, table, end])
        self.graph = self.definitions.resolve_asset_graph()
        for name in self.names:
            self.observe(name, "1")
            self.make(TABLE, name)
        self.make(END, None)

    def observe(self, name: str, version: str) -> None:
        tags = {"dagster/data_version": version}
        self.instance.report_runless_asset_event(dg.AssetObservation(FILES, partition=name, tags=tags))

    def make(self, key: dg.AssetKey, name: str | None) -> None:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        job.execute_in_process(asset_selection=[key], partition_key=name, instance=self.instance, run_config=QUIET)

    def change(self, name: str, version: str) -> None:
        """A partition of the table gets other content."""
        tags = {"dagster/data_version": version}
        self.instance.report_runless_asset_event(dg.AssetMaterialization(TABLE, partition=name, tags=tags))

    def states(self, resolver: CachingStaleStatusResolver) -> list[tuple[StaleStatus, list[str]]]:
        of = [(TABLE, name) for name in self.names] + [(END, None)]
        return [
            (resolver.get_status(*one), [cause.reason for cause in resolver.get_stale_root_causes(*one)]) for one in of
        ]

    def ours(self) -> list[tuple[StaleStatus, list[str]]]:
        return self.states(staleness(self.instance, self.graph))

    def dagsters(self) -> list[tuple[StaleStatus, list[str]]]:
        loading = LoadingContextForTest(self.instance)
        return self.states(CachingStaleStatusResolver(self.instance, self.graph, loading))


def test_states_and_causes_are_those_of_dagster():
    lineage = Lineage(3)
    seen = [lineage.ours()]
    assert seen[-1] == lineage.dagsters()
    lineage.observe("l0", "2")
    lineage.observe("l1", "1")
    seen.append(lineage.ours())
    assert seen[-1] == lineage.dagsters()
    lineage.make(TABLE, "l0")
    seen.append(lineage.ours())
    assert seen[-1] == lineage.dagsters()
    lineage.change("l2", "other")
    seen.append(lineage.ours())
    assert seen[-1] == lineage.dagsters()
    assert [[status.value for status, _ in states] for states in seen] == [
        ["FRESH", "FRESH", "FRESH", "FRESH"],
        ["STALE", "FRESH", "FRESH", "FRESH"],
        ["FRESH", "FRESH", "FRESH", "FRESH"],
        ["FRESH", "FRESH", "FRESH", "STALE"],
    ]


def test_a_change_among_100_partitions_is_seen():
    lineage = Lineage(100)
    lineage.change("l7", "other")
    assert lineage.ours()[-1][0] == StaleStatus.STALE
    assert lineage.dagsters()[-1][0] == StaleStatus.FRESH


@pytest.mark.parametrize("count", [2, 5])
def test_the_number_of_queries_does_not_depend_on_the_number_of_partitions(count, monkeypatch):
    lineage, queries = Lineage(count), []
    storage = lineage.instance.event_log_storage
    for name in ("get_event_records", "fetch_materializations", "fetch_observations", "get_asset_records"):
        query = getattr(storage, name)
        monkeypatch.setattr(storage, name, lambda *a, query=query, **k: queries.append(1) or query(*a, **k))
    lineage.ours()
    assert len(queries) == 3
