"""`disent.load` and `disent.models`: the models that disent comes with, folders, and what an extra is needed for."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from static_models import static_model

import disent
from disent import extras
from disent_assets.cli import main
from disent_core.errors import DamagedError, TrainingError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def shipped(tmp_path, monkeypatch) -> Path:
    """A folder of models in place of the package's."""
    monkeypatch.setattr("disent.model.MODELS", tmp_path / "models")
    return tmp_path / "models"


def test_the_small_model_is_the_default_and_others_load_by_name(shipped):
    for name in ("small", "large"):
        static_model(name).save(shipped / name)
    assert disent.load().description["name"] == "small"
    assert disent.load("small").description["name"] == "small"
    assert disent.load("large").description["name"] == "large"


def test_models_are_listed_with_languages_size_and_licence(shipped):
    static_model("small").save(shipped / "small")
    (listed,) = disent.models()
    size = sum(path.stat().st_size for path in (shipped / "small").iterdir())
    assert listed == ("small", ("de", "en"), size / 1e6, "CC-BY-4.0", shipped / "small")


def test_the_model_of_the_package_has_at_most_12_megabytes():
    small = {model.name: model for model in disent.models()}["small"]
    assert 11 < small.megabytes <= 12


def test_the_bundled_model_card_states_what_each_part_finds():
    model = disent.load("small")
    values = {(row["measure"], row["of"]): row["value"] for row in model.description["measured_packed"]}
    for language in model.languages:
        for part, other in (("shape", "values"), ("values", "shape")):
            assert values[part, language] > values[f"{part} by {other}", language] + 0.3
    assert {measure for measure, _ in values} >= {f"language by {part}" for part in ("meaning", "shape", "values")}
    card = (model.path / "README.md").read_text(encoding="utf-8")
    assert f"| shape by values | en | {values['shape by values', 'en']:.3f} | 1979 |" in card


def test_all_embeddings_of_a_static_model_are_those_that_it_gives_by_name():
    static = static_model("small")
    for normalize in (True, False):
        matrices = static.encode_all(["wake me up", "", "jazz"], normalize=normalize, batch_size=2)
        assert tuple(matrices) == static.embeddings
        for name, rows in matrices.items():
            assert np.array_equal(rows, static.encode(["wake me up", "", "jazz"], name, normalize=normalize))
    with pytest.raises(ValueError, match="not one text"):
        static.encode_all("wake me up")


def test_the_fingerprint_of_a_static_model_is_the_checksum_of_its_file(tmp_path):
    static = static_model("small")
    static.save(tmp_path / "saved")
    written = hashlib.sha256((tmp_path / "saved" / "model.safetensors").read_bytes()).hexdigest()
    assert static.fingerprint == disent.load(tmp_path / "saved").fingerprint == written


def test_the_error_of_a_missing_model_lists_the_available_ones(shipped):
    assert disent.models() == []
    with pytest.raises(ValueError, match="comes without the model 'small'; load a folder or a head of your own"):
        disent.load()
    static_model("large").save(shipped / "large")
    with pytest.raises(ValueError, match="comes without the model 'small'; load one of large"):
        disent.load()
    with pytest.raises(
        ValueError, match=r"there is no model 'larg' and no such file \(did you mean 'large'\?\); .*: large"
    ):
        disent.load("larg")
    with pytest.raises(TrainingError, match="there is no such file"):
        disent.load(Path("larg"))


def test_an_invalid_model_argument_is_refused_with_the_reason(tmp_path):
    static_model("mine").save(tmp_path / "mine")
    (tmp_path / "mine" / "model.json").write_text("{", encoding="utf-8")
    with pytest.raises(DamagedError, match=r"model\.json"):
        disent.load(tmp_path / "mine")
    for path, problem in {"": "the path of the model is empty", "~no-such-user/x": "there is no such user"}.items():
        with pytest.raises(ValueError, match=problem):
            disent.load(path)
    for call in (lambda: disent.Index.of(["a"], 5), lambda: disent.Index.build(tmp_path / "index", 5, ["a"])):
        with pytest.raises(ValueError, match="model is 5; give a model, or its name or path"):
            call()
    with pytest.raises(ValueError, match="engine is 'fast'; choose one of auto, exact, hnsw, ivf"):
        disent.Index.build(tmp_path / "index", disent.load(), ["a"], engine="fast")
    assert not (tmp_path / "index").exists()


