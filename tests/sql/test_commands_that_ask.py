"""Commands that only ask load none of the libraries that encode, train and orchestrate, which take seconds."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from disent_assets.cli import main

RELATIONS = ("leaderboard", "headline", "best", "opponents", "parts.settings_tried")
HEAVY = ("torch", "dagster", "polars", "transformers", "pydantic", "matplotlib", "sklearn", "scipy")


def loaded_by(home, *commands, unwanted=HEAVY):
    """The unwanted libraries that a process has after these commands."""
    code = (
        "import json, sys; from disent_assets.cli import main; "
        "[main(arguments, standalone_mode=False) for arguments in json.loads(sys.argv[1])]; "
        f"print('loaded:', sorted(set({unwanted}) & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        env={**os.environ, "DISENT_HOME": str(home)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout.splitlines()[-1]


def test_a_question_to_the_warehouse_loads_no_library_of_training(warehouse):
    warehouse.build(metrics=[{}])
    commands = ("sql", "from metrics"), ("leaderboard",), ("leaderboard", "crosslingual_retrieval")
    assert loaded_by(warehouse.path.parent, *commands) == "loaded: []"


def test_the_settings_are_listed_without_the_libraries_that_read_them(tmp_path):
    commands = ("settings",), ("settings", "dream"), ("settings", "twosl")
    loaded = loaded_by(tmp_path, *commands, unwanted=(*HEAVY, "duckdb"))
    assert loaded == "loaded: ['pydantic']"  # which checks a configuration


@pytest.mark.parametrize("task", [(), ("template_retrieval",)])
def test_of_several_trainings_the_one_that_knows_the_languages_is_shown(warehouse, task):
    values = {"de-es": 0.9, "en-de": 0.5, "en-es": 0.7, "en-de+en-es": 0.8}
    cell = {"task": "template_retrieval", "evaluated_on": "en", "embedding": "template", "method": "facet"}
    cell |= {"ci_low": None, "ci_high": None}
    warehouse.build(metrics=[{**cell, "trained_on": pair, "value": value} for pair, value in values.items()])
    shown = CliRunner().invoke(main, ["leaderboard", *task], env={"DISENT_HOME": str(warehouse.path.parent)})
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[2].split()[:2] == ["facet", "0.500" if task else "50"]


def test_of_several_trainings_that_of_a_named_set_is_known_by_its_languages(warehouse):
    named = {"training_set": "all", "pairs": ["en-de", "en-es"], "languages": ["en", "de", "es"]}
    cell = {"evaluated_on": "de-es", "method": "facet", "ci_low": None, "ci_high": None}
    values = {"en-de": 0.9, "all": 0.7}
    metrics = [{**cell, "trained_on": name, "value": value} for name, value in values.items()]
    warehouse.build(metrics=metrics, training_sets=[named])
    of_folder = {"DISENT_HOME": str(warehouse.path.parent)}
    shown = CliRunner().invoke(main, ["leaderboard", "crosslingual_retrieval"], env=of_folder)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[2].split()[:2] == ["facet", "0.700"]


def asked(warehouse, *arguments):
    return CliRunner().invoke(main, ["sql", *arguments], env={"DISENT_HOME": str(warehouse.path.parent)})


@pytest.mark.parametrize("comment", ["-- how many rows", "--how many rows", "--"])
def test_a_query_may_begin_with_a_comment(warehouse, comment):
    warehouse.build(metrics=[{}])
    shown = asked(warehouse, f"{comment}\nselect count(*) as rows from metrics", "--format", "csv")
    assert (shown.exit_code, shown.stdout) == (0, "rows\n1\n"), shown.output


def test_an_option_that_does_not_exist_is_no_query(warehouse):
    shown = asked(warehouse, "select 1", "--fromat", "csv")
    assert shown.exit_code == 2
    assert "No such option '--fromat'" in shown.output


@pytest.mark.parametrize("name", ["docs/facet.sql", "docs/headline.sql", "facet.sql"])
def test_the_sql_files_of_the_docs_are_found_from_any_folder(warehouse, tmp_path, monkeypatch, name):
    warehouse.build(metrics=[{"method": "mine", "encoder": "tiny", "dataset": "ours"}])
    monkeypatch.chdir(tmp_path)
    shown = asked(warehouse, name, "--format", "csv")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("encoder,")
    assert shown.stderr == f"{name} has no rows here. The warehouse has data sets ours; encoders tiny; methods mine\n"


def test_the_paraphrases_of_a_pair_are_those_of_its_own_bitext(warehouse):
    raw = {"method": "raw", "trained_on": "", "embedding": "sentence", "value": 0.5, "ci_low": None, "ci_high": None}
    pairs = [raw | {"evaluated_on": f"en-{language}"} for language in ("de", "ja")]
    paraphrases = {"task": "paraphrase_retrieval", "dataset": "bitext", "evaluated_on": "en"}
    values = {"en-de": 0.1, "en-ja": 0.9}
    named = [raw | paraphrases | {"settings": f'{{"pair": "{pair}"}}', "value": values[pair]} for pair in values]
    warehouse.build(metrics=pairs + named)
    shown = json.loads(asked(warehouse, "measures.sql", "--format", "json").stdout)
    assert {row["pair"]: float(row["paraphrases, en"][:5]) for row in shown} == values


def test_the_users_own_sql_file_comes_first_and_one_that_is_nowhere_is_told(warehouse, tmp_path, monkeypatch):
    warehouse.build(metrics=[{}])
    (tmp_path / "facet.sql").write_text("select 7 as own", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert asked(warehouse, "facet.sql", "--format", "csv").stdout == "own\n7\n"
    shown = asked(warehouse, "docs/fasset.sql")
    assert shown.exit_code == 2
    assert shown.stderr == (
        f"disent: file not found: docs/fasset.sql, neither in {tmp_path} nor among the SQL files of disent: "
        "docs/facet.sql, docs/headline.sql, docs/measures.sql, docs/parts.sql\n"
    )


@pytest.mark.parametrize("command", ["leaderboard", "costs", "diff"])
def test_a_warehouse_of_another_version_is_refused_with_the_command_that_makes_it_again(warehouse, command):
    warehouse.build(metrics=[{}])
    warehouse.path.with_suffix(".json").write_text('{"sql": "of another version"}')
    shown = CliRunner().invoke(main, [command], env={"DISENT_HOME": str(warehouse.path.parent)})
    assert shown.exit_code == 1
    assert "another version of disent. Run disent materialize warehouse" in shown.output
