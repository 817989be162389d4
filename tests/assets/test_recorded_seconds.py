"""The seconds of a run that are recorded in docs/seconds.json, from which later runs tell how long they take."""

from disent_assets.durations import write_seconds
from disent_assets.results_run import ship_seconds, shipped_seconds


def test_a_home_with_some_steps_keeps_the_recorded_seconds_of_the_others(tmp_path):
    (tmp_path / "docs").mkdir()
    for name, seconds in (("whole", {"dream": 60.0, "facet": 90.0, "raw": 5.0}), ("part", {"facet": 80.0, "raw": 0.4})):
        write_seconds(tmp_path / name, seconds)
        ship_seconds(tmp_path, {"a.toml": tmp_path / name})
    assert shipped_seconds(tmp_path) == {"a.toml": {"dream": 60, "facet": 80}}
