"""Commands that only ask load none of the libraries that encode, train and orchestrate, which take seconds."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from disent_assets.cli import main

HEAVY = ("torch", "dagster", "polars", "transformers", "pydantic", "matplotlib", "sklearn", "scipy")


def loaded_by(home, *arguments, unwanted=HEAVY):
    code = (
        "import sys; from disent_assets.cli import main; main(sys.argv[1:], standalone_mode=False); "
        f"print('loaded:', sorted(set({unwanted}) & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "DISENT_HOME": str(home)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments", [("sql", "from metrics"), ("leaderboard",), ("leaderboard", "crosslingual_retrieval")]
)
def test_a_question_to_the_warehouse_loads_no_library_of_training(warehouse, arguments):
    warehouse.build(metrics=[{}])
    assert loaded_by(warehouse.path.parent, *arguments) == "loaded: []"


@pytest.mark.parametrize("arguments", [(), ("dream",), ("twosl",)])
def test_the_settings_are_listed_without_the_libraries_that_read_them(tmp_path, arguments):
    loaded = loaded_by(tmp_path, "settings", *arguments, unwanted=(*HEAVY, "duckdb"))
    assert loaded == "loaded: ['pydantic']"  # which checks a configuration


@pytest.mark.parametrize("task", [(), ("template_retrieval",)])
def test_of_several_trainings_the_one_that_knows_the_languages_is_shown(warehouse, task):
    values = {"de-es": 0.9, "en-de": 0.5, "en-es": 0.7, "en-de+en-es": 0.8}
    cell = {
        "ci_low": None,
        "ci_high": None,
        "task": "template_retrieval",
        "evaluated_on": "en",
        "embedding": "template",
        "method": "facet",
    }
    warehouse.build(metrics=[{**cell, "trained_on": pair, "value": value} for pair, value in values.items()])
    shown = CliRunner().invoke(main, ["leaderboard", *task], env={"DISENT_HOME": str(warehouse.path.parent)})
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[2].split()[:2] == ["facet", "0.500" if task else "50"]


def test_a_warehouse_of_another_version_is_refused_with_the_command_that_makes_it_again(warehouse):
    warehouse.build(metrics=[{}])
    warehouse.path.with_suffix(".json").write_text('{"sql": "of another version"}')
    shown = CliRunner().invoke(main, ["leaderboard"], env={"DISENT_HOME": str(warehouse.path.parent)})
    assert shown.exit_code == 1
    assert "another version of disent. Run disent materialize warehouse" in shown.output
