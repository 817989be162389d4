"""Exported folders, files of heads and indexes may come from anyone: nothing that they name is imported or opened."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from random_heads import CASES
from safetensors.torch import save_file

import disent
from disent_assets.cli import main
from disent_core.errors import DamagedError, DisentError, EncoderError, TrainingError
from disent_core.export import shipped_code
from disent_core.export.saved_folder import RECORD, checksum
from disent_core.export.shipped_code import known_code
from disent_core.storage.results import sha256_of, write_result
from disent_core.storage.weights import read_weights, save_weights

pytest.importorskip("sentence_transformers")

PAYLOAD = "stranger_payload"
MODULE = """
from dataclasses import replace
from pathlib import Path

from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.methods.facet import METHOD as FACET

Path(__file__).with_name("RAN").touch()
METHOD = replace(FACET, name="mine")


class Kind(HuggingFaceConfig):
    pass
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A head of facet in `heads`, its encoder in `model`, its folder `out` and its index; tests only read them."""
    place = tmp_path_factory.mktemp("made")
    head = disent.load(CASES["facet"](place), device="cpu")
    head.save(place / "out")
    disent.load(place / "out", device="cpu")
    disent.Index.build(place / "index", disent.load(place / "out", device="cpu"), ["toy 1", "de 4"])
    return place


@pytest.fixture
def place(made, tmp_path, monkeypatch) -> Path:
    """A copy, which is the current folder and on the path of modules, with a module of a stranger."""
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    (copy / f"{PAYLOAD}.py").write_text(MODULE)
    (copy / "out" / f"{PAYLOAD}_inside.py").write_text("open('RAN', 'w').close()")
    monkeypatch.chdir(copy)
    monkeypatch.setattr(sys, "path", ["", str(copy / "out"), *sys.path])
    yield copy
    sys.modules.pop(PAYLOAD, None)


HEAD = Path("heads", "tiny", "facet", "en-de.safetensors")


def sign(folder: Path, change=lambda record: None) -> None:
    """Change a record, and make it anew as its maker would."""
    record = json.loads((folder / RECORD).read_text())
    change(record)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in (RECORD, "README.md"))
    record["files"] |= {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}
    (folder / RECORD).write_text(json.dumps({**record, "checksum": checksum(record)}))


def change_head(path: Path, change) -> None:
    """Change the description of a file of weights, which gets a manifest."""
    weights, description = read_weights(path)
    change(description)
    save_weights(path, weights, description)


def forge_folder(place: Path, change) -> None:
    sign(place / "out", lambda record: change(record["description"]))


def forge_head(place: Path, change) -> None:
    change_head(place / HEAD, change)


def load_folder(place: Path, **options):
    return disent.load(place / "out", device="cpu", **options)


def load_head(place: Path, **options):
    return disent.load(place / HEAD, device="cpu", **options)


def search(place: Path, **options):
    return disent.Index.open(place / "index", device="cpu", **options).search("toy 1")


def forge_index_of_head(place: Path, change) -> None:
    """An index whose head is the file."""
    change_head(place / HEAD, change)
    contents = json.loads((place / "index" / "index.json").read_text())
    contents["head"]["places"] = [f"../{HEAD.as_posix()}"]
    (place / "index" / "index.json").write_text(json.dumps(contents))


DOORS = {
    "folder": (forge_folder, load_folder, ["check", "out"]),
    "head's file": (forge_head, load_head, ["embed", "texts.txt", "out.npy", "--head", str(HEAD)]),
    "index of a folder": (forge_folder, search, ["search", "index", "toy"]),
    "index of a file": (forge_index_of_head, search, ["search", "index", "toy"]),
}


def is_loaded(name: str) -> bool:
    return name.partition(":")[0] in sys.modules or Path("RAN").exists()


@pytest.mark.parametrize("reference", [f"{PAYLOAD}:METHOD", PAYLOAD, f"{PAYLOAD}_inside:METHOD", "this:METHOD"])
@pytest.mark.parametrize("door", DOORS)
def test_a_foreign_method_in_a_record_is_named_and_not_imported(place, door, reference):
    forge, opened, command = DOORS[door]
    forge(place, lambda description: description.update(reference=reference))
    Path("texts.txt").write_text("toy\n")
    with pytest.raises(
        TrainingError, match=rf"(out/{RECORD}|en-de.safetensors): its method is '{reference}', .* as meth"
    ):
        opened(place)
    answer = CliRunner().invoke(main, command)
    assert answer.exit_code == 1
    assert f"name '{reference}' as --method MODULE:ATTRIBUTE" in answer.output
    assert not is_loaded(reference)


@pytest.mark.parametrize("door", DOORS)
def test_a_foreign_method_named_by_the_caller_is_used(place, door):
    forge, opened, command = DOORS[door]
    forge(place, lambda description: description.update(reference=f"{PAYLOAD}:METHOD"))
    Path("texts.txt").write_text("toy\n")
    if not door.startswith("index"):
        assert opened(place, methods=[PAYLOAD]).encode("toy 1").shape == (22,)
    answer = CliRunner().invoke(main, [*command, "--method", f"{PAYLOAD}:METHOD"])
    assert PAYLOAD in sys.modules
    assert "which is not part of disent" not in answer.output


def name_hub(description):
    description["encoder_config"].update(path=None, id="stranger/model", revision=None)


@pytest.fixture
def hub(monkeypatch):
    """Replaces the download of the hub: folders that its cache has by name, and what was asked for."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    cache, asked = {}, []

    def snapshot(identifier, *, local_files_only=False, **_):
        asked.append((identifier, local_files_only))
        if identifier not in cache:
            raise LocalEntryNotFoundError("not here")
        return str(cache[identifier])

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    return cache, asked


