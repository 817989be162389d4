"""What may know what: the boundaries that keep the library pure and the stages in order."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import dagster as dg
import pytest

from disent_assets import definitions
from disent_assets.resources import open_workspace
from disent_core import corpora, encoders, methods
from disent_core.config.reference import SECTIONS
from disent_core.config.toml_lines import Locator
from disent_core.corpora.contract import PairReader, Reader
from disent_core.encoders.contract import EncoderConfig
from disent_core.errors import ConfigError
from disent_core.evaluation import contract
from disent_core.heads.contract import Trainer, trainer
from disent_core.methods.contract import Method
from disent_core.registry import imported
from disent_core.targets.template_pairs import TemplatePairConfig

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("corpora", "negatives", "targets", "embeddings", "heads", "evaluation", "warehouse")
LAYERS = (
    "errors", "normal_form", "text", "random_bits", "progress", "settings", "matmul", "registry", "storage", "shards",
    "losses", "corpora", "negatives", "optimisation", "encoders", "targets", "embeddings", "training", "methods",
    "evaluation", "heads", "report", "config", "experiment", "export", "search", "mteb_bridge",
)  # fmt: skip
"""Folders and modules of `disent_core`, the lowest first."""
FACE = ("dagster", "duckdb")
TRAINING = ("heads", "methods", "training", "optimisation", "embeddings", "encoders", "losses", "storage")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


SOURCES = {
    module_name(path): path
    for package in ("disent", "disent_core", "disent_assets")
    for path in (ROOT / package).rglob("*.py")
}
CORE = sorted(name for name in SOURCES if name.split(".")[0] == "disent_core")


def tree(name: str) -> ast.Module:
    return ast.parse(SOURCES[name].read_text(encoding="utf-8"))


def found(name: str, kind: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree(name)) if isinstance(node, kind))


def loaded_by(modules: list[str], unwanted: tuple[str, ...]) -> str:
    code = f"import sys, {', '.join(modules)}; print(sorted(set({unwanted}) & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# --- imports ----------------------------------------------------------------------------------------------


def test_core_loads_neither_dagster_nor_duckdb():
    assert loaded_by(CORE, FACE) == "[]"


def test_encoding_and_training_load_neither_pydantic_nor_dagster_nor_duckdb_nor_polars_nor_faiss():
    modules = [name for name in CORE if name.split(".")[1:2] and name.split(".")[1] in TRAINING]
    assert len(modules) > 15
    assert loaded_by(modules, (*FACE, "pydantic", "polars", "faiss")) == "[]"


def test_what_a_method_is_can_be_read_without_the_libraries_that_compute_it():
    modules = [name for name in CORE if name.startswith("disent_core.methods")]
    assert len(modules) > 15
    assert loaded_by(modules, (*FACE, "torch", "scipy", "polars", "pydantic", "jaxtyping")) == "[]"


def test_the_assets_of_the_demo_are_defined_without_the_libraries_that_compute_them(tmp_path):
    unwanted = ("torch", "transformers", "matplotlib", "sklearn", "polars", "scipy", "duckdb")
    code = (
        "import sys; from disent_assets import definitions; from disent_assets.resources import open_workspace; "
        "definitions.build(open_workspace()).resolve_asset_graph(); "
        f"print(sorted(set({unwanted}) & set(sys.modules)))"
    )
    environment = {**os.environ, "DISENT_HOME": str(tmp_path), "DISENT_CONFIG": str(ROOT / "disent.toml")}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.strip() == "[]"


def test_only_one_module_speaks_to_buckets():
    named = {name for name in SOURCES for node in found(name, ast.Constant) if node.value == "obstore"}
    imported = [name for name in SOURCES for node in found(name, ast.ImportFrom | ast.Import)
                if "obstore" in ast.unparse(node)]  # fmt: skip
    assert (named, imported) == ({"disent_core.storage.objects", "disent_assets.cli.group"}, [])


def test_core_never_imports_what_stands_on_it():
    assert [name for name in CORE for other in imports(name) if other.split(".")[0] != "disent_core"] == []


def imports(name: str) -> Iterator[str]:
    """Modules of the project that a module names, wherever in it."""
    for node in found(name, ast.ImportFrom | ast.Import):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in SOURCES)
            continue
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (target for target in inner if target in SOURCES)
        if node.module in SOURCES and not all(target in SOURCES for target in inner):
            yield str(node.module)


def test_no_modules_import_each_other_in_a_circle():
    TopologicalSorter({name: set(imports(name)) for name in SOURCES}).prepare()  # raises CycleError


def layer(name: str) -> str:
    """The folder of `disent_core` that a module lies in, or the module itself where it lies in none."""
    return name.split(".")[1]


LAYERED = [name for name in CORE if "." in name]


def test_no_folders_import_each_other_in_a_circle():
    folders: dict[str, set[str]] = {}
    for name in LAYERED:
        folders.setdefault(layer(name), set()).update({layer(other) for other in imports(name)} - {layer(name)})
    TopologicalSorter(folders).prepare()  # raises CycleError


def test_every_folder_has_its_layer():
    assert {layer(name) for name in LAYERED} == set(LAYERS)


def test_a_module_imports_only_from_its_own_and_lower_layers():
    upward = [
        (name, other)
        for name in LAYERED
        for other in imports(name)
        if LAYERS.index(layer(other)) > LAYERS.index(layer(name))
    ]
    assert upward == []


def test_ray_is_imported_by_one_module_of_the_core_and_only_when_shards_are_sent_there():
    importers = {
        name
        for name in CORE
        for node in found(name, ast.Import | ast.ImportFrom)
        if any(
            one.split(".")[0] == "ray" for one in [getattr(node, "module", None) or "", *(a.name for a in node.names)]
        )
    }
    assert importers == {"disent_core.shards.on_ray"}
    assert loaded_by(sorted(importers), ("ray",)) == "[]"


def test_what_only_several_machines_need_is_imported_where_they_are_used():
    extras = {"obstore", "ray", "dagster_ray", "dagster_k8s", "dagster_postgres", "kubernetes", "psycopg2"}
    places = ("disent_core.storage.objects", "disent_core.shards.", "disent_assets.profiles.")
    users = {
        name
        for name in SOURCES
        for node in found(name, ast.ImportFrom | ast.Import)
        for module in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        if module.split(".")[0] in extras
    }
    assert {name for name in users if not f"{name}.".startswith(places)} == set()


# --- manners ----------------------------------------------------------------------------------------------


def test_core_does_not_read_the_environment():
    readers = [
        name
        for name in CORE
        for node in found(name, ast.Attribute)
        if node.attr in ("environ", "environb", "getenv") and isinstance(node.value, ast.Name) and node.value.id == "os"
    ]
    assert readers == []


def test_only_resources_and_instance_touch_the_environment_of_the_face():
    readers = {name for name in SOURCES for node in found(name, ast.Attribute) if node.attr in ("environ", "getenv")}
    faces = {"disent", "disent_assets"}  # how OpenMP waits
    assert readers == faces | {f"disent_assets.{name}" for name in ("resources", "instance", "dev")}


def test_nothing_swallows_every_exception():
    broad = [
        name
        for name in SOURCES
        for node in found(name, ast.ExceptHandler)
        if node.type is None
        or {one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)} & {"Exception", "BaseException"}
        if not isinstance(node.body[0], ast.Raise)
    ]
    assert broad == []


def test_nothing_is_pickled():
    picklers = {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve"}
    named = [
        name
        for name in SOURCES
        for node in found(name, ast.ImportFrom | ast.Import)
        for module in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        if module.split(".")[0] in picklers
    ]
    called = [
        name
        for name in SOURCES
        for node in found(name, ast.Attribute)
        if node.attr in ("load", "save") and isinstance(node.value, ast.Name) and node.value.id == "torch"
    ]
    assert named + called == []


def calls(name: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Dotted names of what a module calls, with the keywords that are constants."""
    for node in found(name, ast.Call):
        told = {one.arg: one.value.value for one in node.keywords if one.arg and isinstance(one.value, ast.Constant)}
        yield ast.unparse(node.func), told


