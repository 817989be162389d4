"""What Dagster shows of the lineage is what the steps declare, under names that are unique."""

import re
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import corpus, encoder, experiment, section

from disent.home import PROJECT
from disent_assets.definitions import build
from disent_assets.lineage.factory import step_name
from disent_assets.lineage.metadata import code_references
from disent_assets.run.steps import BUILD
from disent_assets.settings.environment import SQL
from disent_assets.warehouse.refresh import code_version, refresh_warehouse, warehouse_checks
from disent_core.config.load import load_config
from disent_core.lineage.steps import Warehouse, sources, steps
from disent_core.lineage.workspace import Workspace
from disent_core.methods import places

CONFIGURATIONS = sorted([PROJECT / "disent.toml", *(PROJECT / "configs").rglob("*.toml")])
WAREHOUSE = Warehouse(code_version(), tuple(warehouse_checks().values()), refresh_warehouse, (BUILD,))


def has_partitions(node):
    return node.partitions_def is None or bool(node.partitions_def.get_partition_keys())


def parents(graph, key, partition):
    for parent in graph.get(key).parent_keys:
        if graph.get(parent).partitions_def is None:
            yield tuple(parent.path), None
        else:
            of_child = graph.get_parent_partition_keys_for_child(partition, parent, key)
            yield from ((tuple(parent.path), name) for name in of_child.partitions_subset.get_partition_keys())


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids=lambda path: path.stem)
def workspace(request, tmp_path_factory):
    return Workspace(load_config(request.param), tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def listed(workspace):
    return steps(workspace, WAREHOUSE)


def test_assets_have_the_keys_partitions_versions_and_parents_of_their_steps(workspace, listed):
    graph = build(workspace).resolve_asset_graph()
    made = {tuple(key.path) for key in graph.materializable_asset_keys if has_partitions(graph.get(key))}
    assert sorted(key for step in listed if step.partitions != () for key in step.outputs) == sorted(made)
    seen = set()
    for step in listed:
        for output in step.made:
            key = dg.AssetKey(output.key)
            node = graph.get(key)
            assert (node.partitions_def and tuple(node.partitions_def.get_partition_keys())) == step.partitions
            assert node.code_version == step.version
            assert node.description == output.description
            assert {check.name for check in node.check_keys} == {check.name for check in step.checks}
            assert {tuple(parent.path) for parent in node.parent_keys} == {read.key for read in step.reads}
            for name in step.partitions or [None]:
                assert sorted(step.parents(name), key=str) == sorted(parents(graph, key, name), key=str)
        assert {read.key for read in step.reads} - seen <= {key for key in step.parent_partitions if key not in made}
        seen |= {*step.outputs}


def test_every_step_and_every_source_has_a_check(workspace, listed):
    unchecked = [step.key for step in listed if not step.checks]
    assert unchecked + [source.key for source in sources(workspace.config) if not source.checks] == []


def test_every_asset_has_a_check_and_an_owner_in_the_ui(tmp_path):
    graph = build(Workspace(load_config(PROJECT / "disent.toml"), tmp_path)).resolve_asset_graph()
    nodes = [graph.get(key) for key in graph.get_all_asset_keys()]
    assert [node.key.to_user_string() for node in nodes if not node.check_keys or node.owners != ["team:disent"]] == []


def test_every_step_leads_to_code_that_exists(listed):
    places = {place for step in listed for place in step.code}
    assert all(step.code for step in listed)
    for place in places:
        (reference,) = code_references([place]).code_references
        line = Path(reference.file_path).read_text(encoding="utf-8").splitlines()[reference.line_number - 1]
        assert place.partition(":")[2] in line


def test_code_references_lead_to_trainer_declaration_or_query():
    assert places("facet") == ("disent_core.methods.facet_head:FacetTrainer", "disent_core.methods.facet")
    assert places("dream")[0] == "disent_core.methods.dream_head:DreamHead"
    graph = build(Workspace(load_config(PROJECT / "disent.toml"), PROJECT)).resolve_asset_graph()
    of_best = graph.get(dg.AssetKey(["warehouse", "main", "best"])).metadata["dagster/code_references"]
    assert [reference.file_path for reference in of_best.code_references] == [str(SQL / "views" / "best.sql")]


# --- names ---

VARIANTS = ("fmda", "fmda-contrast", "fmda_contrast", "fmda.contrast", "fmda-reconstruction")
CONFIG = (
    corpus("sample", path="corpus", languages=["en-US", "de-DE"])
    + encoder("small-1.0")
    + experiment(*VARIANTS)
    + section('methods."fmda-contrast"', method="fmda", without=["contrast"])
    + section("methods.fmda_contrast", method="fmda", contrast="hinge")
    + section('methods."fmda.contrast"', method="fmda", contrast="softmax")
    + section('methods."fmda-reconstruction"', method="fmda", without=["reconstruction"])
)


def test_variants_with_similar_names_have_separate_assets_and_legal_group_names(load, tmp_path):
    config = load(CONFIG)
    assert config.methods["fmda-contrast"].settings.without == ("contrast",)
    definitions = build(Workspace(config, tmp_path / "home"))
    specs = definitions.resolve_all_asset_specs()
    for stage, suffix in (("heads", "head"), ("evaluation", "metrics")):
        names = {spec.key.path[-1] for spec in specs if spec.key.path[0] == stage}
        assert names >= {f"{name}_{suffix}" for name in VARIANTS}
    groups = {"embeddings_small_1_0", "heads_small_1_0", "evaluation_small_1_0"}
    assert groups < {spec.group_name for spec in specs}


part = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,4}", fullmatch=True)


@given(st.lists(st.lists(part, min_size=1, max_size=3).map(tuple), min_size=2, max_size=2, unique=True))
def test_different_keys_have_different_step_names(keys):
    names = {step_name(key) for key in keys}
    assert len(names) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in names)