@pytest.mark.parametrize("door", ["head's file", "index of a file"])
def test_a_model_of_the_hub_that_a_record_names_is_not_downloaded(place, door, hub):
    forge, use, command = DOORS[door]
    forge(place, name_hub)
    (place / "model").rename(place / "elsewhere")
    with pytest.raises(
        EncoderError, match=r"is not in the local cache.*\. Download 'stranger/model' if you"
    ) as refused:
        use(place)
    (place / "texts.txt").write_text("toy 1\n")
    answer = CliRunner().invoke(main, command)
    assert (answer.exit_code, answer.stderr.count("\n"), str(refused.value).count("\n")) == (1, 1, 0)
    assert {*hub[1]} == {("stranger/model", True)}


def test_a_model_of_the_hub_is_read_from_the_local_cache_or_where_the_caller_says(place, hub):
    cache, asked = hub
    forge_head(place, name_hub)
    model = (place / "model").rename(place / "elsewhere")
    load_head(place, encoder=model).encode(["toy 1"])
    assert asked == []
    cache["stranger/model"] = model
    load_head(place).encode(["toy 1"])
    assert {*asked} == {("stranger/model", True)}
    load_head(place, methods=["stranger/model"]).encode(["toy 1"])
    assert ("stranger/model", False) in asked


@pytest.mark.parametrize("kind", [f"{PAYLOAD}:Kind", "this:Kind", ["huggingface"], None])
@pytest.mark.parametrize("door", ["head's file", "index of a file"])
def test_a_foreign_encoder_kind_is_named_and_not_imported(place, door, kind):
    forge, opened, _ = DOORS[door]
    forge(place, lambda description: description["encoder_config"].update(kind=kind))
    with pytest.raises(TrainingError, match=r"its encoder kind is .*, which is not part of disent"):
        opened(place)
    assert not is_loaded(str(kind))


def of_description(**values):
    return lambda record: record["description"].update(values)


def of_settings(**values):
    return lambda record: record["description"]["settings"].update(values)


def of_encoder(**values):
    return lambda record: record["encoder"].update(values)


def of_weights(**values):
    return lambda record: record["weights"]["3.words.table"].update(values)