def test_nothing_is_evaluated_and_no_shell_is_started():
    forbidden = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load"}
    odd = [(name, called) for name in SOURCES for called, told in calls(name) if called in forbidden or "shell" in told]
    assert odd == []


def test_arrays_are_never_unpickled():
    loads = {"np.load", "numpy.load"}
    pickled = [
        name
        for name in SOURCES
        for called, told in calls(name)
        if called in loads and told.get("allow_pickle", True) is not False
    ]
    assert pickled == []


def test_models_are_loaded_from_safetensors_and_never_bring_code():
    loaded = [call for name in SOURCES for call in calls(name) if call[0].endswith(".from_pretrained")]
    assert len(loaded) >= 2
    assert [called for called, told in loaded if told.get("trust_remote_code", True) is not False] == []
    models = [told for called, told in loaded if "Model" in called]
    assert models
    assert all(told.get("use_safetensors") is True for told in models)


def test_only_texts_and_safetensors_are_downloaded_from_the_hub():
    from disent_core.encoders.files import _MODEL_FILES

    assert {pattern.rsplit(".", 1)[-1] for pattern in _MODEL_FILES} == {"safetensors", "json", "txt", "model"}
    downloads = [node for name in SOURCES for node in found(name, ast.Call)
                 if ast.unparse(node.func).endswith("snapshot_download")]  # fmt: skip
    assert downloads
    assert all("allow_patterns" in {one.arg for one in node.keywords} for node in downloads)


