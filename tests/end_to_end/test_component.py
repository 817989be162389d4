"""The lineage as a component of a Dagster project with other assets, twice."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from matplotlib.figure import Figure
from projects import Project, new_project
from pydantic import ValidationError

from disent_assets.component import DisentLineage
from disent_assets.definitions import build
from disent_assets.embedded import _result, hosted, hosted_assets
from disent_assets.lineage import factory
from disent_assets.lineage.metadata import pictures
from disent_assets.lineage.refresh import OF_STEPS, newest_by_hand
from disent_assets.run.plan import plan, steps_of
from disent_assets.run.steps import find_states
from disent_assets.settings.instance import FACE, home_tag, used
from disent_assets.settings.results_folder import claim
from disent_assets.warehouse.costs import read_run_table
from disent_core.config.load import load_config
from disent_core.errors import ConfigError
from disent_core.lineage.workspace import Workspace
from disent_core.storage.schemas import ASSET_STATE

pytestmark = pytest.mark.end_to_end

TYPE = "disent_assets.component.DisentLineage"
OTHER = """
import dagster as dg

@dg.asset(key=["corpora", "utterances"], group_name="corpora", pool="gpu")
def ours() -> None: ...

@dg.job
def refresh() -> None: ...
"""
DEFS = """
type: {type}
attributes:
  config: ../../../{name}/disent.toml
  home: ../../../{name}/home
  prefix: [{name}]
  workers: {workers}
"""
PYPROJECT = """
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "{module}"
"""
LOADED = """
from pathlib import Path
import dagster as dg

@dg.definitions
def defs() -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


STARTERS = {"start_refresh": "refresh", "refresh_at_night": "refresh", "each_week": "weekly_summary"}


@dataclass(frozen=True)
class Host:
    """A team's project with an asset of its own and two lineages, `first` and `second`."""

    folder: Path
    module: str
    first: Project
    second: Project

    def load(self) -> dg.Definitions:
        return __import__(f"{self.module}.definitions", fromlist=["defs"]).defs()


def _project(folder: Path) -> Project:
    folder.mkdir()
    return new_project(folder)


