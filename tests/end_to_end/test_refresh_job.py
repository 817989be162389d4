"""One refresh: it makes what is stale or missing, and nothing else."""

import dagster as dg
import pytest
from projects import Project

from disent_assets.definitions import build
from disent_assets.lineage.refresh import NUMBER, STEP, automated
from disent_assets.settings.environment import RunSettings
from disent_assets.settings.instance import open_instance
from disent_assets.warehouse.sql_files import OF_STATES

pytestmark = pytest.mark.end_to_end

Made = list[tuple[str, str | None]]
MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION


def refresh(project: Project, *, everything: bool = False, workers: int = 1) -> tuple[dg.ExecuteInProcessResult, Made]:
    """Run the job in this process; what it came to, and the assets and partitions that it reported."""
    settings = RunSettings("in_process", workers=workers)
    job = automated(build, project.workspace, settings).get_job_def("refresh")
    config = {"ops": {STEP: {"config": {"everything": everything}}}}
    with open_instance(project.home) as instance:
        result = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
        entries = instance.all_logs(result.run_id, of_type=MATERIALIZED)
    made = [entry.asset_materialization for entry in entries if entry.asset_materialization]
    return result, [(event.asset_key.to_user_string(), event.partition) for event in made]


def failure_of(result: dg.ExecuteInProcessResult) -> dg.Failure:
    (failure,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    return failure.step_failure_data.user_failure_data


def number_of(project: Project, result: dg.ExecuteInProcessResult) -> str | None:
    """The number of the refresh by which the UI finds a run."""
    with open_instance(project.home) as instance:
        run = instance.get_run_by_id(result.run_id)
    assert run
    return run.tags.get(NUMBER)


def are_current(project: Project) -> set[bool]:
    """What the pages of the warehouse and of its relations with figures show: whether these are current."""
    pages = ("database", "main/metrics", "main/best", "main/leaderboard", "main/headline")
    keys = [dg.AssetCheckKey(dg.AssetKey(["warehouse", *page.split("/")]), OF_STATES) for page in pages]
    with open_instance(project.home) as instance:
        known = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {known[key].evaluation.passed for key in keys}


def words(project: Project) -> set[str]:
    return {row["text"].split(" ")[0] for row in project.ask("select text from corpora.utterances")}


def test_an_edit_reaches_the_warehouse_even_if_another_language_fails_and_its_pages_warn_until_that_is_mended(copied):
    intact = copied.file("ja-JP").read_bytes()
    copied.file("ja-JP").write_text("{broken\n", encoding="utf-8")
    copied.change_word("de-DE", split="test")
    result, made = refresh(copied, workers=2)
    failure = failure_of(result)
    assert "ja-JP.jsonl:1: " in failure.description
    (listed,) = failure.metadata["failed"].value
    assert (listed["step"], listed["partition"]) == ("corpora/utterances [ja]", "ja")
    assert ("evaluation/tiny/dream_metrics", "en-de") in made
    assert {partition for _, partition in made} == {"de", "en-de", None}
    assert len(made) == len(set(made))
    assert "unvergleichlich" in words(copied)
    assert are_current(copied) == {False}  # Japanese figures may be old
    (newest,) = copied.ask("select max(refresh) as number from runs")
    assert number_of(copied, result) == str(newest["number"])
    copied.file("ja-JP").write_bytes(intact)
    assert refresh(copied)[0].success
    assert are_current(copied) == {True}
    again, made = refresh(copied)
    assert (made, number_of(copied, again)) == ([], None)


def test_an_unreadable_file_is_reported_and_keeps_results(copied):
    copied.file("de-DE").unlink()
    before = copied.computed()
    for everything in (False, True):
        result, made = refresh(copied, everything=everything)
        assert "de-DE" in failure_of(result).description
        assert ("warehouse/database", None) not in made
    assert copied.computed() == before
    assert "failed  corpora/utterances [de]" in copied.disent("status").stdout


def test_a_full_refresh_rebuilds_only_a_deleted_file(copied):
    before = copied.results()
    lost = copied.home / "tables" / "targets" / "aligned_pairs" / "en-de.parquet"
    lost.unlink()
    result, made = refresh(copied, everything=True)
    assert result.success
    manifest = lost.name + ".manifest"
    after = copied.results()
    assert {path for path in after if after[path] != before.get(path)} <= {f"tables/targets/aligned_pairs/{manifest}"}
    assert set(after) == set(before)
    assert ("warehouse/database", None) in made  # the freshness policy counts from there
