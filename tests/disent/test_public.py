"""Tests the public package: what it imports, and its messages before anything has run."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from shutil import which
from types import SimpleNamespace

import numpy as np
import pytest
from worlds import corpus, encoder, experiment

import disent
from disent.home import home_folder
from disent_core.errors import EncoderError, TableError

CONSUMER = """
from pathlib import Path

import numpy as np

import disent


def nearest(query: str, texts: list[str], head: str | Path) -> str:
    model = disent.load(head, device="cpu")
    assert isinstance(model, disent.Model)
    cosines = model.similarity(model.encode([query]), model.encode(texts, "meaning", progress=True))
    return texts[int(np.argmax(cosines[0]))]


def shapes(method: str, texts: list[str]) -> dict[str, tuple[int, ...]]:
    head = disent.open("disent.toml").head(method, pair="en-de")
    vectors: dict[str, np.ndarray] = head.encode_all(texts, language="en")
    assert head.seed in head.seeds and head.fingerprint
    return {name: vectors[name].shape for name in head.embeddings}
"""
CONFIG = corpus("sample", languages=["en-US", "de-DE"]) + encoder("tiny") + experiment("raw", "dream")


@pytest.fixture
def run(load, tmp_path) -> disent.Run:
    return disent.open(load(CONFIG).path, home=tmp_path / "home")


def test_importing_disent_and_listing_heads_imports_nothing_heavy(run):
    heavy = ("torch", "dagster", "duckdb", "transformers", "polars", "pyarrow", "numpy", "pydantic")
    code = (
        f"import disent, sys; print(sorted(set({heavy}) & set(sys.modules)))\n"
        f"run = disent.open({str(run.config.path)!r}); run.heads(); run.head\n"
        "import disent_core.lineage.run_heads, disent_core.lineage.tables\n"
        "print(sorted({'dagster', 'duckdb'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.splitlines() == ["[]", "[]"]


def test_the_version_is_lazy_and_works_without_installation(root):
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    code = (
        "import disent, sys; print(sorted({'tomllib', 'importlib.metadata'} & set(sys.modules))); "
        "print(disent.__version__)"
    )
    isolated = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(root)!r}); {code}"]
    ran = subprocess.run(isolated, capture_output=True, text=True, check=True, cwd="/", env={})
    assert ran.stdout.splitlines() == ["[]", project["version"]]


def test_importing_disent_sets_a_passive_omp_wait_policy():
    code = "import disent, os; print(os.environ['OMP_WAIT_POLICY'])"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "PASSIVE\n"


@pytest.mark.skipif(which("basedpyright") is None, reason="basedpyright is not installed")
def test_type_checkers_accept_code_that_uses_it(tmp_path, root):
    assert files("disent").joinpath("py.typed").is_file()
    (tmp_path / "consumer.py").write_text(CONSUMER, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(root)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = ["basedpyright", "--pythonpath", sys.executable, "consumer.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_default_results_folder_is_that_of_the_command_line(run, tmp_path):
    assert run.home == tmp_path / "home"
    assert disent.open(run.config.path).home == home_folder()


def test_a_folder_is_opened_by_the_configuration_in_it(run, tmp_path):
    (tmp_path / "disent.toml").write_bytes(run.config.path.read_bytes())
    assert disent.open(tmp_path, home=tmp_path / "home").config.path == tmp_path / "disent.toml"


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda run: run.metrics(), TableError),
        (lambda run: run.sql("select 1"), TableError),
        (lambda run: run.head("dream"), EncoderError),
    ],
)
def test_an_error_of_a_missing_result_names_the_remedy_and_the_folder_of_results(run, ask, error):
    message = f"([Mm]aterialise|disent materialize).* Results were read from {re.escape(str(run.home))}. .* home=FOLDER"
    with pytest.raises(error, match=message):
        ask(run)


def test_before_a_run_only_untrained_heads_are_listed(run):
    assert run.heads() == [disent.HeadName("raw", "tiny", "en-de")]


class Counted:
    """A head that tells for every text how many it was embedded with."""

    languages = None

    def __init__(self, settings):
        self.method = SimpleNamespace(name="counted", embeddings=("sentence",), is_seeded=False,
                                      is_transductive=lambda settings: settings == "test")  # fmt: skip
        self.path, self.settings, self.description, self.content, self.trained = None, settings, {"seeds": []}, "", self

    def features(self, texts, language):
        return texts

    def embed(self, texts, seed):
        return {"sentence": np.full((len(texts), 1), len(texts))}


@pytest.mark.parametrize(("settings", "seen"), [("train", [2, 2, 1]), ("test", [5])])
def test_long_inputs_are_encoded_in_batches_unless_the_head_is_transductive(settings, seen):
    vectors = disent.Model(Counted(settings)).encode(list("abcde"), batch_size=2)
    assert vectors[:, 0].tolist() == [count for count in seen for _ in range(count)]
