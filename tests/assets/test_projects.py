"""Which project a command works in, and what a new one reads."""

from disent.home import SHARED, project_folder
from disent_assets.cli.init import write_project
from disent_core.config.load import load_config
from disent_core.config.reference import FILE_NAME, schema_text
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig


def test_the_project_is_the_working_folder_or_the_enclosing_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert project_folder() == tmp_path
    monkeypatch.chdir(SHARED / "docs")
    assert project_folder() == SHARED
    (tmp_path / "disent.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert project_folder() == tmp_path


def test_a_new_project_on_real_data_needs_only_downloads(tmp_path):
    write_project(tmp_path / "mine", real=True)
    config = load_config(tmp_path / "mine" / "disent.toml")
    assert [corpus.name for corpus in config.corpora if not (corpus.url and corpus.sha256)] == []
    assert {type(encoder) for encoder in config.encoders.values()} == {HuggingFaceConfig}
    assert [name for name, encoder in config.encoders.items() if not (encoder.id and encoder.revision)] == []
    assert config.targets.code_switching.dictionaries is None


def test_an_editor_completes_the_configuration_of_a_new_project(tmp_path):
    for real in (False, True):
        folder = tmp_path / str(real)
        write_project(folder, real=real)
        first, _, _ = (folder / "disent.toml").read_text(encoding="utf-8").partition("\n")
        assert first == f"#:schema {FILE_NAME}"
        assert (folder / FILE_NAME).read_text(encoding="utf-8") == schema_text()
