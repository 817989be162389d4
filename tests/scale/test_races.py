"""A short series of `races.py`; the long one is one of `scale_faults.py`."""

from races import race


def test_processes_that_publish_the_same_results_tear_none(address, tmp_path):
    assert race(address, tmp_path, publishes=120, writers=4, results=2) | {"replaced": 0} == {
        "published": 120,
        "torn": 0,
        "replaced": 0,
    }