def test_a_static_model_refuses_seed_encoder_and_other_devices_than_cpu(shipped, tmp_path):
    static_model("mine").save(tmp_path / "mine")
    for options in ({"seed": 0}, {"encoder": "x"}):
        with pytest.raises(ValueError, match="is a static model, which has no"):
            disent.load(tmp_path / "mine", **options)
    with pytest.raises(ValueError, match="runs only on 'cpu', not 'cuda'"):
        disent.load(tmp_path / "mine", device="cuda")
    assert disent.load(tmp_path / "mine", device="cpu").device == "cpu"


@pytest.mark.parametrize(("name", "what", "call", "command"), [
    ("classifier.json", "a classifier", "Open it with disent.Classifier.load", "Use it with disent serve --classifier"),
    ("index.json", "an index of texts", "Open it with disent.Index.open", "Search it with disent search"),
])  # fmt: skip
def test_the_error_of_a_non_model_folder_says_what_opens_it(tmp_path, name, what, call, command):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("{}")
    with pytest.raises(TrainingError, match=f"mine: this is {what}, not a model. {call}"):
        disent.load(tmp_path / "mine")
    result = CliRunner().invoke(main, ["check", str(tmp_path / "mine")])
    assert result.stderr == f"disent: {tmp_path / 'mine'}: this is {what}, not a model. {command}\n"


WRONG = ("my_models/mine", "README.md", "disent/models/small/model.safetensors")
BASE_ALONE = f"""
import sys
sys.modules |= dict.fromkeys({sorted(extras.TRAIN)})  # None: an import of them fails
import disent
from disent_core.errors import TrainingError
for path in {WRONG}:
    try:
        disent.load(path)
    except TrainingError as error:
        print(error)
for call in (lambda: disent.load("docs"), lambda: disent.open("x.toml"), lambda: disent.Index.open("x"),
             lambda: disent.train("x.csv", "y")):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
from disent_assets.console import main
main()
"""


def test_without_extras_errors_say_what_to_install_but_not_where_a_path_is_wrong():
    run = subprocess.run([sys.executable, "-c", BASE_ALONE], cwd=ROOT, capture_output=True, text=True, check=False)
    of_paths, lines = run.stdout.splitlines()[: len(WRONG)], run.stdout.splitlines()[len(WRONG) :]
    for path, line in zip(WRONG, of_paths, strict=True):
        assert re.match(rf"{path}: (no trained head|there is no such file)", line)
    assert all(line.startswith("this needs ") for line in lines)
    assert [line.partition("; install it with: ")[2] for line in lines] == [
        f"pip install 'disent-embeddings[{extra}]'" for extra in ("train", "train", "cli", "train")
    ]
    remedy = "install it with: pip install 'disent-embeddings[cli]'"
    assert run.stderr == f"disent: the command line needs click; {remedy}\n"
    assert run.returncode == 2


def test_a_missing_module_outside_the_extras_is_reported_unchanged():
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nothing_of_ours'$"), extras.needing_extra("cli"):
        raise ModuleNotFoundError("No module named 'nothing_of_ours'", name="nothing_of_ours")


def test_the_extras_are_those_of_the_project():
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    packages = {name: " ".join(lines).replace("-", "_") for name, lines in declared.items()}
    renamed = {"sklearn": "scikit_learn"}
    assert [
        module for module, extra in extras.EXTRAS.items() if renamed.get(module, module) not in packages[extra]
    ] == []


def test_the_command_lists_the_models(shipped, monkeypatch):
    assert "comes without models" in CliRunner().invoke(main, ["models"]).output
    static_model("small").save(shipped / "small")
    shown = CliRunner().invoke(main, ["models", "--format", "csv"]).output
    assert shown.splitlines()[0] == "name,languages,megabytes,licence,folder"
    assert shown.splitlines()[1].startswith("small,de en,0.0")


# --- heads ------------------------------------------------------------------------------------------------


class Trained:
    """Has two embeddings of a text: its length, and its first two characters."""

    languages = None

    def embed(self, texts, seed):
        lengths = np.array([[len(text), 1] for text in texts], dtype=np.float32)
        return {"template": lengths, "residual": np.array([[ord(c) for c in text[:2].ljust(2)] for text in texts])}


