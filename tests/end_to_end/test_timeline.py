"""A command is one run, on the page Timeline, which shows runs of the code location only; its log has every step."""

import dagster as dg
import pytest

from disent_assets.lineage.refresh import COMMAND
from disent_assets.run.dagster_private import LOCATION, ORIGIN

pytestmark = pytest.mark.end_to_end


def test_a_command_is_one_run_with_the_origin_of_the_code_location_and_its_steps_in_its_log(copied):
    copied.materialize("corpora")
    with copied.events() as events:
        run, *_ = events.instance.get_runs()
        lines = [entry.user_message for entry in events.instance.all_logs(run.run_id) if entry.dagster_event is None]
        by_command = events.instance.get_runs(dg.RunsFilter(tags={COMMAND: "disent materialize corpora"}))
    assert len(by_command) == 1
    assert run.remote_job_origin is not None
    assert run.remote_job_origin.repository_origin == ORIGIN
    assert ORIGIN.code_location_origin.location_name == LOCATION
    assert any("steps" in line and "left" in line for line in lines)
    assert any(line.startswith("up to date: corpora/utterances [") for line in lines)
