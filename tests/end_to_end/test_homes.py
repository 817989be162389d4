"""Folders of results: of any name that the system allows, of another user, of another configuration."""

import os
import shutil
from pathlib import Path

import dagster as dg
import pytest
from permissions import taken_away
from projects import Project

import disent
from disent_assets.settings.instance import shown_state
from disent_core.errors import ConfigError

pytestmark = pytest.mark.end_to_end


def at(project: Project, **environment: str) -> Project:
    """The project with another folder of results or another configuration."""

    class Elsewhere(Project):
        @property
        def environment(self):
            return {**super().environment, **environment}

    return Elsewhere(project.folder)


def complaint(result) -> str:
    """The one line that a command prints that can't do its work."""
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("disent: ")
    return line


# --- paths ---


@pytest.mark.parametrize("name", ["a#b 'c\" mañana 家 %zz;d", "x" * 255])
def test_a_home_may_have_any_name_that_the_system_allows(fresh, name):
    elsewhere = at(fresh, DISENT_HOME=str(fresh.folder / name))
    assert elsewhere.disent("materialize", "corpora", "--partition", "en").exit_code == 0
    assert "1 fresh" in elsewhere.disent("status").stdout


HOMES = {
    "an escape": ("h%41x", "can't have '%41' in its path, because Dagster can't use it"),
    "a question mark": ("h?x", "can't have '?' in its path"),
    "a file": ("disent.toml", "Not a directory"),
    "below a file": ("disent.toml/home", "Not a directory"),
    "a long name": ("x" * 256, "File name too long"),
    "/proc": ("/proc/1/none", "No such file or directory"),
    "no user": ("~nobody-has-this-name/x", "names an unknown user"),
}


def test_an_invalid_home_path_is_one_error_line(fresh):
    for home, problem in HOMES.values():
        path = home if home[0] in "/~" else str(fresh.folder / home)
        for command in ("status", "materialize"):
            line = complaint(at(fresh, DISENT_HOME=path).disent(command))
            assert problem in line
            assert "DISENT_HOME" in line


# --- permissions ---


def test_a_read_only_home_can_be_inspected(copied, tmp_path):
    states = copied.disent("status").stdout
    before = copied.results()
    report = tmp_path / "report.html"
    with taken_away(copied.home):
        status = copied.disent("status")
        assert (status.stderr, status.stdout) == ("", states)
        assert copied.disent("sql", "select count(*) as rows from metrics").exit_code == 0
        assert copied.disent("leaderboard").exit_code == 0
        assert copied.disent("report", "--output", str(report)).exit_code == 0
    assert report.is_file()
    assert copied.results() == before
    rows = copied.utterances("de-DE")
    copied.write("de-DE", [{**rows[0], "utt": "neu", "annot_utt": "neu"}, *rows[1:]])
    with taken_away(copied.home):
        assert "stale   corpora/utterances [de]" in copied.disent("status").stdout


def test_the_web_server_shows_a_copy_of_a_read_only_home(copied, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "")
    with taken_away(copied.home), shown_state(copied.home):
        copy = Path(os.environ["DAGSTER_HOME"])
        with dg.DagsterInstance.from_config(str(copy)) as instance:
            assert instance.get_runs_count() > 0
        assert (copy.parent / "plots").samefile(copied.home / "plots")
    assert not copy.exists()


def test_an_unwritable_or_unreadable_home_is_one_error_line(copied):
    with taken_away(copied.home):
        line = complaint(copied.disent("materialize"))
        assert f"{copied.home}: this folder may be read but not written" in line
        assert "permission denied" in complaint(copied.disent("report"))
    with taken_away(copied.home, keep=0):
        for arguments in (["status"], ["sql", "from metrics"], ["report"], ["materialize"]):
            assert str(copied.home) in complaint(copied.disent(*arguments))


# --- two configurations ---


def test_a_home_refuses_another_configuration_and_names_both(fresh):
    fresh.materialize("corpora", "--partition", "en")
    other = fresh.folder / "elsewhere" / "other.toml"
    other.parent.mkdir()
    other.write_text(fresh.config.read_text(encoding="utf-8").replace('"corpus"', '"../corpus"'), encoding="utf-8")
    for command in ("materialize", "status", "report"):
        line = complaint(at(fresh, DISENT_CONFIG=str(other)).disent(command))
        assert f"{other}: the results in {fresh.home} belong to the configuration {fresh.config}" in line
        assert "Set DISENT_HOME to a folder of its own" in line
    with pytest.raises(ConfigError, match="belong to the configuration"):
        disent.open(other, home=fresh.home)


def test_an_edited_a_moved_and_a_copied_configuration_are_the_same(fresh, tmp_path):
    fresh.materialize("corpora", "--partition", "en")
    fresh.configure("max_epochs = 6", "max_epochs = 5")
    fresh.materialize("corpora", "--partition", "en")
    moved = fresh.config.rename(fresh.folder / "renamed.toml")
    assert at(fresh, DISENT_CONFIG=str(moved)).disent("materialize", "corpora", "--partition", "en").exit_code == 0
    copy = Project(shutil.copytree(fresh.folder, tmp_path / "copy"))
    copy = at(copy, DISENT_CONFIG=str(copy.folder / "renamed.toml"))
    (copy.folder / "renamed.toml").write_text(moved.read_text().replace("max_epochs = 5", "max_epochs = 4"))
    assert copy.disent("materialize", "corpora", "--partition", "en").exit_code == 0


def test_after_its_record_is_deleted_a_home_goes_on_with_another_configuration(fresh):
    fresh.materialize("corpora", "--partition", "en")
    fresh.configure("max_epochs = 6", "max_epochs = 5")
    moved = at(fresh, DISENT_CONFIG=str(fresh.config.rename(fresh.folder / "renamed.toml")))
    line = complaint(moved.disent("status"))
    record = line.partition("delete ")[2].partition(" and try again")[0]
    (fresh.folder / record).unlink()
    assert moved.disent("materialize", "corpora", "--partition", "en").exit_code == 0