RECORDS = {
    "a description that is a list": lambda record: record.update(description=[]),
    "no description": lambda record: record.pop("description"),
    "no method": lambda record: record["description"].pop("reference"),
    "a method that is a number": of_description(reference=3),
    "seeds that are text": of_description(seeds="34"),
    "no seed": of_description(seeds=[]),
    "a seed without end": of_description(seeds=[10**40]),
    "languages that are a number": of_description(languages=2),
    "a width without sense": of_description(dim=10**9),
    "a width that is text": of_description(dim="16"),
    "settings that are a list": of_description(settings=[]),
    "a setting of another class": of_settings(no_such_setting=1),
    "a setting without sense": of_settings(template_units=10**9),
    "a setting that is not that of the weights": of_settings(template_units=60_000),
    "a rate that is not a number": of_settings(learning_rate="fast"),
    "an encoder elsewhere": of_encoder(path="../model"),
    "an encoder in an absolute path": of_encoder(path="/tmp"),
    "an encoder in a folder with a name that no disk takes": of_encoder(path="A" * 300),
    "an encoder in a package": of_encoder(path="package:this/x"),
    "an encoder of the hub": of_encoder(path=None, id="stranger/model"),
    "an encoder of another kind": of_encoder(kind="vectors"),
    "a kind that is a list": of_encoder(kind=[]),
    "an encoder with an unknown key": of_encoder(trust_remote_code=True),
    "an encoder with a length that is text": of_encoder(max_length="long"),
    "an encoder of many layers": of_encoder(layer=10**9),
    "an encoder that is a list": lambda record: record.update(encoder=[]),
    "a type that torch has as a function": of_weights(dtype="load"),
    "a weight that is not there": of_weights(name="no_such_weight"),
    "a weight of another shape": of_weights(name="known"),
    "a file with a name that no disk takes": lambda record: record["files"].update({"A" * 300: ""}),
    "weights that are a list": lambda record: record.update(weights=[]),
    "no weights": lambda record: record.update(weights={}),
    "probes that are no numbers": lambda record: record["probes"]["vectors"].update(meaning=[["x"]]),
}


@pytest.mark.parametrize("what", RECORDS)
def test_an_invalid_record_is_one_error_line_in_load_and_check(place, what):
    (place / "out" / f"{PAYLOAD}_inside.py").unlink()
    sign(place / "out", RECORDS[what])
    with pytest.raises(DisentError, match=r"^[^\n]*$"):
        load_folder(place).encode("toy 1")
    answer = CliRunner().invoke(main, ["check", "out"])
    assert answer.exit_code == 1
    assert answer.output.startswith("disent: ")
    assert answer.output.count("\n") == 1


def lengthen_header(file: Path) -> None:
    file.write_bytes((1 << 62).to_bytes(8, "little") + file.read_bytes()[8:])


def enlarge_shape(file: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 4]}}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))


@pytest.mark.parametrize("damage", [lengthen_header, enlarge_shape, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("name", ["model.safetensors", "1_Router/meaning_2_FacetHead/model.safetensors"])
def test_invalid_weights_are_one_error_line(place, name, damage):
    damage(place / "out" / name)
    (place / "out" / f"{PAYLOAD}_inside.py").unlink()
    sign(place / "out")
    with pytest.raises(DisentError, match=r"^[^\n]*$"):
        load_folder(place).encode("toy 1")
    assert CliRunner().invoke(main, ["check", "out"]).exit_code == 1


@pytest.mark.parametrize(
    "metadata", [None, {}, {"disent": "[]", "content": ""}, {"disent": "[" * 10_000}, {"disent": "{}"}]
)
def test_a_head_s_file_without_a_description_is_one_line(place, metadata):
    with write_result(place / HEAD) as temporary:
        save_file({}, temporary, metadata)
    with pytest.raises(DamagedError, match=r"^[^\n]*(not the file of a head|its weights can.t be read)[^\n]*$"):
        load_head(place)


def test_a_model_with_code_of_its_own_is_refused_without_advice_to_run_it(place):
    config = json.loads((place / "out" / "config.json").read_text())
    config |= {"model_type": "stranger", "auto_map": dict.fromkeys(("AutoConfig", "AutoModel"), f"{PAYLOAD}_inside.X")}
    (place / "out" / "config.json").write_text(json.dumps(config))
    sign(place / "out")
    with pytest.raises(DisentError, match="brings code, which disent does not run") as refused:
        load_folder(place).encode("toy 1")
    assert "trust_remote_code" not in str(refused.value)
    assert not is_loaded(f"{PAYLOAD}_inside")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000"),
        ({"_attn_implementation": "stranger/kernel"}, "_attn_implementation names code"),
        ({"text_config": {"attn_implementation": {"": "stranger/kernel"}}}, "attn_implementation names code"),
        ({"hidden_size": 10**6}, "config.json asks for"),
    ],
)
def test_a_model_of_very_many_layers_or_with_kernels_of_the_hub_is_refused_before_it_is_built(place, change, problem):
    config = json.loads((place / "out" / "config.json").read_text())
    (place / "out" / "config.json").write_text(json.dumps(config | change))
    sign(place / "out")
    with pytest.raises(DisentError, match=problem):
        load_folder(place).encode("toy 1")


