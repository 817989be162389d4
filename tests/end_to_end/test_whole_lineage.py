"""The results of a first run, which is one run in Dagster; a second run has nothing to do."""

import re
import shutil
from collections import Counter

import dagster as dg
import pytest
from projects import Events, rows

import disent
from disent_assets.lineage.refresh import COMMAND
from disent_assets.run.dagster_private import ORIGIN
from disent_core.evaluation.contract import TASKS, task
from disent_core.lineage.evaluation import problems_of
from disent_core.lineage.evaluation_inputs import Scopes
from disent_core.lineage.head_spec import CONVERGED

pytestmark = pytest.mark.end_to_end

GATES = 2 * 2
"""Partitions of the assets that make nothing: one for heads and one for metrics, for each of two pairs."""


@pytest.fixture(scope="module")
def events(finished) -> Events:
    with finished.events() as events:
        yield events


# --- a first run ------------------------------------------------------------------------------------------


def test_every_partition_is_missing_before_a_run_and_fresh_after(story):
    count = story.first["made"] + GATES
    assert story.first["up_to_date"] == GATES
    assert story.status_before.splitlines()[-2].startswith(f"0 fresh, 0 stale, {count} missing")
    assert "missing evaluation/tiny/fmda_softmax_metrics [en-ja]" in story.status_before
    assert story.status_after == f"{count} fresh, 0 stale, 0 missing\n"


def test_a_run_records_the_states_of_all_assets_and_begins_the_history_with_its_numbers(finished):
    assert finished.ask("select state, waits, count(*) > 20 as many from asset_state group by all") == [
        {"state": "fresh", "waits": False, "many": True}
    ]
    assert finished.ask("from metrics where is_stale") == []
    (run,) = finished.ask("from runs")
    (numbers,) = finished.ask("select count(*) as n from metrics").pop().values()
    assert (run["new_count"], run["changed_count"], run["ended_count"]) == (numbers, 0, 0)
    unknown = "select method from history.metrics where code is null or data is null or vectors is null"
    assert finished.ask(unknown) == []


def test_the_leaderboard_shows_ranked_rows_and_with_all_every_row(finished):
    brief, everything = (
        finished.disent("leaderboard", "template_retrieval", *more).stdout for more in ((), ("--all",))
    )
    assert "language" not in brief
    assert "leakage, lower is better" in everything
    assert len(everything.splitlines()) > len(brief.splitlines()) > 4


def test_the_leaderboard_fits_one_screen_and_suggests_commands(finished):
    lines = finished.disent("leaderboard").stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    titles = [line.partition(":")[0] for line in lines if " on tiny, n " in line]
    assert titles == ["crosslingual_retrieval", "template_retrieval"]
    assert sum(line.startswith("    disent ") for line in lines) == 5
    head = lines[-2].split()[5]
    assert lines[-3].startswith(f"Use {head}, the best trained head in crosslingual_retrieval")
    assert disent.open(finished.config, home=finished.home).head(*re.split("[@:]", head)).encode("x").ndim == 1
    result = finished.disent("leaderboard", "template_retrieval", "--format", "csv")
    assert result.exit_code == 0
    assert {line.split(",")[0] for line in result.stdout.splitlines()[1:]} == {"template_retrieval"}


def test_the_leaderboard_of_a_task_without_results_explains_why(copied):
    result = copied.disent("leaderboard", "sts")
    assert result.exit_code == 1
    assert "there are no results for sts" in result.stderr
    assert "the tasks with results are clustering, crosslingual_retrieval, " in result.stderr
    copied.configure("[evaluation]", '[evaluation]\ntasks = ["crosslingual_retrieval"]')
    result = copied.disent("leaderboard", "sts")
    assert result.exit_code == 1
    assert "sts is not among the tasks of this configuration" in result.stderr