def test_only_pictures_and_one_table_of_escaped_names_are_markdown_in_the_ui():
    written = [name for name in SOURCES for called, _ in calls(name) if called.endswith("MetadataValue.md")]
    assert written == ["disent_assets.asset_results"] * 2


def test_the_web_server_listens_on_this_machine_only():
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    servers = [line for line in lines if "disent_assets.web_server" in line]
    assert not any("dagster dev" in line or "dagster-webserver" in line for line in lines)
    launcher = (ROOT / "disent_assets" / "dev.py").read_text(encoding="utf-8").replace('", "', " ")
    servers += [line for line in launcher.splitlines() if "--port" in line]
    assert len(servers) == 2
    assert all("--host 127.0.0.1" in line for line in servers)


def test_nothing_prints():
    printers = [
        name
        for name in SOURCES
        for node in found(name, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printers == []


def test_no_module_postpones_its_annotations_for_dagster_rejects_them():
    postponed = [name for name in SOURCES for node in found(name, ast.ImportFrom) if node.module == "__future__"]
    assert postponed == []


def test_no_module_has_more_than_400_lines():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in SOURCES.items()}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


# --- files ------------------------------------------------------------------------------------------------

METHODS_OF_PATHS = {
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "is_file", "is_dir", "exists", "stat", "glob",
    "rglob", "iterdir", "mkdir", "rmdir", "unlink", "replace", "touch", "symlink_to", "hardlink_to",
}  # fmt: skip
FUNCTIONS_OF_FILES = {
    "open", "os.replace", "os.rename", "os.remove", "os.walk", "os.path.isfile", "shutil.rmtree", "shutil.move",
    "shutil.copytree", "shutil.copyfile", "shutil.copy", "np.load", "np.save", "np.memmap", "np.lib.format.open_memmap",
    "pq.read_table", "pq.read_schema", "pq.read_metadata", "pq.write_table", "pq.ParquetFile", "pq.ParquetWriter",
    "safe_open", "load_file", "save_file", "write_text", "atomic_path", "remove_path",
}  # fmt: skip
LENT = {"beside", "temporary", "brought", "verified_file", "pa"}
"""Names of what the seam lends: a file to fill before it is published, one that was fetched and checked, its bytes."""
NO_RESULTS = {
    "disent.model": "an exported folder, which its user names",
    "disent.searching": "an index, which its user names",
    "disent_core.config": "the configuration, and whether the paths in it exist",
    "disent_core.corpora": "corpora and downloads, which are inputs",
    **dict.fromkeys(
        [
            f"disent_core.embeddings.grown.{one}"
            for one in (
                "_current",
                "_read_record",
                "_is_intact",
                "_completed",
                "_append",
                "_write",
                "_remove_older",
                "_mapped",
            )
        ],
        "arrays, which each machine makes of the parts for itself",
    ),
    "disent_core.encoders": "folders of models that were brought or that users name, vectors that were made elsewhere, "
    "and hidden folders with the unfinished work of this machine",
    "disent_core.evaluation.mteb_results": "results of mteb, which are inputs",
    "disent_core.experiment.corpora": "corpora, downloads and word lists, which are inputs",
    "disent_core.experiment.embeddings.write_texts": "texts for a file that the user names",
    "disent_core.experiment.mteb_results": "results of mteb, which are inputs",
    **dict.fromkeys(
        [
            f"disent_core.export.{one}"
            for one in ("folder", "record", "saved_folder", "tagger_folder", "transformers_folder")
        ],
        "exported folders, which their users name",
    ),
    "disent_core.heads.cost": "what the system tells of the processor",
    "disent_core.heads.families.closed_form": "the checkpoint that this process has read or written before",
    "disent_core.report.document": "a part of the package",
    "disent_core.report.style": "a picture that was verified",
    "disent_core.search": "indexes, which their users name",
    "disent_core.training.stacked_state": "the checkpoint that this process has read or written before",
    "disent_assets.automation": "the lock of Dagster's state, which is of this machine",
    "disent_assets.cli": "files that the user names, and report.html, which is of this machine",
    "disent_assets.corpus_versions": "hashes of corpora, kept in the cache of this machine",
    "disent_assets.dev": "the lock of Dagster's state, which is of this machine",
    "disent_assets.duckdb_warehouse": "the shipped SQL, and what DuckDB spills beside a new warehouse",
    "disent_assets.durations": "how long steps took, beside Dagster's state of this machine",
    "disent_assets.homes": "Dagster's state, and the owner of a home that is in no bucket",
    "disent_assets.instance": "Dagster's settings and state, which are of this machine",
    "disent_assets.new_project": "the folder of a new project",
    "disent_assets.placement": "what the system tells of GPUs",
    "disent_assets.profiles": "the shipped settings of Dagster",
    "disent_assets.published_files": "hashes of corpora, kept in the cache of this machine",
    "disent_assets.questions": "pages of the documentation",
    "disent_assets.refresh_warehouse": "the shipped SQL",
    "disent_assets.resources": "where the project is",
    "disent_assets.results": "pages of the documentation and configurations",
    "disent_assets.results_run": "whether there is state of Dagster, and a file of the project",
    "disent_assets.run_report": "the page, which is of this machine, and pictures that were brought",
    "disent_assets.search_page": "a part of the package",
    "disent_assets.sql_folder": "the shipped SQL",
    "disent_assets.status._files": "parts of embeddings, if the home is in no bucket",
    "disent_assets.step_costs": "what the system tells of this process",
    "disent_assets.warehouse_inputs": "files that were brought, linked for a warehouse that is in no bucket",
    "disent_assets.workers": "the configuration",
}
"""Folders, modules and functions that may use files directly: which files these are."""


def used_directly(name: str) -> Iterator[tuple[str, str]]:
    """Calls that go to files without asking whether the results are in a bucket, each with what it is in."""
    for part in tree(name).body:
        for node in (node for node in ast.walk(part) if isinstance(node, ast.Call)):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            is_of_text = method == "replace" and len(node.args) != 1
            is_direct = (method in METHODS_OF_PATHS and not is_of_text) or ast.unparse(node.func) in FUNCTIONS_OF_FILES
            if is_direct and not LENT & {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}:
                yield f"{name}.{getattr(part, 'name', '')}", ast.unparse(node)


def test_results_are_read_and_written_through_the_storage_seam_alone():
    direct = [one for name in SOURCES if not name.startswith("disent_core.storage.") for one in used_directly(name)]
    reasons = {place: {one for one in NO_RESULTS if f"{place}.".startswith(f"{one}.")} for place, _ in direct}
    assert [(place, call) for place, call in direct if not reasons[place]] == []
    assert {one for found in reasons.values() for one in found} == set(NO_RESULTS)


def test_the_core_has_no_state_beside_what_is_listed():
    # `remote` knows which homes are in a bucket (decision 0015). What `shared` keeps only saves work.
    changes = {"append", "add", "update", "pop", "clear", "setdefault", "extend", "remove", "insert", "discard"}
    stateful = set()
    for name in CORE:
        own = {
            target.id
            for node in tree(name).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree(name)):
            is_call = isinstance(node, ast.Attribute) and node.attr in changes
            is_item = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            is_changed = (is_call or is_item) and isinstance(node.value, ast.Name) and node.value.id in own
            if is_changed or isinstance(node, ast.Global):
                stateful.add(name)
    assert stateful == {
        "disent_core.storage.remote",
        "disent_core.evaluation.metrics.shared",
    }


# --- registries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", methods.METHODS)
def test_a_method_is_a_line_in_its_registry_and_a_module_that_keeps_the_contract(name):
    method = methods.method(name)
    assert isinstance(method, Method)
    assert method.name == name


def test_no_section_of_the_configuration_takes_unknown_keys():
    presets = {type(preset) for name in methods.METHODS for preset in methods.method(name).presets.values()}
    kinds = set(encoders.ENCODER_KINDS.values())
    for kind in {*SECTIONS.values(), TemplatePairConfig, *presets, *kinds}:
        with pytest.raises(ConfigError, match="no_such_key: unknown key"):
            Locator(Path("x.toml"), "").validate(kind, {"no_such_key": 1}, (kind.__name__,))


@pytest.mark.parametrize("name", methods.METHODS)
def test_all_that_a_method_computes_with_is_there(name):
    method = methods.method(name)
    assert isinstance(trainer(method), Trainer)
    parts = [value for value in vars(method).values() if isinstance(value, str) and value.startswith("disent_core.")]
    assert parts
    assert all(callable(imported(part)) for part in parts)


@pytest.mark.parametrize("name", contract.TASKS)
def test_a_task_is_a_line_in_its_registry_and_a_module_that_keeps_the_contract(name):
    task = contract.task(name)
    assert isinstance(task, contract.Task)
    assert task.name == name


@pytest.mark.parametrize("name", corpora.READERS)
def test_a_corpus_format_is_a_line_in_its_registry_and_a_module_that_keeps_the_contract(name):
    module = corpora.format_module(name)
    assert isinstance(module, PairReader if corpora.is_of_pairs(name) else Reader)


@pytest.mark.parametrize("name", encoders.ENCODER_KINDS)
def test_an_encoder_kind_is_a_line_in_its_registry_and_settings(name):
    assert issubclass(encoders.ENCODER_KINDS[name], EncoderConfig)


def test_a_stage_of_the_face_describes_assets_and_leaves_files_to_the_experiment():
    stages = [name for name in SOURCES if name.startswith("disent_assets.stages.")]
    assert len(stages) == len(STAGES)
    stored = {
        f"{name}: {alias.name}"
        for name in stages
        for node in found(name, ast.ImportFrom)
        if str(node.module).startswith("disent_core.storage") or node.module in ("pathlib", "io", "os")
        for alias in node.names
        if alias.name not in ("SCHEMAS", "fingerprint")
    }
    readers = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "read_table", "is_file"}
    read = [(name, called) for name in stages for called, _ in calls(name) if called.split(".")[-1] in readers]
    assert (stored, read) == (set(), [])


