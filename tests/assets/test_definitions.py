"""What Dagster loads from a configuration."""

from pathlib import Path

import dagster as dg
import pytest
from worlds import corpus, encoder, experiment, section

from disent.home import PROJECT, home_folder
from disent_assets.definitions import build
from disent_assets.lineage import factory
from disent_assets.run.plan import plan, steps_of
from disent_assets.settings.environment import open_workspace
from disent_assets.settings.instance import SETTINGS, dagster_home
from disent_core.config.load import load_config
from disent_core.errors import ConfigError
from disent_core.lineage.partitions import language_to_training_sets
from disent_core.lineage.workspace import Workspace
from disent_core.storage.remote import detach, remote_of

CONFIG = (
    corpus("sample", path="corpus", languages=["en-US", "de-DE", "ja-JP", "es-ES"])
    + encoder("own")
    + encoder("published", "huggingface", path="model")
    + experiment("raw", "dream", "fmda", pairs=["en-de", "en-ja", "en-de+en-ja"])
    + section("methods.dream", pairs=["en-ja"], seeds=[7])
    + section("methods.fmda", encoders=["own"])
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "disent.toml").write_text(CONFIG, encoding="utf-8")
    return Workspace(load_config(tmp_path / "disent.toml"), tmp_path / "home")


@pytest.fixture
def graph(workspace):
    return build(workspace).resolve_asset_graph()


def keys(graph, prefix: str) -> set[str]:
    return {key.to_user_string() for key in graph.get_all_asset_keys() if key.path[0] == prefix}


def parents(graph, key: str) -> set[str]:
    return {parent.to_user_string() for parent in graph.get(dg.AssetKey(key.split("/"))).parent_keys}


STUDENT = {"kind": "distilled", "teacher": "published", "corpora": ["bitext"]}
DISTILLED = CONFIG.replace('path = "model"', 'path = "model"\npooling = "mean"') + "".join(
    (
        corpus("bitext", "moses", pairs=["en-de"]),
        encoder("multi", **STUDENT),
        encoder("start", **STUDENT, train=False),
        encoder("low", **STUDENT, layer=[0, 1]),
    )
)


def test_a_distilled_encoder_is_two_assets_and_may_share_its_aligned_encoder(tmp_path):
    (tmp_path / "disent.toml").write_text(DISTILLED, encoding="utf-8")
    graph = build(Workspace(load_config(tmp_path / "disent.toml"), tmp_path / "home")).resolve_asset_graph()
    corpora = {"corpora/utterances", "corpora/sentence_pairs"}
    assert parents(graph, "embeddings/multi/multi_aligned") == corpora
    assert "embeddings/start/start_aligned" not in keys(graph, "embeddings")
    for name in ("multi", "start"):
        encoder = f"embeddings/{name}/{name}_encoder"
        assert parents(graph, encoder) == {"embeddings/multi/multi_aligned", *corpora}
        assert encoder in parents(graph, f"embeddings/{name}/{name}_vectors")
    student = "embeddings/multi/multi_encoder"
    assert parents(graph, "embeddings/low/low_encoder") == {"embeddings/multi/multi_aligned", student, *corpora}


def test_one_step_at_a_time_uses_an_accelerator(workspace, monkeypatch):
    monkeypatch.setattr("disent_assets.lineage.factory._has_gpu", lambda: True)
    workspace.config.path.write_text(CONFIG.replace('"dream", ', '"dream", "tuned", '), encoding="utf-8")
    with_tuned = Workspace(load_config(workspace.config.path), workspace.home)
    graph = build(with_tuned).resolve_asset_graph()
    pooled = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).pools}
    evaluated = {key for key in pooled if key.startswith("evaluation/")}
    assert evaluated == {"evaluation/own/tuned_metrics", "evaluation/published/tuned_metrics"}
    assert {"embeddings/own/own_vectors", "heads/own/dream_head", "heads/own/tuned_head"} <= pooled


def test_steps_on_a_cpu_do_not_wait_for_each_other_and_loading_writes_nothing(graph, workspace):
    assert not any(graph.get(key).pools for key in graph.get_all_asset_keys())
    assert not workspace.home.exists()


