"""`python -m tools.results` on a run: files are written from its warehouse, and rows of other code are marked."""

import shutil
import sys

import pytest

from disent_assets.run.runner import recorded_seconds
from disent_core.errors import DisentError
from tools.results import EARLIER, TABLES, read_rows, write_results
from tools.results_run import materialize, outlook, ship_seconds

pytestmark = pytest.mark.end_to_end
LISTED = """[[leaderboards]]
config = "disent.toml"
encoders = ["tiny"]
boards = ["crosslingual_retrieval sample accuracy_at_1"]
"""
FILE = "crosslingual_retrieval.csv"


@pytest.fixture
def written(copied):
    """Writes the results of a finished project, and gives the fingerprint of each method."""

    def write() -> dict[str, str]:
        copied.write_lines(TABLES, LISTED.splitlines())
        assert len(list(write_results(copied.folder, {"disent.toml": copied.home}))) == 2
        return {row["method"]: row["code"] for row in read_rows(copied.folder, FILE)}

    return write


def test_every_finished_method_has_a_row_with_current_code_and_figures(written, copied):
    codes = written()
    assert set(codes) == {"raw", "dream", "fmda", "fmda_softmax"}
    assert EARLIER not in codes.values()
    (best,) = copied.ask(
        "select * from leaderboard where task = 'crosslingual_retrieval' and evaluated_on = 'en-de' and method = 'raw'"
    )
    (row,) = (row for row in read_rows(copied.folder, FILE) if (row["method"], row["evaluated_on"]) == ("raw", "en-de"))
    names = ("value", "ci_low", "ci_high")
    assert [row[name] for name in names] == [f"{best[name]:.3f}" for name in names]
    assert row["n"] == str(best["n"])


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("[methods.dream]\nmax_epochs = 6", "[methods.dream]\nmax_epochs = 7", {"dream"}),
        ("bootstrap_samples = 100", "bootstrap_samples = 101", {"raw", "dream", "fmda", "fmda_softmax"}),
        # raw is measured on all pairs
        ('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de", "en-ja", "de-ja"]', {"raw"}),
    ],
    ids=["settings of a method", "settings of all measurements", "a training set that has not been run"],
)
def test_rows_that_were_made_with_other_settings_are_marked(copied, written, old, new, marked):
    copied.configure(old, new)
    assert {method for method, code in written().items() if code == EARLIER} == marked


def test_a_method_with_deleted_weights_counts_as_earlier_code(copied, written):
    for path in (copied.home / "heads" / "tiny" / "dream").glob("en-de.safetensors*"):
        path.unlink()
    assert [method for method, code in written().items() if code == EARLIER] == ["dream"]


# --- make results: what is stale is run before the tables are written ---------------------------------------------


def look(project):
    return outlook(project.folder, "disent.toml", project.home)


def test_a_finished_run_has_no_due_steps_and_an_edit_is_estimated_in_time(copied):
    work, before = look(copied), copied.results()
    assert (work.due, work.steps > 10) == (0, True)
    assert str(work).endswith(f"0 of {work.steps} steps to make")
    copied.configure("[methods.dream]\nmax_epochs = 6", "[methods.dream]\nmax_epochs = 7")
    work = look(copied)
    recorded = recorded_seconds(copied.workspace)
    heads = [f"heads/tiny/dream_head [{pair}]" for pair in ("en-de", "en-ja")]
    assert work.due == len(heads)
    assert work.seconds is not None
    assert work.seconds >= max(recorded[name] for name in heads)
    assert f"2 of {work.steps} steps to make, about " in str(work)
    assert copied.results() == before


def test_a_first_run_is_expected_to_take_as_long_as_the_run_behind_the_pages(copied):
    ship_seconds(copied.folder, {"disent.toml": copied.home})
    shutil.rmtree(copied.home)
    with_record = look(copied)
    assert with_record.due == with_record.steps
    assert with_record.seconds is not None
    (copied.folder / "docs" / "seconds.json").unlink()
    assert look(copied).seconds is None


def test_a_results_run_materialises_its_configuration_and_fails_with_it(tmp_path, monkeypatch):
    called, program = tmp_path / "called", tmp_path / "program"  # which stands for the process that materialises
    monkeypatch.setattr(sys, "executable", str(program))
    noted = f'#!/bin/sh\necho "$DISENT_CONFIG $DISENT_HOME $*" > {called}\n'
    program.write_text(noted)
    program.chmod(0o755)
    materialize(tmp_path, "configs/a.toml", tmp_path / "a")
    assert called.read_text() == f"{tmp_path}/configs/a.toml {tmp_path}/a -m disent_assets.cli materialize\n"
    program.write_text(f"{noted}exit 1\n")
    with pytest.raises(DisentError, match=r"configs/a\.toml: the run ended with exit code 1"):
        materialize(tmp_path, "configs/a.toml", tmp_path / "a")
