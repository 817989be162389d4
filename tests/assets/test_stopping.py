"""A command stops at a signal, whatever it does at that moment."""

import subprocess
import sys

SWALLOWS = """
import os, signal
from disent_assets.run.stopping import stoppable

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

with stoppable(lambda: print("stopped", flush=True)) as stop:
    Deleted()
    print("went on", flush=True)
    while True:
        stop.check()
"""


def test_a_signal_that_python_swallows_stops_a_command_and_prints_nothing():
    run = subprocess.run([sys.executable, "-c", SWALLOWS], capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (130, "went on\nstopped\n", "")
