"""Which settings change a fingerprint, and that the costs of a training, stored beside its curve, do not change it."""

import time
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from disent_core.methods.dream import DreamConfig
from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.spec import TrainingCost, settings_fingerprint, training_cost
from disent_core.storage.tables import SCHEMAS, content_fingerprint, read_info, rows_table, write_table

CURVE = {"method": "dream", "encoder": "tiny", "trained_on": "en-de", "seed": 0, "epoch": 1, "split": "dev"}


def epoch(seconds, *, is_replayed=False):
    return SimpleNamespace(seconds=seconds, is_replayed=is_replayed)


@pytest.fixture
def measured(monkeypatch):
    """The cost of a call that takes 10 s and 8 processor seconds."""

    def measured(*epochs):
        clocks = {"monotonic": iter([100.0, 110.0]), "process_time": iter([5.0, 13.0])}
        for name, moments in clocks.items():
            monkeypatch.setattr(time, name, lambda moments=moments: next(moments))
        return training_cost((time.monotonic(), time.process_time()), epochs, "cpu")

    return measured


def test_the_training_cost_includes_epochs_before_a_kill(measured):
    cost = measured(epoch(4.0), epoch(4.0))
    assert (cost.seconds, cost.processor_seconds) == (10.0, 8.0)
    cost = measured(epoch(12.0, is_replayed=True), epoch(4.0))
    assert (cost.seconds, cost.processor_seconds) == (22.0, 8.0 * 4)
    assert measured(epoch(12.0, is_replayed=True)).processor_seconds is None


def test_a_curve_stores_its_cost_in_metadata(tmp_path):
    rows = rows_table([CURVE | {"term": "total", "value": 0.5, "is_best": True}], "training_curve")
    cost = TrainingCost(1.5, None, "a machine")
    info = write_table(tmp_path / "curve.parquet", cost.beside(rows), SCHEMAS["training_curve"], inputs="i")
    assert info.content_hash == content_fingerprint(rows)
    assert TrainingCost.of(read_info(tmp_path / "curve.parquet")) == cost
    rows = rows_table([], "training_curve")
    assert TrainingCost.of(write_table(tmp_path / "curve.parquet", rows, SCHEMAS["training_curve"], inputs="i")) is None


PAPER = DreamConfig(max_epochs=5)


def test_a_changed_setting_changes_the_fingerprint_and_the_interval_of_checkpoints_does_not():
    assert settings_fingerprint(replace(PAPER, max_epochs=6)) != settings_fingerprint(PAPER)
    assert settings_fingerprint(replace(PAPER, checkpoint_seconds=1.0)) == settings_fingerprint(PAPER)
    assert settings_fingerprint(DreamConfig()) != settings_fingerprint(FmdaConfig())


def test_a_new_setting_at_its_default_changes_only_user_method_fingerprints():
    def config(module, settings):
        body = {"__module__": module, "__annotations__": dict.fromkeys(settings, int), **settings}
        return dataclass(frozen=True, kw_only=True)(type("Config", (DreamConfig,), body))

    for module, is_other in (("disent_core.methods.rotation", False), ("my_package.rotation", True)):
        before, after = config(module, {}), config(module, {"switch": 0})
        is_changed = settings_fingerprint(after(max_epochs=5)) != settings_fingerprint(before(max_epochs=5))
        assert is_changed == is_other
        assert settings_fingerprint(after(switch=1)) != settings_fingerprint(after())
    of_user = [config("my_package.rotation", {"max_epochs": epochs})() for epochs in (2, 5)]
    assert settings_fingerprint(of_user[0]) != settings_fingerprint(of_user[1])
