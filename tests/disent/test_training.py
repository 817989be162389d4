"""`disent.train` and `disent train`: from a table of translations to a static model."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import disent
from disent.extras import LINEAGE
from disent.training import Measured, Trained
from disent_assets.cli import main
from disent_core.config.load import load_config
from disent_core.errors import CorpusError, DisentError, TrainingError

TIMES = {"nine": "neun", "ten": "zehn", "six": "sechs", "noon": "mittag", "four": "vier", "two": "zwei", "one": "eins"}
SONGS = {"jazz": "jazz", "rock": "rock", "some songs": "ein paar lieder", "the news": "die nachrichten"}
SHAPES = [
    ("alarm", "wake me up at {}", "weck mich um {} auf", TIMES),
    ("alarm", "set an alarm for {}", "stell den wecker auf {}", TIMES),
    ("remind", "remind me at {} of the meeting", "erinnere mich um {} an das treffen", TIMES),
    ("music", "play {}", "spiel {}", SONGS),
    ("music", "i want to hear {} now", "ich will jetzt {} hören", SONGS),
]


def table(path, *, slots=True, languages=("en", "de")):
    """Write a table with a column for each language; its rows are split by their number."""
    value = "[what : {}]" if slots else "{}"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*languages, "intent", "split"])
        rows = [
            ((english.format(value.format(left)), german.format(value.format(right))), intent)
            for intent, english, german, values in SHAPES
            for left, right in values.items()
        ]
        for number, (texts, intent) in enumerate(rows):
            split = ("train", "train", "dev", "train", "test", "train", "train")[number % 7]  # the same times
            writer.writerow([*texts[: len(languages)], intent, split])
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    return disent.train(table(folder / "requests.csv"), folder / "mine")


def test_a_trained_model_is_written_and_gives_the_same_vectors_when_it_is_loaded(trained):
    loaded = disent.load(trained.folder)
    assert loaded.names == ("meaning", "template", "residual")
    assert loaded.languages == ("en", "de")
    np.testing.assert_array_equal(loaded.encode(["wake me up"]), trained.model.encode(["wake me up"]))


def test_a_trained_model_is_compared_with_untrained_words_on_test(trained):
    values = {(row.model, row.measure, row.of): row for row in trained.measured}
    assert {model for model, *_ in values} == {"untrained", "small", "trained"}
    assert {(measure, of) for _, measure, of in values} == {
        ("translation", "en-de"), ("translation", "de-en"), ("label", "en-de"), ("shape", "en"), ("shape", "de"),
        ("values", "en"), ("values", "de"), ("shape by values", "en"), ("shape by values", "de"),
        ("values by shape", "en"), ("values by shape", "de"),
    }  # fmt: skip
    assert values["trained", "shape", "en"].value > values["trained", "shape by values", "en"].value
    # Three texts a language, of which English ties.
    right, wrong = (
        sum(values["trained", name, of].value for of in ("en", "de")) for name in ("values", "values by shape")
    )
    assert right > wrong
    for measure in ("translation", "label"):
        assert values["trained", measure, "en-de"].value > values["untrained", measure, "en-de"].value
    row = values["trained", "translation", "en-de"]
    assert row.n == 4
    assert values["trained", "values", "en"].n == 3  # the same time, in three shapes
    assert 0 <= row.low <= row.value <= row.high <= 1


def test_the_card_has_the_measures(trained):
    measured = disent.load(trained.folder).description["measured"]
    assert [Measured(**row) for row in measured] == trained.measured
    card = (trained.folder / "README.md").read_text()
    assert "| trained | translation | en-de |" in card
    assert all(re.fullmatch(r"[01]\.\d{3}", number) for number in re.findall(r"(?<=\| )\d\.\d+", card))
    assert "*label*: how often a classifier" in card
    assert "*shape*: how often" in card
    assert "*shape by values*, *values by shape*: the same by the other part" in card


def test_the_table_of_measures_has_a_column_for_each_model(trained):
    header, first, *_, note = str(trained).splitlines()
    assert trained.counts == {"de": {"train": 21, "dev": 4, "test": 4}}
    assert note == "Fewer than 30 texts tell little: look at the intervals."
    assert header.split() == ["measure", "languages", "n", "untrained", "small", "trained"]
    assert first.split()[:2] == ["translation", "en-de"]


@pytest.fixture(scope="module")
def without_slots(tmp_path_factory) -> tuple[str, Path]:
    """What the command prints without the extra `lineage` on texts without slots, and its model.

    The test split alone has labels that no training text has.
    """
    folder = tmp_path_factory.mktemp("without_slots")
    path = table(folder / "t.csv", slots=False)
    path.write_text(re.sub(r",\w+,test$", ",of the test alone,test", path.read_text(), flags=re.MULTILINE))
    words = ["train", str(path), "mine", "--bits", "4", "--licence", "CC0-1.0"]
    absent = f"import sys; sys.modules |= dict.fromkeys({sorted(LINEAGE)})"  # None: an import of them fails
    command = [sys.executable, "-c", f"{absent}; from disent_assets.cli import main; main({words})"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout, folder / "mine"


def test_a_model_trained_without_slots_has_only_a_meaning(without_slots):
    _, folder = without_slots
    model = disent.load(folder)
    assert model.names == ("meaning",)
    assert repr(model).startswith("StaticModel('mine', meaning 256; int4")
    with pytest.raises(ValueError, match="this model has no shape: the texts that it was trained on have no slots"):
        model.encode(["wake me up"], "shape")
    assert "This model has no shape and no values" in (folder / "README.md").read_text()


def test_labels_absent_from_training_are_not_measured(without_slots):
    _, folder = without_slots
    assert {row["measure"] for row in disent.load(folder).description["measured"]} == {"translation"}


def test_a_table_of_a_single_language_is_refused_with_a_remedy(tmp_path):
    path = table(tmp_path / "t.csv", languages=("en",))
    path.write_text("language,text\nen,wake me up\n")
    with pytest.raises(CorpusError, match=r"t.csv: all its texts are in en.*Add texts of another language"):
        disent.train(path, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(("lines", "problem"), [
    (None, r"t.csv: there is no such file or folder. Check the path"),
    (["en,de", "stop,halt"], r"t.csv: no dev rows \(translations: de 1 train, 0 dev, 0 test\)"),
    (["en;de", "play some; jazz", "stop;halt;x"], r"t.csv:3: 2 columns expected, 3 found"),
    (["en\tde", "stop\thalt"], r"separated by tabs: name it .tsv"),
])  # fmt: skip
def test_an_insufficient_table_is_refused_before_training(tmp_path, lines, problem):
    if lines:
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DisentError, match=problem):
        disent.train(tmp_path / "t.csv", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_table_with_semicolons_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "en;de;split\n" + "".join(f"stop at {n};halt, um {n};train\n" for n in range(3)), encoding="utf-8-sig"
    )
    with pytest.raises(TrainingError, match="de 3 train, 0 dev, 0 test"):
        disent.train(path, tmp_path / "mine")


def test_overwriting_a_model_needs_a_flag_and_other_files_are_never_overwritten(trained, tmp_path):
    weights = (trained.folder / "README.md").read_bytes()
    with pytest.raises(ValueError, match=r"has a model already. Name a new one, or overwrite it \(--overwrite\)"):
        disent.train(table(tmp_path / "t.csv"), trained.folder)
    assert (trained.folder / "README.md").read_bytes() == weights
    with pytest.raises(ValueError, match="has other files already"):
        disent.train(tmp_path / "t.csv", tmp_path, overwrite=True)


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"no folder can be made in .*file \(.+\)\. Name another folder"):
        disent.train(tmp_path / "no_table.csv", tmp_path / "file" / "mine")


def test_the_command_without_the_lineage_extra_shows_the_measures_and_how_to_load_the_model(without_slots):
    shown, folder = without_slots
    assert "translation  en-de" in shown
    assert "The model has no shape and no values: the texts that it was trained on have no slots" in shown
    assert 'disent.load("mine")' in shown
    assert disent.load(folder).header.bits == 4
    assert "\nLicence: CC0-1.0.\n" in (folder / "README.md").read_text()


def test_a_project_of_the_same_table_has_the_same_settings(tmp_path):
    path = table(tmp_path / "t.csv")
    done = CliRunner().invoke(main, ["init", str(tmp_path / "project"), "--from", str(path)])
    assert done.exit_code == 0, done.output
    config = load_config(tmp_path / "project" / "disent.toml")
    assert config.utterance_languages == ("de", "en")
    assert config.experiment.pairs == ("data",)
    assert (tmp_path / "project" / "data" / "corpora" / "t.csv").read_bytes() == path.read_bytes()
    both = CliRunner().invoke(main, ["init", str(tmp_path / "other"), "--from", str(path), "--real"])
    assert both.exit_code == 2
