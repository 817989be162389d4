"""Which project a command works in."""

from disent_assets.resources import SHARED, project_folder


def test_a_working_folder_with_a_configuration_is_the_project_and_any_other_leaves_it_to_the_checkout(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert project_folder() == SHARED
    (tmp_path / "disent.toml").touch()
    assert project_folder() == tmp_path