def test_every_method_embedding_and_task_is_on_the_leaderboard(finished):
    actual = {(row["method"], row["embedding"]) for row in finished.ask("select * from leaderboard")}
    expected = {
        (config.name, embedding)
        for config in finished.workspace.config.methods_of("tiny")
        for embedding in config.method.embeddings
    }
    assert actual == expected
    assert len(actual) == 1 + 2 + 4 + 4
    actual = {(row["task"], row["evaluated_on"]) for row in finished.ask("select * from leaderboard")}
    pairs = {("crosslingual_retrieval", pair) for pair in ("en-de", "de-en", "en-ja", "ja-en")}
    assert actual >= pairs | {("template_retrieval", language) for language in ("en", "de", "ja")}
    assert {name for name, _ in actual} <= set(TASKS)


def test_the_warehouse_has_just_the_metric_rows_of_the_files(finished):
    files = (finished.home / "tables" / "evaluation" / "metrics").rglob("*.parquet")
    in_utc = "select * replace (created_at::timestamptz as created_at) from measurements"
    written = Counter(tuple(sorted(row.items(), key=str)) for path in files for row in rows(path))
    loaded = Counter(tuple(sorted(row.items(), key=str)) for row in finished.ask(in_utc))
    assert loaded == written
    assert sum(written.values()) > 300


def test_a_mixture_measures_untrained_methods_only_on_new_scopes(copied):
    copied.configure('pairs = ["en-de", "en-ja"]', 'pairs = ["en-de", "en-de+en-ja"]')
    tasks = [task(name) for name in ("crosslingual_retrieval", "template_retrieval")]
    config = copied.workspace.config
    scopes = Scopes(config).of(config.methods["raw"], "en-de+en-ja")
    remaining = problems_of(copied.workspace, tasks, scopes)
    assert {problem.evaluated_on for problem in remaining} == {"en-ja", "ja-en", "ja"}


def test_every_seed_has_rows_of_its_own_and_an_aggregate(finished):
    counts = finished.ask("select seed, count(*) as n from metrics where method = 'dream' group by seed")
    assert {row["seed"] for row in counts} == {None, 0, 1}
    assert len({row["n"] for row in counts}) == 1


# --- what Dagster shows -----------------------------------------------------------------------------------


def test_no_error_check_fails_and_every_pair_has_its_checks(events):
    checks = [event.asset_check_evaluation_data for event in events.of(dg.DagsterEventType.ASSET_CHECK_EVALUATION)]
    must = [check for check in checks if check.severity == dg.AssetCheckSeverity.ERROR]
    assert [(check.asset_key, check.check_name) for check in must if not check.passed] == []
    assert len(must) >= 20


def test_training_improved_by_its_last_epoch_counts_as_cut_short(events, finished):
    checks = [event.asset_check_evaluation_data for event in events.of(dg.DagsterEventType.ASSET_CHECK_EVALUATION)]
    of_heads = [check for check in checks if check.check_name == CONVERGED.name and check.asset_key.path[0] == "heads"]
    converged = {(check.asset_key.path[-1].removesuffix("_head"), check.partition): check.passed for check in of_heads}
    assert {*converged} == {(name, pair) for name in ("dream", "fmda", "fmda_softmax") for pair in ("en-de", "en-ja")}
    for (name, pair), passed in converged.items():
        curve = rows(finished.home / "tables" / "heads" / "training_curve" / "tiny" / name / f"{pair}.parquet")
        end = max(row["epoch"] for row in curve)
        assert passed == (not any(row["is_best"] for row in curve if row["epoch"] == end))
    trainings = finished.ask("select method, trained_on, converged from heads.trainings where converged is not null")
    assert {(row["method"], row["trained_on"]): row["converged"] for row in trainings} == converged


