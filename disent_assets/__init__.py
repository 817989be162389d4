"""What Dagster, DuckDB, the terminal and the browser see of disent; `disent_core` computes."""

import os
import time

# OpenMP reads it when torch is loaded. Threads that spin while they wait make small training steps up to 30 times
# slower as soon as anything else runs on the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

LOADED_AT = time.time_ns()
"""Nanoseconds since 1970: source files that are older are those that this process has loaded."""