@pytest.fixture
def head():
    method = SimpleNamespace(
        reads_encoder=True,
        name="toy",
        embeddings=("template", "residual"),
        is_seeded=False,
        is_transductive=lambda settings: False,
    )
    names = {"name": "toy", "encoder": "tiny", "trained_on": "en-de", "languages": ["en", "de"]}
    config = SimpleNamespace(max_length=64)
    return disent.Model(
        SimpleNamespace(
            method=method, description=names, trained=Trained(), content="w", path=None, settings=None,
            encoder_config=config, device="cpu", features=lambda texts, language: texts,
        )
    )  # fmt: skip


def test_a_head_takes_lists_generators_and_arrays_in_blocks_of_any_size(head):
    texts = ["wake", "me", "up"]
    expected = head.encode(texts)
    for given in ((text for text in texts), np.array(texts), tuple(texts)):
        assert np.array_equal(head.encode(given, batch_size=2), expected)
    assert expected.tolist() == [[4, 1], [2, 1], [2, 1]]
    for size in (0, 2.5, "2"):
        with pytest.raises(ValueError, match="batch_size must be a whole number"):
            head.encode(texts, batch_size=size)
    with pytest.raises(ValueError, match="texts must be"):
        head.encode(np.array("wake"))


def test_a_head_encodes_no_texts_as_zero_rows_and_reports_its_properties(head):
    assert head.encode([]).shape == (0, 2)
    assert {name: rows.shape for name, rows in head.encode_all([]).items()} == {"template": (0, 2), "residual": (0, 2)}
    assert (head.dim, head.names, head.max_length, head.device) == (2, ("template", "residual"), 64, "cpu")


def test_head_vectors_have_unit_norm_on_request(head):
    assert np.linalg.norm(head.encode(["wake"], "residual", normalize=True)) == pytest.approx(1)
    assert np.linalg.norm(head.encode("wake")) == pytest.approx(17**0.5)


def test_shape_and_values_name_the_template_and_the_residual_of_a_head(head):
    for alias, name in (("shape", "template"), ("values", "residual")):
        assert np.array_equal(head.encode(["wake"], alias), head.encode(["wake"], name))
    assert head.similarity("ab", ["abc", "xy"], "values").shape == (1, 2)
    assert head.similarity("ab", "abc", "values") == pytest.approx(1)
    assert head.similarity("ab", "abc", "shape") < 1
    vectors = head.encode_all(["wake"])
    assert vectors["shape"] is vectors["template"]
    with pytest.raises(ValueError, match="both sides are already vectors"):
        head.similarity(vectors["shape"], vectors["shape"], "shape")
    with pytest.raises(ValueError, match="no embedding 'form'; choose one of shape, values"):
        head.encode("x", "form")


def test_an_embedding_is_named_by_either_word_of_a_head_and_of_a_static_model(head):
    for model in (head, static_model("small")):
        chosen = model.encode(["wake me", "jazz"], name="values")
        assert np.array_equal(chosen, model.encode(["wake me", "jazz"], "values"))
        assert np.array_equal(chosen, model.encode(["wake me", "jazz"], embedding="residual"))
        assert not np.array_equal(chosen, model.encode(["wake me", "jazz"], embedding="shape"))
        assert model.similarity("wake", "jazz", embedding="shape") == model.similarity("wake", "jazz", name="shape")
        with pytest.raises(ValueError, match="name='shape' and embedding='values' mean the same"):
            model.encode("wake me", "shape", embedding="values")
        with pytest.raises(ValueError, match="mean the same"):
            model.similarity("wake me", "jazz", "shape", embedding="values")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda head: head.encode([None]), "text 1 is None; leave it out"),
        (lambda head: head.encode(None), "texts must be a str or an iterable of them, got None"),
        (lambda head: head.encode({"text": ["a"]}), r"got dict; pass the texts in it, such as texts\['text'\]"),
        (lambda head: head.encode(["a", "b\ud800"]), "text 2 has half of a surrogate pair at character 2"),
        (lambda head: head.encode("a", language="xx"), "was trained on en, de, not 'xx'"),
        (lambda head: head.encode_all("a"), "texts must be a list of texts, not one text"),
    ],
)
def test_texts_that_a_head_cannot_encode_are_refused_in_one_line(head, call, message):
    with pytest.raises(ValueError, match=message) as error:
        call(head)
    assert "\n" not in str(error.value)
