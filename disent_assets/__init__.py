"""The parts of disent that Dagster, DuckDB, the terminal and the browser see; `disent_core` does the computing."""

import os
import time

# OpenMP reads it when torch is loaded. Threads that spin while they wait make small training steps up to 30 times
# slower as soon as anything else runs on the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

LOADED_AT = time.time_ns()
"""Nanoseconds since 1970; source files older than this are the ones that this process has loaded."""
