"""Two runs at once on the same partitions: nothing is made twice, and no lock shows."""

import os
import subprocess
import sys

import pytest
from conftest import Project, counts

pytestmark = pytest.mark.end_to_end

DISENT = "from disent_assets.cli import main; main()"


def start(project: Project) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", DISENT, "materialize"],
        env=os.environ | project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_runs_at_once_share_the_work_and_make_what_one_makes(fresh, story):
    runs = [start(fresh), start(fresh)]
    said = [run.communicate(timeout=500) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    made = [counts(out) for out, _ in said]
    assert sum(each["steps"] for each in made) == story.first["steps"]
    assert sum(each["encoded"] for each in made) == story.first["encoded"]
    assert fresh.weights() == story.project.weights()
    assert not [line for _, err in said for line in err.splitlines() if "locked" in line or "Traceback" in line]
