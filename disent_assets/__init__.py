"""The Dagster face of disent: one thin module per stage, no arithmetic."""

import os

# Read by OpenMP when torch is loaded. Threads that wait by spinning make small steps up to 30 times slower
# as soon as anything else runs on the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
