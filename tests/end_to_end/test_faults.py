"""A few faults of each kind that `make faults` tries by the hundred."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

HARNESS = Path(__file__).resolve().parents[2] / "harness"


def test_a_killed_or_damaged_lineage_ends_like_an_undisturbed_one():
    chosen = ("--kills", "1", "--damages", "1", "--seed", "2", "--smallest")
    done = subprocess.run(
        [sys.executable, str(HARNESS / "faults.py"), *chosen], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("every lineage ended as the undisturbed one\n")


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="calls fail by a library in C")
def test_an_index_recovers_from_failing_system_calls():
    chosen = ("--commands", "index", "--places", "2", "--seed", "3")
    command = [sys.executable, str(HARNESS / "every_call.py"), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d\d faults: ended with one line \d+", done.stdout, re.MULTILINE), done.stdout
