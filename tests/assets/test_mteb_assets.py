"""Result files of mteb are watched as corpora are, and only where the configuration names some."""

import json
import shutil

import dagster as dg
import pytest
from worlds import corpus, encoder, experiment

from disent_assets.definitions import build
from disent_assets.lineage.refresh import observe
from disent_assets.run.corpus_versions import read_sources
from disent_assets.run.steps import find_states
from disent_core.lineage.steps import MTEB_FILES
from disent_core.lineage.workspace import Workspace

CONFIG = corpus("lines", "tatoeba", path=".", pairs=["de-en"], train=True) + encoder("tiny") + experiment()
RESULT = {"task_name": "STS17", "scores": {"test": [{"cosine_spearman": 0.5, "hf_subset": "en-en"}]}}
TABLE = dg.AssetKey(["evaluation", "mteb_results"])


@pytest.fixture
def workspace(tmp_path, load) -> Workspace:
    for language in ("deu", "eng"):
        (tmp_path / f"tatoeba.deu-eng.{language}").write_text("Ja.\n", encoding="utf-8")
    return Workspace(load(f'{CONFIG}\n[mteb.results]\nours = "home/mteb"\n'), tmp_path / "home")


def write(workspace: Workspace, **changes: object) -> None:
    path = workspace.home / "mteb" / "results" / "org__model" / "1" / "STS17.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(RESULT | changes), encoding="utf-8")


def test_without_a_folder_there_are_no_mteb_assets(workspace, load):
    graph = build(Workspace(load(CONFIG), workspace.home)).resolve_asset_graph()
    assert {key.path[1] for key in graph.get_all_asset_keys() if key.path[1].startswith("mteb")} == set()


def test_the_warehouse_depends_on_the_results(workspace):
    graph = build(workspace).resolve_asset_graph()
    assert TABLE in graph.get(dg.AssetKey(["warehouse", "database"])).parent_keys
    assert graph.get(TABLE).parent_keys == {dg.AssetKey(MTEB_FILES)}


def test_a_changed_file_changes_the_version_of_its_folder_unless_it_is_of_another_task(workspace):
    write(workspace)
    first = read_sources(workspace)[MTEB_FILES].versions["ours"]
    assert read_sources(workspace)[MTEB_FILES].versions["ours"] == first
    write(workspace, mteb_version="2")
    assert read_sources(workspace)[MTEB_FILES].versions["ours"] != first
    write(workspace)
    first = read_sources(workspace)[MTEB_FILES].versions
    (workspace.home / "mteb" / "results" / "org__model" / "1" / "BUCC.v2.json").write_text("{}", encoding="utf-8")
    assert read_sources(workspace)[MTEB_FILES].versions == first


def test_the_asset_makes_the_table(workspace):
    write(workspace)
    instance = dg.DagsterInstance.ephemeral()
    observe(workspace, instance, read_sources(workspace))
    made = dg.materialize(
        build(workspace).assets, selection=[TABLE], partition_key="ours", instance=instance, raise_on_error=True
    )
    (event,) = made.get_asset_materialization_events()
    assert event.step_materialization_data.materialization.metadata["dagster/partition_row_count"].value == 1
    states = {state.asset: state for state in find_states(workspace)}
    assert states["evaluation/mteb_results"].status == "fresh"
    shutil.rmtree(workspace.home / "mteb")
    states = {state.asset: state for state in find_states(workspace)}
    assert states["evaluation/mteb_results"].causes == ("its published files can't be read",)
