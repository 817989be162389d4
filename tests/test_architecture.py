"""What may know what: the boundaries that keep the library pure and the stages in order."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import dagster as dg
import pytest

from disent_assets import definitions
from disent_assets.run.steps import steps_in
from disent_assets.settings.environment import open_workspace
from disent_core import corpora, encoders, methods
from disent_core.config.reference import SECTIONS
from disent_core.config.toml_lines import TomlErrors
from disent_core.corpora.contract import PairReader, Reader
from disent_core.encoders.contract import EncoderConfig
from disent_core.encoders.kinds.huggingface import _MODEL_FILES
from disent_core.errors import ConfigError
from disent_core.evaluation import contract
from disent_core.methods.contract import Method
from disent_core.methods.trainer import Trainer, trainer
from disent_core.registry import imported
from disent_core.targets.template_pairs import TemplatePairConfig

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("corpora", "negatives", "targets", "embeddings", "heads", "evaluation", "exports", "warehouse")
LAYERS = (
    "errors", "normal_form", "text", "embedding_names", "random_bits", "progress", "settings", "exact", "matmul",
    "registry", "storage", "shards", "losses", "corpora", "negatives", "optimisation", "encoders", "targets",
    "embeddings", "training", "methods", "static_folder", "static_model", "evaluation", "report", "config", "lineage",
    "export", "search", "mteb_bridge", "classifier", "linkage", "shapes",
)  # fmt: skip
"""Folders and modules of `disent_core`, the lowest first."""
FACE = ("dagster", "duckdb")
TRAINING = ("methods", "training", "optimisation", "embeddings", "encoders", "losses", "storage")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


SOURCES = {
    module_name(path): path
    for package in ("disent", "disent_core", "disent_assets")
    for path in (ROOT / package).rglob("*.py")
}
CORE = sorted(name for name in SOURCES if name.split(".")[0] == "disent_core")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(SOURCES[name].read_text(encoding="utf-8"))


def nodes_of_kind(name: str, kind: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree(name)) if isinstance(node, kind))


# --- imports ----------------------------------------------------------------------------------------------


def test_each_part_of_the_core_avoids_its_forbidden_libraries():
    """In one process, the part with the fewest libraries first."""
    declarations = sorted({f"disent_core.methods.{name}" for name in ("contract", "families")}
                          | {address.partition(":")[0] for address in methods.METHODS.values()})  # fmt: skip
    computing = [name for name in CORE if name.split(".")[1:2] and name.split(".")[1] in TRAINING]
    parts = [
        (declarations, ("torch", "scipy", "polars", "pydantic", "jaxtyping")),  # what a method is
        (computing, ("pydantic", "polars", "faiss")),  # encoding and training
        (CORE, ("ray", "obstore")),
    ]
    assert len(declarations) > 10
    assert len(computing) > 15
    code = "import sys\n" + "".join(
        f"import {', '.join(modules)}\nprint(sorted(set({(*FACE, *without)}) & set(sys.modules)))\n"
        for modules, without in parts
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["[]"] * len(parts)


def test_the_assets_of_the_demo_are_defined_without_the_libraries_that_compute_them(tmp_path):
    unwanted = ("torch", "transformers", "matplotlib", "sklearn", "polars", "scipy", "duckdb")
    code = (
        "import sys; from disent_assets import definitions; "
        "from disent_assets.settings.environment import open_workspace; "
        "definitions.build(open_workspace()).resolve_asset_graph(); "
        f"print(sorted(set({unwanted}) & set(sys.modules)))"
    )
    environment = {**os.environ, "DISENT_HOME": str(tmp_path), "DISENT_CONFIG": str(ROOT / "disent.toml")}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.strip() == "[]"


def test_no_package_imports_a_higher_package():
    packages = ("disent_core", "disent", "disent_assets")
    upward = [
        (name, other)
        for name in SOURCES
        for other in imports(name)
        if packages.index(other.split(".")[0]) > packages.index(name.split(".")[0])
    ]
    assert upward == []


def imports(name: str) -> Iterator[str]:
    """Modules of the project that a module names, wherever in it."""
    for node in nodes_of_kind(name, ast.ImportFrom | ast.Import):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in SOURCES)
            continue
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (target for target in inner if target in SOURCES)
        if node.module in SOURCES and not all(target in SOURCES for target in inner):
            yield str(node.module)


def test_there_are_no_import_cycles():
    TopologicalSorter({name: set(imports(name)) for name in SOURCES}).prepare()  # raises CycleError


def test_folders_of_disent_assets_do_not_import_each_other_both_ways():
    folders: dict[str, set[str]] = {}
    for name in SOURCES:
        if name.startswith("disent_assets."):
            inside = {other.split(".")[1] for other in imports(name) if other.startswith("disent_assets.")}
            folders.setdefault(name.split(".")[1], set()).update(inside)
    TopologicalSorter({folder: inside - {folder} for folder, inside in folders.items()}).prepare()


def test_a_module_imports_only_from_its_layer_or_below():
    layer_of = {"disent_core": LAYERS[0]} | {name: name.split(".")[1] for name in CORE if "." in name}
    assert {*layer_of.values()} == set(LAYERS)
    upward = [
        (name, other)
        for name, layer in layer_of.items()
        for other in imports(name)
        if LAYERS.index(layer_of[other]) > LAYERS.index(layer)
    ]
    assert upward == []


# --- manners ----------------------------------------------------------------------------------------------


def calls(name: str) -> Iterator[tuple[str, dict[str | None, object]]]:
    """Dotted names of what a module calls, with its keywords and their values where these are constants."""
    for node in nodes_of_kind(name, ast.Call):
        yield ast.unparse(node.func), {keyword.arg: getattr(keyword.value, "value", None) for keyword in node.keywords}


def test_models_are_loaded_from_safetensors_and_never_bring_code():
    loaded = [call for name in SOURCES for call in calls(name) if call[0].endswith(".from_pretrained")]
    models = [keywords for called, keywords in loaded if "Model" in called]
    assert models
    assert all(keywords.get("trust_remote_code") is False for _, keywords in loaded)
    assert all(keywords.get("use_safetensors") is True for keywords in models)


def test_only_texts_and_safetensors_are_downloaded_from_the_hub():
    assert {pattern.rsplit(".", 1)[-1] for pattern in _MODEL_FILES} == {"safetensors", "json", "txt", "model"}
    downloads = [keywords for name in SOURCES for called, keywords in calls(name) if "snapshot_download" in called]
    assert downloads
    assert all("allow_patterns" in keywords for keywords in downloads)


def test_only_two_core_modules_keep_global_state():
    # `remote` knows which homes are in a bucket (decision 0015). What `shared` keeps only saves work.
    empty = ("{}", "[]", "set()", "dict()", "list()", "deque()", "WeakKeyDictionary()", "WeakValueDictionary()")
    values = [
        (name, node.value) for name in CORE for node in tree(name).body if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    stateful = {name for name, value in values if value and ast.unparse(value).endswith(empty)}
    assert stateful == {"disent_core.storage.remote", "disent_core.evaluation.metrics.shared"}


def test_the_web_server_listens_on_localhost_only():
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    servers = [line for line in lines if "disent_assets.web.server" in line]
    assert not any("dagster dev" in line or "dagster-webserver" in line for line in lines)
    launcher = (ROOT / "disent_assets" / "web" / "dev.py").read_text(encoding="utf-8").replace('", "', " ")
    servers += [line for line in launcher.splitlines() if "--port" in line]
    assert len(servers) == 2
    assert all("--host 127.0.0.1" in line for line in servers)


# --- registries -------------------------------------------------------------------------------------------


def test_a_method_is_a_line_in_its_registry_and_a_module_that_keeps_the_contract():
    for name in methods.METHODS:
        method = methods.method(name)
        assert isinstance(method, Method), name
        assert method.name == name
        assert isinstance(trainer(method), Trainer), name
        parts = [part for part in vars(method).values() if isinstance(part, str) and part.startswith("disent_core.")]
        assert all(callable(imported(part)) for part in parts), name


def test_every_configuration_section_refuses_unknown_keys():
    presets = {type(preset) for name in methods.METHODS for preset in methods.method(name).presets.values()}
    kinds = set(map(encoders.encoder_kind, encoders.ENCODER_KINDS))
    for kind in {*SECTIONS.values(), TemplatePairConfig, *presets, *kinds}:
        with pytest.raises(ConfigError, match="no_such_key: unknown key"):
            TomlErrors(Path("x.toml"), "").validate(kind, {"no_such_key": 1}, (kind.__name__,))


def test_tasks_corpus_formats_and_encoder_kinds_are_lines_in_their_registry_and_keep_their_contract():
    for name in contract.TASKS:
        assert isinstance(contract.task(name), contract.Task), name
        assert contract.task(name).name == name
    for name in corpora.READERS:
        contract_of_format = PairReader if corpora.is_of_pairs(name) else Reader
        assert isinstance(corpora.format_module(name), contract_of_format), name
    assert all(issubclass(encoders.encoder_kind(name), EncoderConfig) for name in encoders.ENCODER_KINDS)


def test_asset_descriptions_access_no_files():
    files = re.compile(r"(import|from) (io|os)\b|\b(open|(read|write)_(text|bytes|table|result)|is_file)\(")
    described = [SOURCES[f"disent_assets.lineage.{name}"] for name in ("factory", "shown")]
    assert [path.name for path in described if files.search(path.read_text(encoding="utf-8"))] == []


# --- assets -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo() -> dg.Definitions:
    return definitions.build(open_workspace({"DISENT_HOME": str(ROOT / "build")}))


def test_the_stages_have_one_order():
    stages = dict.fromkeys(step.key[0] for step in steps_in(open_workspace({"DISENT_HOME": "home"})))
    assert list(stages) == [stage for stage in STAGES if stage != "exports"]  # which the demo has not


def test_every_asset_depends_only_on_its_own_or_an_earlier_stage_and_has_its_group(demo):
    graph = demo.resolve_asset_graph()
    uphill = [
        (parent.to_user_string(), key.to_user_string())
        for key in graph.get_all_asset_keys()
        for parent in graph.get(key).parent_keys
        if STAGES.index(parent.path[0]) > STAGES.index(key.path[0])
    ]
    assert uphill == []
    groups = {spec.key: spec.group_name for spec in demo.resolve_all_asset_specs()}
    odd = [key for key, group in groups.items() if group != "_".join(key.path[:-1]).replace("warehouse_", "wh_")]
    assert odd == []
    beginnings = {group[:6] for group in groups.values() if group.startswith("wh_")}  # what the graph shows of them
    assert len(beginnings) == len({group for group in groups.values() if group.startswith("wh_")})


def test_every_asset_describes_itself_and_those_that_are_made_have_an_owner_and_a_version(demo):
    graph = demo.resolve_asset_graph()
    for spec in demo.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.kinds, spec.key
        assert not graph.get(spec.key).is_materializable or (spec.owners and spec.code_version), spec.key


def test_no_two_files_of_tests_have_the_same_name():
    names = sorted(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert names == sorted(set(names)), "pytest imports one of two files of a name; the tests of the other do not run"
