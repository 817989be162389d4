"""What a benchmark says about memory is that of its own process and of the measured work."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from bench.memory import forget_peak, peak_gigabytes


def beyond(megabytes):
    forget_peak()
    before = peak_gigabytes()
    np.ones(megabytes << 17)
    return before, peak_gigabytes() - before


def test_work_in_a_process_has_its_own_peak_and_not_that_of_the_process_that_started_it():
    np.ones(1_000 << 17)  # 1 GB, which is free again
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        before, found = workers.submit(beyond, 200).result()
    assert before < 0.5
    assert 0.2 < found < 0.3


def test_a_smaller_piece_of_work_after_a_larger_one_has_the_smaller_peak():
    large, small = beyond(300)[1], beyond(50)[1]
    assert small < large / 3
