"""`disent mteb`: a head of the configuration is measured, and mteb's files lie in the folder of results."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny_encoder import tiny_encoder
from worlds import corpus, encoder, experiment, section

from disent_assets.cli import main
from disent_core.config.load import load_config
from disent_core.lineage.corpora import refresh_sentence_pairs
from disent_core.lineage.workspace import Workspace

CONFIG = (
    corpus("pairs", "tatoeba", path=".", pairs=["de-en"], train=True)
    + encoder("tiny", "huggingface", path="encoder", pooling="mean", max_length=32)
    + experiment(device="cpu")
    + section("evaluation", tasks=["tatoeba_retrieval"])
)


@pytest.fixture
def disent(tmp_path, monkeypatch):
    """Runs a command on eight translations and an encoder of random weights."""
    for language in ("deu", "eng"):
        lines = "".join(f"toy {language[:2]} {row}\n" for row in range(8))
        (tmp_path / f"tatoeba.deu-eng.{language}").write_text(lines, encoding="utf-8")
    tiny_encoder(tmp_path / "encoder")
    config = tmp_path / "disent.toml"
    config.write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("DISENT_CONFIG", str(config))
    monkeypatch.setenv("DISENT_HOME", str(tmp_path / "home"))
    refresh_sentence_pairs(Workspace(load_config(config), tmp_path / "home"), "de-en")
    return lambda *arguments: CliRunner().invoke(main, ["mteb", *arguments])


@pytest.fixture
def with_mteb():
    pytest.importorskip("mteb", reason="mteb is not installed: make mteb-test")


def test_without_mteb_the_message_says_how_to_install_it(disent, monkeypatch):
    monkeypatch.setitem(sys.modules, "mteb", None)
    done = disent("raw@tiny:en-de")
    assert done.exit_code == 2
    assert done.stderr == "disent: this command needs mteb; install it with: pip install 'disent-embeddings[mteb]'\n"


@pytest.mark.usefixtures("with_mteb")
def test_a_head_of_the_configuration_is_measured(disent, tmp_path):
    done = disent("raw@tiny:en-de")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["sentence  DisentTatoebaRetrieval pairs"] * 2
    assert "accuracy_at_1" in lines[0]
    files = sorted(path.name for path in Path(tmp_path / "home" / "mteb").rglob("*.json"))
    assert files == ["DisentTatoebaRetrieval.json", "model_meta.json"]


@pytest.mark.usefixtures("with_mteb")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["raw@tiny:en-de", "--tasks", "DisentTatoebaRetrieva"], "unknown task 'DisentTatoebaRetrieva'"),
        (["raw@tiny:en-de", "--languages", "fr"], "no task has data in fr"),
        (["raw@tiny:en-de", "--embeddings", "template"], "no embedding 'template'; it has sentence"),
        (["rawer@tiny:en-de"], "unknown method 'rawer'"),
        (["raw@tiny:en-de", "--seed", "3"], "raw@tiny:en-de is untrained"),
    ],
)
def test_a_mistake_is_one_line(disent, arguments, message):
    done = disent(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
