"""Warnings of commands are clean lines on stderr, and a handful of texts has no bar."""

import warnings

import click
import pytest
from click.testing import CliRunner

import disent
from disent_assets.cli import main
from disent_assets.cli.group import Command, after_the_bar
from disent_core.progress import text_bar

POLISH = [f"obudź mnie jutro o godzinie {number} rano proszę" for number in range(40)]
ENGLISH = ["wake me up at nine", "play some jazz", "what is the weather in berlin"]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(POLISH), encoding="utf-8")
    return path


def stderr(*arguments):
    answer = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stderr


@pytest.mark.parametrize("command", ["embed", "index", "shapes", "search"])
def test_texts_of_an_unseen_language_are_one_line(command, texts, tmp_path):
    disent.Index.build(tmp_path / "of_english", disent.load(), ENGLISH)
    arguments = {
        "embed": [texts, tmp_path / "out.parquet"],
        "index": [texts, tmp_path / "index"],
        "shapes": [texts],
        "search": [tmp_path / "of_english", "--queries", texts],
    }[command]
    bar, _, line = stderr(command, *arguments).rpartition("disent: ")
    assert "rows of these texts' words were trained" in line
    assert line.count("\n") == 1
    assert ".py" not in bar + line
    assert "UnseenTextWarning" not in bar + line
    assert bar == "" or bar.endswith("\n")


def test_a_warning_that_differs_in_figures_alone_is_one_line(recwarn):
    with after_the_bar():
        for words in ("0.68 of the rows", "0.69 of the rows", "few texts"):
            warnings.warn(words, UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in recwarn] == ["0.68 of the rows", "few texts"]


def test_a_library_warning_is_one_line_with_its_category_unless_debug_is_on():
    @click.command(cls=Command)
    def warned():
        warnings.warn("two\nlines", FutureWarning, stacklevel=1)

    assert CliRunner().invoke(warned).stderr == "disent: FutureWarning: two lines\n"
    with pytest.warns(FutureWarning, match="two"):
        assert CliRunner().invoke(warned, obj=True).stderr == ""


@pytest.mark.parametrize(("seconds", "is_shown"), [(0, False), (2, True)])
def test_work_under_a_second_shows_no_progress_bar(capsys, seconds, is_shown):
    with text_bar(40) as bar:
        bar.start_t -= seconds
        bar.update(40)
    assert ("40/40" in capsys.readouterr().err) is is_shown


@pytest.mark.parametrize("command", ["embed", "index"])
def test_longer_work_shows_the_number_of_finished_texts(command, texts, tmp_path, monkeypatch):
    monkeypatch.setattr("disent_core.progress.PATIENCE", 0)
    assert "40/40" in stderr(command, texts, tmp_path / "out.npy")
