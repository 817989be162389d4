"""No name of the configuration, of a corpus or of the command line leads outside its folder."""

import os

import pytest
from click.testing import CliRunner
from worlds import corpus, encoder, experiment, section

from disent_assets.cli import main
from disent_assets.definitions import build
from disent_assets.run.plan import plan, steps_of
from disent_assets.settings.environment import open_workspace
from disent_core.config.load import load_config
from disent_core.config.sections import CorpusConfig
from disent_core.corpora.languages import split_codes
from disent_core.encoders.kinds.huggingface import model_folder
from disent_core.encoders.kinds.vectors import VectorsConfig, vector_files
from disent_core.errors import ConfigError, EncoderError
from disent_core.lineage.workspace import Workspace
from disent_core.storage.download import file_name
from disent_core.storage.names import safe_part
from disent_core.storage.tables import table_path
from tools import results

CLIMBING = (
    "..", ".", "", "../x", "x/../y", "/etc/passwd", "a/b", "a\\b", "~", "~root", ".hidden", "-x", "a\x00b", "a\nb",
    "\x1b[2J", "a\n", "x..y", "%2e%2e", "a b", "ä", "{language}", "*", "nul\r",
)  # fmt: skip

CONFIG = (
    corpus("one", path="corpora", languages=["en-US", "de-DE"])
    + section(
        "[corpora]", name="far", format="intents", languages=["en", "fr"],
        url="https://example.org/files/table.csv?download=1#top",
    )
    + section("targets.code_switching", dictionaries="words")
    + encoder()
    + experiment("raw", "mine")
    + section("methods.mine", method="dream")
)  # fmt: skip


@pytest.fixture
def load(tmp_path):
    def load_changed(old="", new=""):
        (tmp_path / "disent.toml").write_text(CONFIG.replace(old, new) if old else CONFIG, encoding="utf-8")
        return load_config(tmp_path / "disent.toml")

    return load_changed


@pytest.mark.parametrize("name", CLIMBING)
def test_path_parts_and_partitions_cannot_traverse_folders(tmp_path, name):
    with pytest.raises(ValueError, match="can't be part of a path"):
        safe_part(name)
    with pytest.raises(ValueError, match="can't be part of a path"):
        table_path(tmp_path, "corpora", "utterances", "massive", name)


PLACES = {
    "corpus": 'name = "one"',
    "encoder": 'name = "toy"',
    "format": 'format = "massive"',
    "locale": '"en-US", "de-DE"',
    "language of a download": '"en", "fr"',
    "pair": '"en-de"',
}


@pytest.mark.parametrize("name", ["..", "../x", "/etc/passwd", "a/../../b", "en-../../x", "~"])
@pytest.mark.parametrize("place", PLACES)
def test_configured_names_cannot_traverse_folders(load, place, name):
    old = PLACES[place]
    with pytest.raises(ConfigError):
        load(old, old.partition("=")[0] + f'= "{name}"' if "=" in old else old.replace(old, f'"{name}", "en"'))


@pytest.mark.parametrize("name", ["..", "../x", "/x", "a/b"])
def test_method_names_cannot_traverse_folders(load, name):
    with pytest.raises(ConfigError, match="can't be part of a path"):
        load("[methods.mine]", f'[methods."{name}"]\nmethod = "emu"\n[methods.mine]')


@pytest.mark.parametrize(
    "url",
    ["http://x/..", "http://x/a/..", "http://x/%2e%2e", "http://x/%2e%2e/", "http://x/", "http://x", "http://x/.",
     "http://x/..%2fpasswd", "http://x/.bashrc", "http://x/a\\b", "http:..", "file:///etc/..", "ftp://x/a.tar", "a.tar",
     "javascript:alert(1)", "http://x/?name=a.tar"],
)  # fmt: skip
def test_a_url_without_a_file_name_is_refused(url):
    with pytest.raises(ValueError, match=r"^url "):
        file_name(url)
    with pytest.raises(ValueError, match=r"^url "):
        CorpusConfig(name="c", format="massive", url=url, languages=("en-US",))


def test_a_download_stays_in_its_corpus_folder_whatever_its_url_query(load, tmp_path):
    workspace = Workspace(load(), tmp_path / "home")
    assert workspace.corpus_path("far") == tmp_path / "home/downloads/far/table.csv"
    assert file_name("https://x/data/a.tar.gz?as=../../b#/../c") == "a.tar.gz"


def test_a_package_model_path_cannot_leave_its_package():
    for inside in ("..", "../..", "x/../../y", "/etc", "//etc", "x/.."):
        with pytest.raises(EncoderError, match="points outside package 'numpy'"):
            model_folder(f"package:numpy/{inside}", None, None)
    for package in ("..", "../x", "/etc", "os.path", "a b", "", "no_such_package_here"):
        with pytest.raises(EncoderError):
            model_folder(f"package:{package}", None, None)


def test_a_language_in_a_vector_path_is_not_a_glob_pattern(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v/en.npy").write_bytes(b"")
    config = VectorsConfig(name="v", path=f"{tmp_path}/v/{{language}}.npy")
    assert [vector_files(config, language) for language in ("../secret", "..", "*", "[a-z]", "**")] == [[]] * 5
    assert len(vector_files(config)) == 1


def test_the_name_of_a_word_list_is_the_code_of_a_language():
    for pair in ("en-../../x", "en-..", "../en-de", "en-/etc/passwd"):
        with pytest.raises(ValueError, match="is not two language codes"):
            split_codes(pair)


def test_the_command_line_accepts_only_existing_partitions():
    workspace = open_workspace({})
    steps = steps_of(workspace, build(workspace))
    for partition in ("../../x", "..", "/etc/passwd", "en-de/../..", "*"):
        with pytest.raises(ValueError, match="there is no partition"):
            plan(steps, (), partition)


def test_a_report_never_overwrites_a_device_or_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DISENT_HOME", str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path):
        result = CliRunner().invoke(main, ["report", "--output", str(place)])
        assert result.exit_code == 2
        assert not place.is_file()
    result = CliRunner().invoke(main, ["texts", str(tmp_path / "pipe"), "--encoder", "scratch"])
    assert result.exit_code == 2
    assert "not a regular file" in result.stderr


@pytest.mark.parametrize("arguments", [["report", "--output"], ["export-texts", "--encoder", "scratch"]])
def test_output_files_need_an_existing_folder(tmp_path, monkeypatch, arguments):
    monkeypatch.setenv("DISENT_HOME", str(tmp_path))
    result = CliRunner().invoke(main, [*arguments, str(tmp_path / "none" / "x.jsonl")])
    assert result.exit_code == 2
    assert f"the folder {tmp_path / 'none'} does not exist" in result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("home", ["a", "=folder", "a="])
def test_the_home_option_must_be_config_and_folder(home):
    result = CliRunner().invoke(results.main, ["--home", home])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--home {home}: must be CONFIG=FOLDER" in result.stderr