def test_heads_metrics_and_states_exist_only_for_the_methods_of_an_encoder(graph):
    heads = {key for key in keys(graph, "heads") if key.endswith("_head")}
    assert heads == {"heads/own/dream_head", "heads/own/fmda_head", "heads/published/dream_head"}
    methods = ("own/raw", "own/dream", "own/fmda", "published/raw", "published/dream")
    metrics = {f"evaluation/{method}_metrics" for method in methods}
    of_encoders = {
        f"evaluation/{name}/{name}_{what}"
        for name in ("own", "published")
        for what in ("evaluation_sets", "comparisons")
    }
    assert keys(graph, "evaluation") == metrics | of_encoders
    assert keys(graph, "embeddings") == {
        "embeddings/own/own_encoder",
        "embeddings/own/own_vectors",
        "embeddings/own/own_states",
        "embeddings/published/published_vectors",
    }


def test_the_warehouse_depends_on_comparisons_and_these_on_every_metric(graph):
    of_encoder = {"targets/aligned_pairs", "embeddings/published/published_vectors"}
    assert parents(graph, "heads/published/published_training_data") == of_encoder
    upstream = {key for key in parents(graph, "warehouse/database") if key.startswith("evaluation/")}
    comparisons = {f"evaluation/{name}/{name}_comparisons" for name in ("own", "published")}
    assert upstream == comparisons
    metrics = {key for key in keys(graph, "evaluation") if key.endswith("_metrics")}
    assert {parent for key in comparisons for parent in parents(graph, key)} == metrics


@pytest.mark.parametrize("group", ["heads_own", "evaluation_own", "heads_published", "evaluation_published"])
def test_only_the_gate_of_a_group_depends_on_groups_besides_heads(graph, group):
    stage, encoder = group.split("_")
    members = {key for key in graph.get_all_asset_keys() if graph.get(key).group_name == group}
    [root] = [key for key in members if not graph.get(key).parent_keys & members]
    assert root.path[-1] in (f"{encoder}_training_data", f"{encoder}_evaluation_sets")
    beyond = {parent for key in members - {root} for parent in graph.get(key).parent_keys - members}
    assert {graph.get(parent).group_name for parent in beyond} <= ({f"heads_{encoder}"} if stage != "heads" else set())


def test_asset_metadata_has_storage_location_encoder_and_method(workspace, graph):
    pages = {key: graph.get(key).metadata for key in graph.get_all_asset_keys() if graph.get(key).is_materializable}
    unstored = {key.path[-1] for key, metadata in pages.items() if "dagster/uri" not in metadata}
    gates = {f"{encoder}_{gate}" for encoder in ("own", "published") for gate in ("training_data", "evaluation_sets")}
    assert unstored == gates
    utterances = pages[dg.AssetKey(["corpora", "utterances"])]
    assert utterances["dagster/uri"] == (workspace.home / "tables/corpora/utterances").as_uri()
    assert utterances["dagster/relation_identifier"] == "corpora.utterances"
    tags = graph.get(dg.AssetKey(["evaluation", "own", "dream_metrics"])).tags
    assert (tags["disent/encoder"], tags["disent/method"]) == ("own", "dream")


def test_a_language_maps_to_exactly_the_training_sets_containing_it(workspace):
    everything = {"en-de", "en-ja", "en-de+en-ja"}
    reached = {"en": everything, "de": everything - {"en-ja"}, "ja": everything - {"en-de"}}
    assert language_to_training_sets(workspace.config) == reached


def test_a_plan_has_every_partition_once_in_topological_order(workspace):
    steps = steps_of(workspace, build(workspace))
    runs = [(run.key, run.partition) for run in plan(steps)]
    assert sorted(runs, key=str) == sorted(((step.key, name) for step in steps for name in step.names), key=str)
    place = {(key, run.partition): number for number, run in enumerate(plan(steps)) for key in run.outputs}
    uses = [(parent, (step.key, name)) for step in steps for name in step.names for parent in step.parents(name)]
    assert [(parent, node) for parent, node in uses if place.get(parent, 0) > place[node]] == []


