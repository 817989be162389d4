"""What makes a head's settings other settings."""

from dataclasses import dataclass, replace

from disent_core.methods.dream import DreamConfig
from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.spec import settings_fingerprint

PAPER = DreamConfig(max_epochs=5)


def test_a_changed_setting_changes_the_fingerprint():
    assert settings_fingerprint(replace(PAPER, max_epochs=6)) != settings_fingerprint(PAPER)


def test_how_often_a_checkpoint_is_written_does_not():
    assert settings_fingerprint(replace(PAPER, checkpoint_seconds=1.0)) == settings_fingerprint(PAPER)


def test_a_new_switch_at_its_default_does_not():
    @dataclass(frozen=True, kw_only=True)
    class Config(DreamConfig):
        pass

    @dataclass(frozen=True, kw_only=True)
    class WithSwitch(DreamConfig):
        switch: bool = False

    WithSwitch.__name__ = "Config"
    assert settings_fingerprint(WithSwitch(max_epochs=5)) == settings_fingerprint(Config(max_epochs=5))
    assert settings_fingerprint(WithSwitch(switch=True, max_epochs=5)) != settings_fingerprint(Config(max_epochs=5))


def test_equal_values_of_two_methods_differ():
    assert settings_fingerprint(DreamConfig()) != settings_fingerprint(FmdaConfig())
