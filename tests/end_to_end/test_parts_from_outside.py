"""A user's package has a method, a task and a corpus format; the configuration names them, and the library stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from disent_core.config.load import load_config
from disent_core.errors import ConfigError

ROOT = Path(__file__).parents[2]
METHOD = '''
"""Signs of random projections (a method that no paper of ours has)."""

from dataclasses import dataclass

from torch import nn

from disent_core.heads.families.frozen import FrozenHeadMethod
from disent_core.losses import similarity
from disent_core.training.stacked import Head, TrainConfig


@dataclass(frozen=True, kw_only=True)
class RotationConfig(TrainConfig):
    learning_rate: float = 1e-3
    max_epochs: int = 2


class RotationHead(Head):
    """One map, trained to bring translations together."""

    def __init__(self, dim, n_languages, config):
        super().__init__()
        self.meaning = nn.Linear(dim, dim)

    def embed(self, batch):
        return {"meaning": self.meaning(batch["vectors"])}

    def forward(self, batch):
        source, target = (self.meaning(batch[f"{side}_vectors"]) for side in ("source", "target"))
        return {"parallel": similarity.cosine_distance(source, target).mean()}


METHOD = FrozenHeadMethod(
    name="rotation", presets={"paper": RotationConfig()}, head=RotationHead, embeddings=("meaning",)
)
'''
TASK = '''
"""Share of the test texts that are nearest to themselves."""

from dataclasses import dataclass

import numpy as np

from disent_core.evaluation.contract import Problem, Task, Texts
from disent_core.evaluation.measurement import measured


@dataclass(frozen=True, kw_only=True, eq=False)
class SelfProblem(Problem):
    def score(self, matrices):
        unit = matrices["texts"] / np.linalg.norm(matrices["texts"], axis=1, keepdims=True)
        return [measured("accuracy_at_1", ((unit @ unit.T).argmax(axis=1) == np.arange(len(unit))).astype(float))]


def problems(inputs, config):
    (language,) = inputs.languages
    rows = [row for row in inputs.tables["utterances", language].to_pylist() if row["split"] == config.split]
    texts = Texts(language, [row["text_key"] for row in rows], [row["text"] for row in rows])
    return [SelfProblem(task="self_retrieval", dataset=inputs.corpus, evaluated_on=language, texts={"texts": texts})]


TASK = Task(
    name="self_retrieval", scope="language", tables=("utterances",), problems=problems, ranked=("meaning", "template")
)
'''
READER = '''
"""Lines `id, split, text`, one file a language."""

import hashlib

from disent_core.storage.tables import rows_table
from disent_core.text import text_key, tokenize

KIND, TRAINS, SHARES, PARALLEL, LOCALES = "utterances", True, None, "all", None


def language_of(locale):
    return locale


def locales(path):
    return sorted(file.stem for file in path.glob("*.tsv"))


def content_hash(path, name):
    return hashlib.sha256((path / f"{name}.tsv").read_bytes()).hexdigest()


def read_utterances(path, locale, *, corpus, language):
    rows = []
    for line in (path / f"{locale}.tsv").read_text(encoding="utf-8").splitlines():
        utterance_id, split, text = line.split("\\t")
        tokens = tokenize(text, language)
        rows.append({
            "corpus": corpus, "language": language, "utterance_id": utterance_id, "split": split, "domain": None,
            "intent": None, "text": text, "tokens": tokens, "slot_tags": ["O"] * len(tokens),
            "text_key": text_key(text),
        })
    return rows_table(rows, "utterances")
'''
SECTION = """
[[corpora]]
name = "tsv"
format = "package_of_a_user.reader"
path = "tsv"

[[encoders]]"""


@pytest.fixture
def project(fresh, tmp_path, monkeypatch):
    """A project whose configuration names a method, a task and a format of a package that is not the library's."""
    folder = tmp_path / "site" / "package_of_a_user"
    folder.mkdir(parents=True)
    for name, text in (("__init__", ""), ("rotation", METHOD), ("task", TASK), ("reader", READER)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    for locale, language in (("en-US", "en"), ("de-DE", "de")):
        rows = [(row["id"], row["partition"], row["utt"]) for row in fresh.utterances(locale)]
        fresh.write_lines(f"tsv/{language}.tsv", ["\t".join(row) for row in rows])
    fresh.configure('["raw", "dream", "fmda", "fmda_softmax"]', '["raw", "turned"]')
    fresh.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de"]')
    fresh.configure("\n[[encoders]]", SECTION)
    fresh.configure("[evaluation]", '[evaluation]\ntasks = ["crosslingual_retrieval", "package_of_a_user.task"]')
    fresh.configure(
        "[methods.dream]", '[methods.turned]\nmethod = "package_of_a_user.rotation:METHOD"\n[methods.dream]'
    )
    monkeypatch.syspath_prepend(folder.parent)
    yield fresh
    for name in [name for name in sys.modules if name.startswith("package_of_a_user")]:
        del sys.modules[name]


def test_what_the_package_lacks_is_told_with_file_and_line(project):
    project.configure("package_of_a_user.task", "package_of_a_user.tasks")
    with pytest.raises(ConfigError, match=r"disent.toml:\d+: evaluation.tasks: .*no module 'package_of_a_user.tasks'"):
        load_config(project.config)


def test_a_method_from_outside_has_assets_that_are_described_by_its_module(project):
    specs = {spec.key.to_user_string(): spec for spec in project.definitions.resolve_all_asset_specs()}
    assert "evaluation/tiny/turned" in specs
    assert "Signs of random projections" in specs["heads/tiny/turned"].description


def test_method_task_and_format_from_outside_reach_the_leaderboard_of_a_run(project):
    path = os.pathsep.join([str(project.folder / "site"), str(ROOT)])
    command = [sys.executable, "-m", "disent_assets.cli"]
    environment = os.environ | project.environment | {"PYTHONPATH": path}
    for arguments in (["materialize"], ["leaderboard", "self_retrieval"]):
        ran = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    assert "turned" in ran.stdout
    rows = project.ask(
        """select distinct task, dataset, method, seeds, embedding from leaderboard
        where rank is not null and dataset = 'tsv' and method = 'turned' order by all"""
    )
    assert [(row["task"], row["seeds"], row["embedding"]) for row in rows] == [
        ("crosslingual_retrieval", 2, "meaning"),
        ("self_retrieval", 2, "meaning"),
    ]
    ranked = project.ask("select distinct method from leaderboard where task = 'self_retrieval' and rank is not null")
    assert [row["method"] for row in ranked] == ["turned"]  # the task does not rank by what `raw` has
