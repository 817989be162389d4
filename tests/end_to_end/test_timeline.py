"""Runs of the command line are on the page Timeline, which shows runs of the code location only."""

import pytest

from disent_assets.run_step import COMMAND, LOCATION, ORIGIN

pytestmark = pytest.mark.end_to_end


def test_a_run_of_the_command_line_has_the_origin_of_the_code_location_and_its_command(finished):
    with finished.events() as events:
        runs = events.instance.get_runs()
    assert runs
    assert {run.remote_job_origin for run in runs} == {ORIGIN}
    assert ORIGIN.repository_origin.code_location_origin.location_name == LOCATION
    assert {run.tags[COMMAND] for run in runs} == {"disent materialize"}
