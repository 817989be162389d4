"""The seconds of a run that are recorded in docs/seconds.json, from which later runs tell how long they take."""

from tools import results_run
from tools.results_run import ship_seconds, shipped_seconds


def test_a_home_with_some_steps_keeps_the_recorded_seconds_of_the_others(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(results_run, "load_config", lambda path: path)
    monkeypatch.setattr(results_run, "Workspace", lambda config, home: home)
    for name, seconds in (("whole", {"dream": 60.0, "facet": 90.0, "raw": 5.0}), ("part", {"facet": 80.0, "raw": 0.4})):
        monkeypatch.setattr(results_run, "recorded_seconds", lambda *_, seconds=seconds: seconds)
        (tmp_path / name).mkdir()
        ship_seconds(tmp_path, {"a.toml": tmp_path / name})
    assert shipped_seconds(tmp_path) == {"a.toml": {"dream": 60, "facet": 80}}