def new_host(folder: Path) -> Host:
    module, first, second = f"team_{abs(hash(folder))}", *(_project(folder / name) for name in ("first", "second"))
    second.configure('methods = ["raw", "dream", "fmda", "fmda_softmax"]', 'methods = ["raw"]')
    second.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["de-en"]')
    second.configure('name = "tiny"', 'name = "small"')
    second.configure('"en-US", "de-DE", "ja-JP"', '"en-US", "de-DE"')
    second.configure("[evaluation]", '[evaluation]\ntasks = ["template_retrieval"]')
    files = {
        "pyproject.toml": PYPROJECT.format(module=module),
        f"{module}/__init__.py": "",
        f"{module}/definitions.py": LOADED,
        f"{module}/defs/__init__.py": "",
        f"{module}/defs/other.py": OTHER,
        **{
            f"{module}/defs/{name}/defs.yaml": DEFS.format(type=TYPE, name=name, workers=workers)
            for workers, name in enumerate(("first", "second"), start=1)
        },
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Host(folder, module, first, second)


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    made = new_host(folder)
    sys.path.insert(0, str(folder))
    yield made
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def definitions(host) -> dg.Definitions:
    return host.load()


@pytest.fixture(scope="module")
def repository(definitions) -> dg.RepositoryDefinition:
    return definitions.get_repository_def()


def files(project: Project) -> set[str]:
    """Files of results, by path."""
    return {path.relative_to(project.home).as_posix() for path in project.home.rglob("*.parquet")}


@contextmanager
def unchanged(project: Project) -> Iterator[None]:
    before = {path: path.stat().st_mtime_ns for path in project.folder.rglob("*")}
    yield
    assert {path: path.stat().st_mtime_ns for path in project.folder.rglob("*")} == before


def of_lineages(names: Iterable[str]) -> list[str]:
    """First part of each name that begins with the prefix of a lineage."""
    parts = [re.match("(first|second)(__|/|$)", name) for name in names]
    return [part[1] if part else "" for part in parts]


# --- names ------------------------------------------------------------------------------------------------


def test_a_lineage_is_namespaced_by_its_prefix_and_independent_of_others(repository):
    nodes = [node for node in repository.asset_graph.asset_nodes if node.key.path != ["corpora", "utterances"]]
    of_keys = [node.key.path[0] for node in nodes]
    assert set(of_keys) == {"first", "second"}
    assert [node.group_name.rpartition("_")[2] for node in nodes] == of_keys
    assert of_lineages(node.assets_def.op.name for node in nodes if node.is_executable) == [
        node.key.path[0] for node in nodes if node.is_executable
    ]
    graph = repository.asset_graph
    assert {key.asset_key.path[0] for key in graph.asset_check_keys} == {"first", "second"}
    assert all(
        parent.path[0] == key.path[0] for key in graph.get_all_asset_keys() for parent in graph.get(key).parent_keys
    )


def test_each_lineage_has_separate_jobs_and_initially_stopped_schedules(repository):
    started = [*repository.sensor_defs, *repository.schedule_defs]
    assert {definition.name: definition.job_name for definition in started} == {
        f"{name}__{starter}": f"{name}__{job}" for name in ("first", "second") for starter, job in STARTERS.items()
    }
    assert {definition.default_status.value for definition in started} == {"STOPPED"}
    steps = [repository.get_job(f"{name}__refresh").nodes[0].name for name in ("first", "second")]
    assert steps == ["first__make_what_is_stale", "second__make_what_is_stale"]


def test_gpu_steps_use_the_pool_of_their_prefix_or_a_configured_one(host, monkeypatch):
    monkeypatch.setattr(factory, "_has_gpu", lambda: True)
    text = host.second.config.read_text(encoding="utf-8").replace('device = "cpu"', "")
    path = host.second.folder / "gpu.toml"
    path.write_text(text, encoding="utf-8")
    workspace = Workspace(load_config(path), host.second.home, ("a", "b"))
    pools = [
        {asset.op.pool for asset in hosted(workspace, pool).assets or () if isinstance(asset, dg.AssetsDefinition)}
        for pool in (None, "shared")
    ]
    assert pools == [{None, "a__b__gpu"}, {None, "shared"}]


def test_the_plan_of_a_lineage_under_a_prefix_is_the_plan_without(host):
    assert factory.prefixed_name(("a", "b"), "refresh") != factory.prefixed_name(("a_b",), "refresh")
    workspace = Workspace(load_config(host.first.config), host.first.home, ("a", "b"))
    bare = host.first.workspace
    assert plan(steps_of(workspace, hosted_assets(workspace))) == plan(steps_of(bare, build(bare)))


# --- runs -------------------------------------------------------------------------------------------------


def test_a_run_reads_and_writes_only_what_belongs_to_its_lineage(host, definitions):
    key = dg.AssetKey(["first", "corpora", "utterances"])
    with unchanged(host.second), dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(asset_selection=[key], partition_key="de", instance=instance)
        (made,) = result.get_asset_materialization_events()
        checks = {check.asset_key for check in result.get_asset_check_evaluations()}
    assert (made.asset_key, made.partition, checks) == (key, "de", {key})
    assert "tables/corpora/utterances/sample/de.parquet" in files(host.first)
    assert (host.first.home / "configuration.json").is_file()  # claimed


def test_pictures_served_only_by_our_web_server_are_omitted(tmp_path):
    shown = pictures(tmp_path, "made of", {tmp_path / "bar.png": Figure})
    result = _result(dg.MaterializeResult(metadata=shown), dg.AssetKey("bars"), ("first",))
    assert set(result.metadata) == {"pictures"}
    assert result.asset_key == dg.AssetKey(["first", "bars"])


def test_a_refresh_is_one_run_in_the_instance_of_the_project(host, definitions, tmp_path):
    utterances = ['key:"second/corpora/utterances"', 'key:"second/targets/masked_utterances"']
    job, project = definitions.get_job_def("second__refresh"), host.second
    workspace = Workspace(load_config(project.config), project.home, ("second",))
    config = {"ops": {"second__make_what_is_stale": {"config": {"selection": utterances}}}}
    names = ("corpora/utterances", "targets/masked_utterances")
    with unchanged(host.first), dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        first = job.execute_in_process(instance=instance, run_config=config)
        second = job.execute_in_process(instance=instance, run_config=config)
        assert len(instance.get_runs(dg.RunsFilter(tags=OF_STEPS))) == 2
    made = {(event.asset_key.to_user_string(), event.partition) for event in first.get_asset_materialization_events()}
    assert made == {(f"second/{name}", language) for name in names for language in ("en", "de")}
    assert second.get_asset_materialization_events() == []
    states = find_states(workspace)
    fresh = {(state.asset, state.partition) for state in states if state.status == "fresh"}
    assert fresh == {(name, language) for name in names for language in ("en", "de")}
    rows = [(row["asset"], row["stage"]) for row in read_run_table(workspace, ASSET_STATE).to_pylist()]
    assert set(rows) >= {(name, name.partition("/")[0]) for name in names}
    assert not (project.home / "dagster" / "storage").exists()


def test_each_lineage_has_a_weekly_summary_and_report_of_its_warehouse(host, definitions, tmp_path):
    project = host.second
    workspace = Workspace(load_config(project.config), project.home, ("second",))
    keys = [dg.AssetKey(["second", "warehouse", name]) for name in ("report", "weekly_summary")]
    project.materialize()
    with unchanged(host.first), dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        for failed, selected in (("ours", None), ("of_first", "first"), ("of_second", "second")):
            selection = {dg.AssetKey([selected, "corpora", "utterances"])} if selected else None
            instance.add_run(dg.DagsterRun(failed, asset_selection=selection, status=dg.DagsterRunStatus.FAILURE))
        job = definitions.resolve_job_def("second__weekly_summary")
        made = job.execute_in_process(instance=instance).get_asset_materialization_events()
        newest = newest_by_hand(instance, keys)
    metadata = {event.asset_key: event.materialization.metadata for event in made}
    assert sorted(metadata) == keys
    assert ", 1 failed run, " in metadata[keys[1]]["summary"].value
    assert newest == ""  # it asks for no refresh
    assert metadata[keys[0]]["report"].value == str(workspace.home / "report.html")
    assert {"report.html", "weekly_summary.md"} <= {path.name for path in project.home.iterdir()}


def test_a_refresh_ends_lost_runs_of_its_lineage_only(host, tmp_path):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        for number, home in enumerate((host.first.home, host.second.home)):
            with used(instance, home):
                tags = {**FACE, **home_tag(instance)}
            instance.add_run(dg.DagsterRun("job", str(number), status=dg.DagsterRunStatus.STARTED, tags=tags))
        with used(instance, host.first.home):
            statuses = [instance.get_run_by_id(number).status.value for number in "01"]
    assert statuses == ["FAILURE", "STARTED"]


def test_only_materialisations_of_lineage_assets_trigger_a_refresh():
    key = dg.AssetKey(["first", "corpora", "utterances"])

    @dg.asset(key=key)
    def of_lineage() -> None: ...

    @dg.asset
    def foreign() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        made = dg.materialize([of_lineage], instance=instance)
        dg.materialize([foreign], instance=instance)
        assert newest_by_hand(instance, [key]) == made.run_id
        assert newest_by_hand(instance, [dg.AssetKey("other")]) == ""


def test_a_prefix_with_a_slash_and_a_folder_of_results_of_another_configuration_are_refused(host, definitions):
    with pytest.raises(ValidationError, match="prefix"):
        DisentLineage(config="disent.toml", home="data", prefix=["a/b"])
    claim(load_config(host.first.config), host.first.home)
    component = DisentLineage(config=str(host.second.config), home=str(host.first.home))
    with pytest.raises(ConfigError, match=re.escape(str(host.first.config))):
        component.build_defs(dg.ComponentTree.for_test().load_context)


# --- the command line of Dagster --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dg") is None, reason="dg is not installed: pip install dagster-dg-cli")
def test_dg_checks_lists_and_launches_both_lineages(tmp_path):
    host = new_host(tmp_path)
    dagster_home = tmp_path / "instance"
    dagster_home.mkdir()
    elsewhere = tmp_path / "elsewhere"

    def dg_(*arguments: str) -> str:
        environment = {**os.environ, "DAGSTER_HOME": str(dagster_home), "DISENT_HOME": str(elsewhere)}
        run = subprocess.run(
            ["dg", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    dg_("check", "defs")
    listed = dg_("list", "defs", "--json")
    assert {"first/warehouse/database", "second/warehouse/database", "second__refresh"} <= set(
        re.findall(r'"([^"]*)"', listed)
    )
    dg_("launch", "--assets", "key:first/corpora/utterances", "--partition", "en")
    dg_("launch", "--job", "second__refresh")
    assert files(host.first) == {"tables/corpora/utterances/sample/en.parquet"}
    assert host.second.disent("leaderboard").exit_code == 0
    assert not elsewhere.exists()
