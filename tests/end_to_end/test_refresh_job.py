"""The job that runs at night, and that a user starts by hand: it sees what no event tells."""

import dagster as dg
import pytest

from disent_assets.automation import automated
from disent_assets.definitions import build
from disent_assets.instance import open_instance

pytestmark = pytest.mark.end_to_end


def test_the_job_makes_a_deleted_file_again_and_nothing_else(copied, monkeypatch):
    for name, value in copied.environment.items():
        monkeypatch.setenv(name, value)
    before = copied.results()
    lost = copied.home / "tables" / "targets" / "aligned_pairs" / "en-de.parquet"
    lost.unlink()
    job = automated(build, copied.workspace, None).get_job_def("refresh")
    with open_instance(copied.home) as instance:
        result = job.execute_in_process(instance=instance)
    assert result.success
    manifest = lost.name + ".manifest"
    after = copied.results()
    assert {path for path in after if after[path] != before.get(path)} <= {f"tables/targets/aligned_pairs/{manifest}"}
    assert set(after) == set(before)


def test_the_job_fails_with_the_line_of_the_step_that_did(copied, monkeypatch):
    for name, value in copied.environment.items():
        monkeypatch.setenv(name, value)
    copied.file("de-DE").unlink()
    job = automated(build, copied.workspace, None).get_job_def("refresh")
    with open_instance(copied.home) as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    assert "de-DE" in failure.step_failure_data.user_failure_data.description
