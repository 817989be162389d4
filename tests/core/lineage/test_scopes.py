"""Tests which languages and pairs a method is measured on with each training set."""

from dataclasses import replace

import pytest
from worlds import corpus, encoder, experiment, section

from disent_core.evaluation import TASKS, task
from disent_core.lineage.evaluation_inputs import Scope, Scopes

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
        "de-fr+en-de": ["one-de-en-fr"],
    }
    assert measured("dream") == {
        "en-de": ["one-en-de", "one-en", "one-de", "two-de-en"],
        "de-fr": ["one-de-fr", "one-de", "one-fr"],
        "de-fr+en-de": ["one-de-fr", "one-en-de", "one-de", "one-fr", "one-en", "one-de-en-fr", "two-de-en"],
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


NAMED = TEXT.replace('"de-fr+en-de"', '"all"') + section(
    "training_sets.all", languages=["de", "fr"], evaluate=["de-fr"]
)


def test_a_named_set_has_the_pairs_of_its_pivot_then_the_further_ones_and_its_languages_together(load):
    config = load(NAMED)
    found = ["-".join((scope.corpus, *scope.languages)) for scope in Scopes(config).of(config.methods["dream"], "all")]
    pairs, languages = ["one-en-de", "one-en-fr", "one-de-fr"], ["one-en", "one-de", "one-fr"]
    assert found == [*pairs, *languages, "one-de-en-fr", "two-de-en"]


def test_only_tasks_of_sets_are_for_three_languages_and_for_nothing_else():
    tasks = [task(name) for name in TASKS]
    several, pair = (Scope("one", "utterances", "all", languages) for languages in (("de", "en", "fr"), ("de", "en")))
    of_sentences = replace(pair, is_of_sentence_pairs=True)
    assert [of.name for of in tasks if several.has(of)] == ["language_pool_retrieval"]
    assert not any(scope.has(task("language_pool_retrieval")) for scope in (pair, of_sentences))
