"""Tests which languages and pairs a method is measured on with each training set."""

import pytest
from worlds import corpus, encoder, experiment, section

from disent_core.lineage.evaluation_inputs import Scopes

TEXT = (
    corpus("one", languages=["en-US", "de-DE", "fr-FR", "it-IT"])
    + corpus("two", "tatoeba", pairs=["de-en", "it-en"])
    + encoder()
    + experiment("raw", "dream", pairs=["en-de", "de-fr", "de-fr+en-de"])
    + section("evaluation", unseen=False)
)


@pytest.fixture
def measured(load):
    config = load(TEXT)
    return lambda method: {
        training_set: [
            "-".join((scope.corpus, *scope.languages))
            for scope in Scopes(config).of(config.methods[method], training_set)
        ]
        for training_set in config.training_sets
    }


def test_a_trained_method_meets_what_each_training_set_has_and_an_untrained_one_each_scope_once(measured):
    assert measured("raw") == {
        "en-de": ["one-en-de", "one-en", "one-de", "two-de-en", "one-it", "two-it-en"],  # no training set has italian
        "de-fr": ["one-de-fr", "one-fr"],
        "de-fr+en-de": [],
    }
    assert measured("dream") == {
        "en-de": ["one-en-de", "one-en", "one-de", "two-de-en"],
        "de-fr": ["one-de-fr", "one-de", "one-fr"],
        "de-fr+en-de": ["one-de-fr", "one-en-de", "one-de", "one-fr", "one-en", "two-de-en"],
    }


def test_scopes_that_are_built_once_are_those_of_each_training_set(load):
    config = load(TEXT.replace("unseen = false", "unseen = true"))
    shared = Scopes(config)
    for method in config.methods.values():
        measured = {name: set() for name in config.training_sets}
        for scope, names in shared.measured(method):
            for name in names:
                measured[name].add(scope)
        for name in config.training_sets:
            assert shared.of(method, name) == Scopes(config).of(method, name)
            assert set(shared.of(method, name)) == measured[name]
