"""What the daemon would run, and when: the conditions are evaluated tick by tick, without a daemon."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from disent_assets.automation import Place, condition, with_condition
from disent_assets.definitions import build
from disent_assets.instance import FACE, QUIET
from disent_assets.resources import PROJECT, open_workspace

LANGUAGES, PAIRS = ("de", "en"), ("de-en", "en-en")
SOURCE, TABLE, TARGET, MODEL, VECTORS, PAIR, END = (
    dg.AssetKey([name]) for name in ("files", "table", "target", "model", "vectors", "pair", "end")
)


class Daemon:
    """A daemon on a small graph: files of languages -> a table, and a target in the same run -> pairs -> one end.

    With a model, vectors of each language come between targets and pairs; the model reads all tables and never
    changes. A step's data version is the text of its file, so an edit can leave the content as it was.
    """

    def __init__(self, *, code_version: str = "1", has_model: bool = False) -> None:
        self.has_model = has_model
        self.instance = dg.DagsterInstance.ephemeral()
        self.files = dict.fromkeys(LANGUAGES, "1")
        self.fails: set[str] = set()
        self.cursor = None
        self.load(code_version)

    def load(self, code_version: str, languages: tuple[str, ...] = LANGUAGES) -> None:
        by_language, by_pair = dg.StaticPartitionsDefinition(list(languages)), dg.StaticPartitionsDefinition(PAIRS)
        language_to_pairs = dg.StaticPartitionMapping(
            {name: {pair for pair in PAIRS if name in pair.split("-")} for name in languages}
        )

        @dg.observable_source_asset(key=SOURCE, partitions_def=by_language)
        def files() -> dg.DataVersionsByPartition:
            return dg.DataVersionsByPartition(self.files)

        @dg.asset(key=TABLE, partitions_def=by_language, deps=[SOURCE], code_version=code_version)
        def table(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
            if context.partition_key in self.fails:
                raise dg.Failure("bad data")
            return dg.MaterializeResult(data_version=dg.DataVersion(self.files[context.partition_key].strip()))

        @dg.asset(key=TARGET, partitions_def=by_language, deps=[TABLE], code_version="1")
        def target(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
            return dg.MaterializeResult(data_version=dg.DataVersion(self.files[context.partition_key].strip()))

        @dg.asset(key=MODEL, deps=[TABLE], code_version="1")
        def model() -> dg.MaterializeResult:
            return dg.MaterializeResult(data_version=dg.DataVersion("frozen"))

        @dg.asset(key=VECTORS, partitions_def=by_language, deps=[TARGET, MODEL], code_version="1")
        def vectors(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
            return dg.MaterializeResult(data_version=dg.DataVersion(self.files[context.partition_key].strip()))

        @dg.asset(
            key=PAIR,
            partitions_def=by_pair,
            deps=[dg.AssetDep(VECTORS if self.has_model else TARGET, partition_mapping=language_to_pairs)],
            code_version="1",
        )
        def pair(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
            content = [self.files[name].strip() for name in context.partition_key.split("-")]
            return dg.MaterializeResult(data_version=dg.DataVersion("+".join(content)))

        @dg.asset(key=END, deps=[PAIR], code_version="1")
        def end() -> None: ...

        between = [model, vectors] if self.has_model else []
        definitions = dg.Definitions(assets=[files, table, target, *between, pair, end])
        self.definitions = dg.Definitions(assets=with_condition(definitions))

    def edit(self, language: str, content: str) -> None:
        self.files[language] = content
        version = {"dagster/data_version": content}
        self.instance.report_runless_asset_event(dg.AssetObservation(SOURCE, partition=language, tags=version))

    def tick(self) -> dict[str | None, set[str]]:
        """One tick: the assets that it requests, by partition."""
        result = dg.evaluate_automation_conditions(defs=self.definitions, instance=self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        runs: dict[str | None, set[str]] = {}
        between = (MODEL, VECTORS) if self.has_model else ()
        for key in (TABLE, TARGET, *between, PAIR, END):
            for partition in result.get_requested_partitions(key):
                runs.setdefault(partition, set()).add(key.to_user_string())
        return runs

    def run(self, requested: dict[str | None, set[str]], tags: dict[str, str] | None = None) -> None:
        for partition, names in requested.items():
            self.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
                asset_selection=[dg.AssetKey([name]) for name in names],
                partition_key=partition,
                instance=self.instance,
                raise_on_error=False,
                tags=tags,
                run_config=QUIET,
            )

    def settle(self, ticks: int = 8) -> list[dict[str | None, set[str]]]:
        """Run ticks and what they request until nothing is requested any more."""
        return list(self._until_quiet(ticks))

    def _until_quiet(self, ticks: int) -> Iterator[dict[str | None, set[str]]]:
        for _ in range(ticks):
            requested = self.tick() or self.tick()  # some conditions let a tick pass
            if not requested:
                return
            yield requested
            self.run(requested)
        raise AssertionError("runs are still requested")


@pytest.fixture
def daemon() -> Daemon:
    """A daemon that has made everything."""
    daemon = Daemon()
    for language in LANGUAGES:
        daemon.edit(language, "1")
    daemon.settle()
    return daemon


OF_DE = [{"de": {"table", "target"}}, {"de-en": {"pair"}}, {None: {"end"}}]


def test_missing_partitions_are_made_level_by_level():
    daemon = Daemon()
    for language in LANGUAGES:
        daemon.edit(language, "1")
    assert daemon.settle() == [
        {language: {"table", "target"} for language in LANGUAGES},
        {pair: {"pair"} for pair in PAIRS},
        {None: {"end"}},
    ]


def test_nothing_runs_if_nothing_has_changed(daemon):
    assert [daemon.tick() for _ in range(3)] == [{}, {}, {}]


def test_an_edit_runs_only_what_depends_on_it(daemon):
    daemon.edit("de", "2")
    assert daemon.settle() == OF_DE


def test_an_edit_that_does_not_change_the_content_stops_at_the_first_table(daemon):
    daemon.edit("de", "1 ")
    assert daemon.settle() == OF_DE[:1]


def test_a_table_that_is_made_again_with_equal_content_starts_no_run(daemon):
    daemon.run({"de": {"table"}})
    assert daemon.settle() == []


def test_new_code_of_one_asset_runs_it_for_every_partition(daemon):
    daemon.load("2")
    assert daemon.settle() == [{language: {"table", "target"} for language in LANGUAGES}]


def test_a_failed_run_is_not_repeated_before_something_changes(daemon):
    daemon.fails.add("de")
    daemon.edit("de", "bad")
    assert daemon.settle() == OF_DE[:1]
    assert [daemon.tick() for _ in range(3)] == [{}, {}, {}]


def test_a_failed_partition_is_made_when_its_file_is_corrected(daemon):
    daemon.fails.add("de")
    daemon.edit("de", "bad")
    daemon.settle()
    daemon.fails.clear()
    daemon.edit("de", "2")
    assert daemon.settle() == OF_DE


def test_a_failed_language_does_not_hold_up_the_others(daemon):
    daemon.fails.add("de")
    daemon.edit("de", "bad")
    daemon.edit("en", "2")
    assert [set(requested) for requested in daemon.settle()] == [{"de", "en"}, {"de-en", "en-en"}, {None}]


def test_a_second_edit_before_the_first_run_has_ended_is_not_lost(daemon):
    daemon.edit("de", "2")
    requested = daemon.tick()
    daemon.edit("de", "3")  # before the run, which therefore reads it and ends within the same tick
    daemon.run(requested)
    assert daemon.settle()[0]["de"] == OF_DE[0]["de"]


def test_a_second_edit_between_a_run_and_the_next_tick_is_not_lost(daemon):
    daemon.edit("de", "2")
    daemon.run(daemon.tick())
    daemon.edit("de", "3")
    assert daemon.settle()[0]["de"] == OF_DE[0]["de"]


def test_partitions_made_by_the_command_line_are_not_made_again(daemon):
    daemon.edit("de", "2")
    for requested in OF_DE:
        daemon.run(requested, tags=FACE)
    assert daemon.settle() == []


def test_a_model_that_runs_again_without_a_change_delays_nothing():
    daemon = Daemon(has_model=True)
    for language in LANGUAGES:
        daemon.edit(language, "1")
    daemon.settle()
    daemon.edit("de", "2")
    runs = daemon.settle()
    assert runs[0] == {"de": {"table", "target", "vectors"}}
    assert runs[-2:] == [{"de-en": {"pair"}}, {None: {"end"}}]


def test_every_materialisable_asset_has_the_condition():
    definitions = dg.Definitions(assets=with_condition(build(open_workspace({"DISENT_HOME": "unused"}))))
    graph = definitions.resolve_asset_graph()
    keys = [key for key in graph.get_all_asset_keys() if graph.get(key).is_materializable]
    assert len(keys) > 20
    assert [key for key in keys if graph.get(key).automation_condition is None] == []


def test_the_condition_can_be_sent_to_the_daemon():
    assert condition(Place((TABLE,), (SOURCE,))).is_serializable


@pytest.mark.parametrize("name", [path.name for path in (PROJECT / "configs").glob("*.toml")])
def test_definitions_have_their_sensors_for_every_configuration(name, tmp_path):
    from disent_assets.automation import automated

    workspace = open_workspace({"DISENT_CONFIG": str(PROJECT / "configs" / name), "DISENT_HOME": str(Path(tmp_path))})
    repository = automated(build, workspace, None).get_repository_def()
    assert len(repository.sensor_defs) == 3
    assert len(repository.schedule_defs) == 1