def test_every_table_tells_its_rows_which_are_counted_and_whether_it_was_recomputed(events, finished):
    odd = [
        asset
        for asset, partition, metadata in events.metadata()
        if not asset.endswith(("_training_data", "_evaluation_sets"))
        if asset == "warehouse/database"
        or not asset.startswith("warehouse/")  # relations: tests/assets/test_relations.py
        if "recomputed" not in metadata or (partition is not None and "dagster/partition_row_count" not in metadata)
    ]
    assert odd == []
    counts = {
        (asset, partition): metadata["dagster/partition_row_count"]
        for asset, partition, metadata in events.metadata()
        if partition and "dagster/partition_row_count" in metadata
    }
    for language in ("en", "de", "ja"):
        path = finished.home / "tables" / "corpora" / "utterances" / "sample" / f"{language}.parquet"
        assert counts["corpora/utterances", language] == len(rows(path)) == 120
    for pair in ("en-de", "en-ja"):
        path = finished.home / "tables" / "evaluation" / "metrics" / "tiny" / "fmda" / f"{pair}.parquet"
        assert counts["evaluation/tiny/fmda_metrics", pair] == len(rows(path))


def test_every_head_shows_its_curve_and_its_clouds_and_tells_how_to_search_with_it(events):
    heads = [metadata for asset, _, metadata in events.metadata() if asset.endswith("_head")]
    assert all({"training_curve", "pca"} <= metadata.keys() for metadata in heads)
    arguments = {metadata["search"].split(" --head ")[1] for metadata in heads}
    names = [f"{method}@tiny:{pair}" for method in ("dream", "fmda", "fmda_softmax") for pair in ("en-de", "en-ja")]
    assert arguments == {f"{name} && disent serve INDEX" for name in names}


def test_figures_that_are_plotted_have_the_same_name_for_every_pair(events):
    plotted = {
        frozenset(name for name, value in metadata.items() if isinstance(value, float))
        for asset, _, metadata in events.metadata()
        if asset == "evaluation/tiny/dream_metrics"
    }
    retrieval = {"accuracy_at_1", "accuracy_at_1_reverse", "leakage", "language_in_meaning"}
    cost = {"seconds", "processor_seconds"}
    assert plotted == {frozenset({*cost, *retrieval, "template_accuracy_at_1", "template_map"})}


def test_the_metrics_summary_has_one_number_per_measured_combination(finished, events):
    pairs = [metadata for asset, _, metadata in events.metadata() if asset == "evaluation/tiny/dream_metrics"]
    measured = "select count(distinct (task, dataset, trained_on, evaluated_on)) as n from metrics"
    [expected] = finished.ask(f"{measured} where method = 'dream'")
    assert sum(len(of_pair["by_task"].records) for of_pair in pairs) == expected["n"]


def test_the_log_of_the_run_says_what_every_step_made(events):
    lines = [entry.user_message for entry in events.all() if entry.dagster_event is None]
    assert any(line.startswith("heads/tiny/dream_head [en-de]: made in ") for line in lines)


# --- a second run -----------------------------------------------------------------------------------------


def test_a_second_run_makes_nothing_and_changes_no_file(story):
    assert story.second == {"made": 0, "up_to_date": story.first["made"] + GATES, "encoded": 0, "steps": 0}
    assert story.results_after_second == story.results


def test_results_that_are_moved_stay_fresh_and_lost_state_of_dagster_costs_no_computation(story, copied):
    assert copied.disent("status").stdout == story.status_after
    shutil.rmtree(copied.home / "dagster")
    assert copied.materialize() == story.second
    assert copied.results() == story.results


# --- asking -----------------------------------------------------------------------------------------------


def test_a_command_is_one_run_with_the_origin_of_the_code_location_and_its_steps_in_its_log(copied):
    copied.materialize("corpora")
    with copied.events() as events:
        run, *_ = events.instance.get_runs()
        lines = [entry.user_message for entry in events.instance.all_logs(run.run_id) if entry.dagster_event is None]
        by_command = events.instance.get_runs(dg.RunsFilter(tags={COMMAND: "disent materialize corpora"}))
    assert len(by_command) == 1
    assert run.remote_job_origin is not None
    assert run.remote_job_origin.repository_origin == ORIGIN
    assert any("steps" in line and "left" in line for line in lines)
    assert any(line.startswith("up to date: corpora/utterances [") for line in lines)
