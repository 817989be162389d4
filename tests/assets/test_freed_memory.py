"""Memory that a step frees is there for what it allocates next, and is handed back when the step ends."""

import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext

import dagster as dg
import pytest
from toy_steps import toy_step

from bench.measuring import forget_peak, peak_gigabytes
from disent_assets.lineage import factory
from disent_assets.run import step
from disent_assets.run.step import freed_memory_kept

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc")


def measured(kept):
    """Pages that 50 batches of four matrices map, and gigabytes that are left when they end."""
    forget_peak()
    before = peak_gigabytes()
    with freed_memory_kept() if kept else nullcontext():
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(50):
            [bytearray(b"1") * 6_000_000 for _ in range(4)]
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    forget_peak()
    return faults, peak_gigabytes() - before


def test_pages_of_freed_memory_are_mapped_once_and_handed_back_at_the_end():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        (again, _), (kept, left) = workers.map(measured, (False, True))
    assert kept < again / 10
    assert left < 0.01


def test_without_glibc_a_step_runs_unchanged(monkeypatch):
    monkeypatch.setattr(step.sys, "platform", "darwin")
    with freed_memory_kept():
        ran = True
    assert ran


def test_a_step_keeps_the_memory_that_it_frees(monkeypatch):
    inside = []
    monkeypatch.setattr(factory, "freed_memory_kept", lambda: inside.append("kept") or nullcontext())
    step = factory.step_asset(toy_step())
    assert dg.materialize([step]).success
    assert inside == ["kept"]
