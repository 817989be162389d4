"""The signature of a configuration, which says whether a running process has to load it again."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from disent_core.config.load import load_config
from disent_core.config.model import signature

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def config():
    return load_config(ROOT / "disent.toml")


def test_the_signature_of_equal_configurations_is_the_same_whatever_the_order_of_sets(config):
    one, other = copy(config), copy(config)
    for changed, items in ((one, [0, 8]), (other, [8, 0])):  # they have one place, so the first has it
        object.__setattr__(changed, "negatives", frozenset(items))
    assert (one == other, repr(one) == repr(other)) == (True, False)
    assert signature(one) == signature(other)


@pytest.mark.parametrize(
    "change",
    [
        lambda config: {"experiment": replace(config.experiment, seeds=(7,))},
        lambda config: {"corpora": config.corpora[:1]},
        lambda config: {"methods": {name: config.methods[name] for name in list(config.methods)[1:]}},
        lambda config: {"encoders": {"another": next(iter(config.encoders.values()))}},
        lambda config: {"path": Path("another.toml")},
    ],
)
def test_the_signature_changes_with_every_part_of_the_configuration(config, change):
    assert signature(replace(config, **change(config))) != signature(config)