@pytest.mark.parametrize("environment", [
    {"DISENT_HOME": "s3://key:planted@bucket/home"},
    {"DISENT_HOME": "s4://key:planted@bucket/home"},
    {"DISENT_HOME": "s3://bucket/home", "AWS_ENDPOINT_URL": "http://me:planted@host"},
    {"DISENT_HOME": "s3://bucket/home", "AWS_ENDPOINT": "http://me:plan/ted@host"},
])  # fmt: skip
def test_credentials_in_a_bucket_address_are_refused_and_not_shown(environment):
    with pytest.raises(ConfigError, match=r"^[A-Z_]+ must not contain [a-z ]+: set AWS_ACCESS_KEY_ID and [^/]*$"):
        home_folder(environment)


def test_the_environment_sets_the_folder_of_results(tmp_path):
    assert home_folder({"DISENT_HOME": str(tmp_path)}) == tmp_path
    assert home_folder({}) == PROJECT / "data"
    assert open_workspace({}).config.path == PROJECT / "disent.toml"


@pytest.mark.parametrize("home", ["s3:/bucket/home", "gs:bucket", "s4://bucket", "s3://", "http://host/folder"])
def test_a_malformed_bucket_address_is_not_taken_for_a_folder(home):
    with pytest.raises(ConfigError, match="is neither a folder nor one of s3://bucket/prefix"):
        home_folder({"DISENT_HOME": home})


def test_the_environment_sets_folder_and_size_of_the_bucket_cache(tmp_path):
    environment = {"DISENT_HOME": "s3://bucket/home", "DISENT_CACHE": str(tmp_path)}
    for size, most in (({}, None), ({"DISENT_CACHE_SIZE": "0.5"}, 500_000_000)):
        folder = home_folder(environment | size)
        cache = remote_of(folder / "tables").cache
        assert (None if cache is None else (cache.folder, cache.most)) == (most and (folder, most))
        detach(folder)
    with pytest.raises(ConfigError, match="DISENT_CACHE_SIZE must be a number >= 0"):
        home_folder(environment | {"DISENT_CACHE_SIZE": "all"})


def test_a_new_dagster_home_gets_the_settings_of_the_project(tmp_path):
    folder = dagster_home(tmp_path)
    assert (folder / "dagster.yaml").read_bytes() == SETTINGS.read_bytes()
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")  # the user's from now on
    assert (dagster_home(tmp_path) / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


def test_a_method_may_override_partitions_and_seeds(workspace, graph):
    for stage, what in (("heads", "head"), ("evaluation", "metrics")):
        of_dream, of_fmda = (graph.get(dg.AssetKey([stage, "own", f"{name}_{what}"])) for name in ("dream", "fmda"))
        assert list(of_dream.partitions_def.get_partition_keys()) == ["en-ja"]
        assert len(of_fmda.partitions_def.get_partition_keys()) == 3
    assert workspace.config.seeds_of(workspace.config.methods["dream"]) == (7,)
    assert workspace.config.seeds_of(workspace.config.methods["fmda"]) == (0, 1, 2)


def test_a_mixture_may_belong_to_a_single_method(tmp_path):
    text = CONFIG.replace('pairs = ["en-ja"]', 'pairs = ["en-de+en-es"]')
    (tmp_path / "disent.toml").write_text(text, encoding="utf-8")
    graph = build(Workspace(load_config(tmp_path / "disent.toml"), tmp_path / "home")).resolve_asset_graph()

    def partitions(*key):
        return list(graph.get(dg.AssetKey(key)).partitions_def.get_partition_keys())

    assert partitions("heads", "own", "dream_head") == ["en-de+en-es"]
    assert partitions("heads", "own", "fmda_head") == ["en-de", "en-ja", "en-de+en-ja"]
    assert partitions("targets", "aligned_pairs") == ["en-de", "en-ja", "en-de+en-ja", "en-de+en-es"]


@pytest.mark.parametrize(("driver", "expected"), [("null", True), ("no_such_device*", False)])
def test_torch_is_queried_for_a_gpu_only_if_a_driver_exists(monkeypatch, driver, expected):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(factory, "GPU_DRIVERS", (driver,))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert factory._has_gpu.__wrapped__() is expected