# --- assets -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo() -> dg.Definitions:
    return definitions.build(open_workspace({"DISENT_HOME": str(ROOT / "build")}))


def test_the_stages_have_one_order():
    assert tuple(module.__name__.split(".")[-1] for module in definitions.STAGE_MODULES) == STAGES


def test_every_asset_depends_only_on_its_own_or_an_earlier_stage(demo):
    graph = demo.resolve_asset_graph()
    uphill = [
        (parent.to_user_string(), key.to_user_string())
        for key in graph.get_all_asset_keys()
        for parent in graph.get(key).parent_keys
        if STAGES.index(parent.path[0]) > STAGES.index(key.path[0])
    ]
    assert uphill == []


def test_the_group_of_every_asset_is_its_stage_and_its_encoder_if_it_has_one(demo):
    groups = {spec.key: spec.group_name for spec in demo.resolve_all_asset_specs()}
    odd = [key for key, group in groups.items() if group != "_".join([*key.path[1:-1], key.path[0]])]
    assert odd == []


@pytest.mark.parametrize("what", ["description", "kinds"])
def test_every_asset_tells_its(demo, what):
    assert [spec.key for spec in demo.resolve_all_asset_specs() if not getattr(spec, what)] == []


@pytest.mark.parametrize("what", ["owners", "code_version"])
def test_every_asset_that_is_made_has(demo, what):
    graph = demo.resolve_asset_graph()
    made = [spec for spec in demo.resolve_all_asset_specs() if graph.get(spec.key).is_materializable]
    assert [spec.key for spec in made if not getattr(spec, what)] == []


def test_no_two_files_of_tests_have_the_same_name():
    names = sorted(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert names == sorted(set(names)), "pytest imports one of two files of a name; the tests of the other do not run"
