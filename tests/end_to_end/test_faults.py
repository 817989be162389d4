"""A few faults of each kind that `make faults` tries by the hundred."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

SCRIPT = Path(__file__).resolve().parents[2] / "harness" / "faults.py"


def test_a_lineage_that_was_killed_or_damaged_ends_as_an_undisturbed_one():
    chosen = ("--kills", "1", "--writes", "1", "--damages", "2", "--seed", "3")
    done = subprocess.run([sys.executable, str(SCRIPT), *chosen], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("every lineage ended as the undisturbed one\n")
