"""`disent.load` and `disent.models`: the models that disent comes with, folders, and what an extra is needed for."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import disent
from disent import extras
from disent_core.errors import DamagedError, TrainingError
from disent_core.methods.modules.word_rows import random_rows
from disent_core.static_model import StaticModel

ROOT = Path(__file__).resolve().parents[2]


def model(name: str) -> StaticModel:
    known = np.arange(0, 1_000, 3)
    return StaticModel.of_table(
        known, random_rows(known, 16, 3), parts={"template": 8, "residual": 8}, seed=1, table_rows=1_000,
        languages=["de", "en"], description={"name": name, "licence": "CC-BY-4.0"},
    )  # fmt: skip


@pytest.fixture
def shipped(tmp_path, monkeypatch) -> Path:
    """A folder of models in place of the package's."""
    monkeypatch.setattr("disent.model.MODELS", tmp_path / "models")
    return tmp_path / "models"


def test_without_a_name_the_small_model_is_loaded_and_others_by_their_names(shipped):
    for name in ("small", "large"):
        model(name).save(shipped / name)
    assert disent.load().description["name"] == "small"
    assert disent.load("small").description["name"] == "small"
    assert disent.load("large").description["name"] == "large"


def test_models_are_listed_with_languages_size_and_licence(shipped):
    model("small").save(shipped / "small")
    (listed,) = disent.models()
    size = sum(path.stat().st_size for path in (shipped / "small").iterdir())
    assert listed == ("small", ("de", "en"), size / 1e6, "CC-BY-4.0", shipped / "small")


def test_a_missing_model_is_said_to_be_missing(shipped):
    assert disent.models() == []
    with pytest.raises(ValueError, match="comes without the model 'small'; load a folder or a head of your own"):
        disent.load()
    model("large").save(shipped / "large")
    with pytest.raises(ValueError, match="comes without the model 'small'; load one of large"):
        disent.load()
    with pytest.raises(ValueError, match=r"there is no model 'larg' and no such file; .* comes with: large"):
        disent.load("larg")
    with pytest.raises(TrainingError, match="no trained head at this path"):
        disent.load(Path("larg"))


def test_a_folder_of_a_static_model_is_recognised(shipped, tmp_path):
    model("mine").save(tmp_path / "mine")
    for path in (tmp_path / "mine", str(tmp_path / "mine")):
        loaded = disent.load(path, device="cpu")
        assert isinstance(loaded, StaticModel)
    (tmp_path / "mine" / "model.safetensors").unlink()
    with pytest.raises(DamagedError, match="missing"):
        disent.load(tmp_path / "mine")


def test_a_static_model_has_no_seed_and_no_encoder_and_is_no_head(shipped, tmp_path):
    model("mine").save(tmp_path / "mine")
    for options in ({"seed": 0}, {"encoder": "x"}):
        with pytest.raises(ValueError, match="neither seeds nor an encoder"):
            disent.load(tmp_path / "mine", **options)
    with pytest.raises(ValueError, match="this needs a trained head"):
        disent.model.load_head(tmp_path / "mine")


BASE_ALONE = f"""
import sys
sys.modules |= dict.fromkeys({sorted(extras.TRAIN)})  # None: an import of them fails
import disent
for call in (lambda: disent.load("h.safetensors"), lambda: disent.open("x.toml"), lambda: disent.Index.open("x")):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
from disent_assets.console import main
main()
"""


def test_without_the_extra_heads_results_and_the_command_line_say_what_to_install():
    run = subprocess.run([sys.executable, "-c", BASE_ALONE], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("this needs ")
        assert line.endswith("; install it with: pip install 'disent[train]'")
    assert run.stderr == "disent: the command line needs click; install it with: pip install 'disent[train]'\n"
    assert run.returncode == 2


def test_a_module_that_no_extra_has_is_reported_as_it_is():
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nothing_of_ours'$"), extras.needing_extra():
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
    from click.testing import CliRunner

    from disent_assets.cli import main

    assert "comes without models" in CliRunner().invoke(main, ["models"]).output
    model("small").save(shipped / "small")
    shown = CliRunner().invoke(main, ["models", "--format", "csv"]).output
    assert shown.splitlines()[0] == "name,languages,megabytes,licence,folder"
    assert shown.splitlines()[1].startswith("small,de en,0.0")
