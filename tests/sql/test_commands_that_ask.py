"""Commands that only ask load none of the libraries that encode, train and orchestrate, which take seconds."""

import json
import os
import subprocess
import sys

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


def test_warehouse_queries_import_no_training_library(warehouse):
    warehouse.build(metrics=[{}])
    commands = ("sql", "from metrics"), ("leaderboard",), ("leaderboard", "crosslingual_retrieval")
    assert loaded_by(warehouse.path.parent, *commands) == "loaded: []"


def test_listing_settings_imports_only_pydantic(tmp_path):
    commands = ("settings",), ("settings", "dream"), ("settings", "twosl")
    loaded = loaded_by(tmp_path, *commands, unwanted=(*HEAVY, "duckdb"))
    assert loaded == "loaded: ['pydantic']"  # which checks a configuration


def test_the_state_of_all_results_is_shown_without_dagster(tmp_path):
    assert loaded_by(tmp_path / "home", ("status",), unwanted=(*HEAVY, "duckdb")) == "loaded: ['pydantic']"


def test_the_leaderboard_shows_the_training_with_the_evaluated_languages(warehouse):
    cell = {"method": "facet", "ci_low": None, "ci_high": None}
    template = {**cell, "task": "template_retrieval", "evaluated_on": "en", "embedding": "template"}
    values = {"de-es": 0.9, "en-de": 0.5, "en-es": 0.7, "en-de+en-es": 0.8}
    metrics = [{**template, "trained_on": pair, "value": value} for pair, value in values.items()]
    warehouse.build(metrics=metrics)
    assert asked(warehouse, command="leaderboard").stdout.splitlines()[2].split()[:2] == ["facet", "50"]
    named = {"training_set": "all", "pairs": ["en-de", "en-es"], "languages": ["en", "de", "es"]}
    between = [{**cell, "evaluated_on": "de-es", "trained_on": name, "value": value}
               for name, value in {"en-de": 0.9, "all": 0.7}.items()]  # fmt: skip
    warehouse.build(metrics=metrics + between, training_sets=[named])
    for task, value in (("template_retrieval", "0.500"), ("crosslingual_retrieval", "0.700")):
        assert asked(warehouse, task, command="leaderboard").stdout.splitlines()[2].split()[:2] == ["facet", value]


def asked(warehouse, *arguments, command="sql"):
    return CliRunner().invoke(main, [command, *arguments], env={"DISENT_HOME": str(warehouse.path.parent)})


def test_a_query_may_begin_with_a_comment_and_unknown_options_are_refused(warehouse):
    warehouse.build(metrics=[{}])
    for comment in ("-- how many rows", "--how many rows", "--"):
        shown = asked(warehouse, f"{comment}\nselect count(*) as rows from metrics", "--format", "csv")
        assert (shown.exit_code, shown.stdout) == (0, "rows\n1\n"), shown.output
    shown = asked(warehouse, "select 1", "--fromat", "csv")
    assert (shown.exit_code, "'--fromat'" in shown.output) == (2, True)


def test_paraphrase_figures_of_a_pair_come_from_its_bitext(warehouse):
    raw = {"method": "raw", "trained_on": "", "embedding": "sentence", "value": 0.5, "ci_low": None, "ci_high": None}
    pairs = [raw | {"evaluated_on": f"en-{language}"} for language in ("de", "ja")]
    paraphrases = {"task": "paraphrase_retrieval", "dataset": "bitext", "evaluated_on": "en"}
    values = {"en-de": 0.1, "en-ja": 0.9}
    named = [raw | paraphrases | {"settings": f'{{"pair": "{pair}"}}', "value": values[pair]} for pair in values]
    warehouse.build(metrics=pairs + named)
    shown = json.loads(asked(warehouse, "measures.sql", "--format", "json").stdout)
    assert {row["pair"]: float(row["paraphrases, en"][:5]) for row in shown} == values


def test_sql_files_are_found_in_the_working_folder_then_in_the_docs(warehouse, tmp_path, monkeypatch):
    warehouse.build(metrics=[{"method": "mine", "encoder": "tiny", "dataset": "ours"}])
    monkeypatch.chdir(tmp_path)
    for name in ("docs/facet.sql", "docs/headline.sql", "facet.sql"):
        shown = asked(warehouse, name, "--format", "csv")
        assert shown.exit_code == 0, shown.output
        assert shown.stdout.startswith("encoder,")
        assert "data sets ours; encoders tiny; methods mine" in shown.stderr
    (tmp_path / "facet.sql").write_text("select 7 as own", encoding="utf-8")
    assert asked(warehouse, "facet.sql", "--format", "csv").stdout == "own\n7\n"
    shown = asked(warehouse, "docs/fasset.sql")
    assert (shown.exit_code, shown.stderr.count("\n")) == (2, 1)
    assert all(part in shown.stderr for part in ("docs/fasset.sql", str(tmp_path), "docs/facet.sql, docs/headline.sql"))


def test_a_warehouse_of_another_version_is_refused_with_the_command_that_makes_it_again(warehouse):
    warehouse.build(metrics=[{}])
    warehouse.path.with_suffix(".json").write_text('{"sql": "of another version"}')
    for command in ("leaderboard", "costs", "diff"):
        shown = asked(warehouse, command=command)
        assert (shown.exit_code, "disent materialize warehouse" in shown.output) == (1, True)