@pytest.mark.parametrize("name", ["tokenizer.json", "2_Dense"])
def test_a_link_that_leads_out_of_the_folder_is_not_followed(place, name):
    (place / "out" / name).unlink(missing_ok=True)
    (place / "out" / name).symlink_to(place / "model" / name)
    with pytest.raises(DamagedError, match=f"{name}: this link points outside the folder"):
        load_folder(place)


def test_a_folder_with_an_adapter_is_refused(place):
    (place / "out" / "adapter_config.json").write_text('{"base_model_name_or_path": "stranger/model"}')
    sign(place / "out")
    with pytest.raises(DamagedError, match="an exported folder must not have an adapter"):
        load_folder(place)


INDEXES = {
    "more texts than memory has": lambda contents: contents["parts"][0].update(rows=10**13),
    "a number that is negative": lambda contents: contents["parts"][0].update(number=-1),
    "parts that are a number": lambda contents: contents.update(parts=1),
    "an embedding that climbs": lambda contents: contents.update(embeddings={"../x": 1}),
    "no head": lambda contents: contents.pop("head"),
}


@pytest.mark.parametrize("what", INDEXES)
def test_an_invalid_index_is_one_error_line(place, what):
    contents = json.loads((place / "index" / "index.json").read_text())
    INDEXES[what](contents)
    (place / "index" / "index.json").write_text(json.dumps(contents))
    with pytest.raises((DisentError, ValueError), match=r"^[^\n]*$"):
        search(place)


# --- disent check -----------------------------------------------------------------------------------------


def check(place: Path) -> tuple[int, str]:
    (place / "out" / f"{PAYLOAD}_inside.py").unlink(missing_ok=True)
    answer = CliRunner().invoke(main, ["check", "out"])
    return answer.exit_code, answer.output


def test_check_reports_embeddings_code_and_missing_signature(place, monkeypatch):
    code, output = check(place)
    assert (code, output.splitlines()) == (0, [
        "out: unchanged since its record was written",
        "  embeddings  meaning, template, residual, language",
        "  code        as this version of disent writes it",
        "  signature   none, so this does not say who wrote it",
    ])  # fmt: skip
    (place / "out" / "model.sig").write_text("{}")
    assert "  signature   model.sig, which was not checked" in check(place)[1]
    load_folder(place).encode("toy 1")
    changed = place / "out" / "modeling_disent.py"
    changed.write_text("# of an earlier version\n")
    earlier = {**known_code()["this version of disent"], changed.name: sha256_of(changed)}
    monkeypatch.setitem(shipped_code.EARLIER_CODE, "disent 0.9", earlier)
    sign(place / "out")
    assert "  code        as disent 0.9 writes it\n" in check(place)[1]


@pytest.mark.parametrize("name", ["modeling_disent.py", f"{PAYLOAD}_inside.py", "1_Router/more.py"])
def test_check_names_changed_and_foreign_code(place, name):
    (place / "out" / f"{PAYLOAD}_inside.py").rename(place / "kept")
    if name.startswith(PAYLOAD):
        (place / "kept").rename(place / "out" / name)
    with (place / "out" / name).open("a") as file:
        file.write("\nimport this\n")
    sign(place / "out")
    answer = CliRunner().invoke(main, ["check", "out"])
    assert (answer.exit_code, answer.output.count("\n"), is_loaded("this")) == (1, 1, False)
    assert f"not the code of this version of disent or disent 0.2 or 0.3: {name};" in answer.output


HUB = "stranger/model--modeling.Model"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda config: config.update(auto_map={"AutoModel": HUB})),
        ("tokenizer_config.json", lambda config: config.update(auto_map={"AutoTokenizer": [HUB, None]})),
        ("modules.json", lambda modules: modules[0].update(type="this.Model")),
        ("modules.json", lambda modules: modules[0].update(type=f"modeling_disent.{HUB}")),
        ("1_Router/router_config.json", lambda config: config["types"].update(x=HUB)),
        ("1_Router/meaning_1_Pooling/config.json", lambda config: config.update(activation_function="this.Tanh")),
    ],
)
def test_check_names_external_code_references(place, name, change):
    """Each is run, or imported, by sentence-transformers with trust_remote_code=True."""
    content = json.loads((place / "out" / name).read_text())
    change(content)
    (place / "out" / name).write_text(json.dumps(content))
    (place / "out" / f"{PAYLOAD}_inside.py").unlink()
    sign(place / "out")
    code, output = check(place)
    assert (code, output.count("\n"), is_loaded("this")) == (1, 1, False)
    assert f"{name}: " in output
    assert "names code that is not disent's" in output
