"""Two simultaneous runs on the same partitions make nothing twice, and no error of a lock appears."""

import os
import subprocess
import sys

import pytest
from projects import Project, counts

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
    outputs = [run.communicate(timeout=500) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    summaries = [counts(out) for out, _ in outputs]
    assert sum(summary["steps"] for summary in summaries) == story.first["steps"]
    assert sum(summary["encoded"] for summary in summaries) == story.first["encoded"]
    assert fresh.weights() == story.project.weights()
    assert not [line for _, err in outputs for line in err.splitlines() if "locked" in line or "Traceback" in line]
