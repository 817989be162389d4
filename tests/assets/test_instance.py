"""Several processes may open Dagster's state of a new home at once."""

import multiprocessing
from pathlib import Path

from disent_assets.instance import open_instance

PROCESSES = 4


def open_together(home: Path, barrier, opened) -> None:
    barrier.wait()
    with open_instance(home) as instance:
        opened.put(len(instance.get_runs()))


def test_processes_that_open_a_new_home_at_once_all_succeed(tmp_path):
    context = multiprocessing.get_context("forkserver")  # imports are done before the barrier
    context.set_forkserver_preload(["disent_assets.instance"])
    barrier, opened = context.Barrier(PROCESSES), context.Queue()
    processes = [context.Process(target=open_together, args=(tmp_path, barrier, opened)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert [opened.get(timeout=10) for _ in processes] == [0] * PROCESSES
