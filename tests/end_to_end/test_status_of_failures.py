"""What `disent status` says of partitions whose last run has failed."""

import re

import duckdb
import pytest
from projects import Project

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def failed(finished, tmp_path_factory):
    """A broken line more in the corpus of one language, and a run of everything."""
    project = finished.copy(tmp_path_factory.mktemp("failed"))
    first, rest = project.file("de-DE").read_text(encoding="utf-8").split("\n", 1)
    project.file("de-DE").write_text(f"{first}\n{{broken\n{rest}", encoding="utf-8")
    assert project.disent("materialize").exit_code == 1
    return project, project.disent("status").stdout


def test_status_names_only_the_failed_partition_with_its_error(failed):
    _, status = failed
    assert re.search(r"^failed  corpora/utterances \[de\]  <- .*de-DE\.jsonl:2: ", status, re.MULTILINE)
    assert status.count("failed  ") == 1
    assert ", 1 failed\n" in status


def seen(project: Project) -> tuple[list[tuple], list[tuple]]:
    """States that are not fresh, and the rows of stale numbers: in the file, as any program opens it."""
    with duckdb.connect(str(project.home / "warehouse.duckdb"), read_only=True) as program:
        states = program.execute("select asset, partition, state from asset_state where state != 'fresh' or waits")
        return states.fetchall(), program.execute(STALE).fetchall()


STALE = """
select method, trained_on, why_stale, count(*) as numbers from metrics where is_stale
group by all order by method, trained_on"""


def test_a_run_without_failures_records_every_state_as_fresh(finished):
    assert seen(finished) == ([], [])
    assert finished.ask("select count(*) as n from asset_state")[0]["n"] > 30


def test_the_warehouse_of_a_failed_run_has_the_stale_numbers_of_disent_sql(failed):
    project, _ = failed
    states, stale = seen(project)
    assert ("corpora/utterances", "de", "failed") in states
    assert {(method, trained_on) for method, trained_on, *_ in stale} >= {("dream", "en-de"), ("raw", "")}
    assert stale == [tuple(row.values()) for row in project.ask(STALE)]


def test_a_run_without_warehouse_build_still_records_its_states(failed):
    project, _ = failed
    project.configure("max_epochs = 6", "max_epochs = 5")
    project.disent("materialize", "group:heads_tiny", "--partition", "en-ja")
    states, stale = seen(project)
    assert ("evaluation/tiny/dream_metrics", "en-ja", "stale") in states
    assert ("dream", "en-ja") in {(method, trained_on) for method, trained_on, *_ in stale}
    project.configure("max_epochs = 5", "max_epochs = 6")


def test_the_error_of_a_corrected_file_is_not_shown(failed):
    project, before = failed
    broken = project.file("de-DE").read_text(encoding="utf-8")
    rows = [line for line in broken.splitlines(keepends=True) if line != "{broken\n"]
    project.file("de-DE").write_text("".join(rows[1:]), encoding="utf-8")
    status = project.disent("status").stdout
    project.file("de-DE").write_text(broken, encoding="utf-8")
    assert "failed" in before
    assert "failed" not in status
    assert "stale   corpora/utterances [de]  <- " in status


def test_nothing_is_failed_after_the_line_is_fixed(failed):
    project, _ = failed
    text = project.file("de-DE").read_text(encoding="utf-8")
    project.file("de-DE").write_text(text.replace("{broken\n", ""), encoding="utf-8")
    project.materialize("group:corpora", "--partition", "de")
    assert "failed" not in project.disent("status").stdout
