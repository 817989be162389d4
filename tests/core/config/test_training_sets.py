"""Training sets with a name: which pairs they stand for, and what the configuration says about mistakes in them."""

import pytest

GOOD = """\
[[corpora]]
name = "one"
format = "massive"
path = "corpora/one"
languages = ["en-US", "de-DE", "es-ES", "zh-TW"]

[[corpora]]
name = "two"
format = "xsid"
path = "corpora/two"
languages = ["en", "it"]
train = false

[[encoders]]
name = "toy"
kind = "scratch"

[experiment]
pairs = ["all", "some"]
methods = ["raw", "dream"]

[training_sets.all]
evaluate = ["de-es", "es-zh"]

[training_sets.some]
pivot = "de"
languages = ["zh", "de", "es"]
"""
SOME = 'pivot = "de"\nlanguages = ["zh", "de", "es"]'
MISTAKES = {
    "unknown key": (SOME, 'pivots = "de"', "26: training_sets.some.pivots", "unknown key"),
    "no languages": (SOME, "languages = []", "26: training_sets.some.languages", "name at least one"),
    "unknown pivot": (SOME, 'pivot = "dee"', "26: training_sets.some.pivot", "'dee'; did you mean 'de'?; choose of en"),
    "unknown language": (SOME, 'languages = ["zh", "fr"]', "26: training_sets.some.languages",
        "no corpus has the language 'fr'"),
    "the pivot alone": (SOME, 'languages = ["en"]', "26: training_sets.some.languages", "no language but its pivot"),
    "a language without training data": (SOME, 'languages = ["it"]', "19: experiment.pairs",
        "no corpus has both languages of 'en-it' for training"),
    "name of a pair": ("[training_sets.some]", "[training_sets.en-de]", "25: training_sets.en-de",
        "'en-de' is a language or a pair of languages already; choose another name"),
    "name of a language": ("[training_sets.some]", "[training_sets.es]", "25: training_sets.es",
        "'es' is a language or a pair"),
    "name of a mixture": ("[training_sets.some]", '[training_sets."some+more"]', "25: training_sets.some+more",
        "leave + out of the name"),
    "name that is no part of a path": ("[training_sets.some]", '[training_sets."a/b"]', "25: training_sets.a/b",
        "can't be part of a path"),
    "names that are one folder on some disks": ("[training_sets.some]", "[training_sets.ALL]", "25: training_sets.ALL",
        "'ALL' and 'all' differ in case only"),
    "unknown set": ('["all", "some"]', '["al", "some"]', "19: experiment.pairs",
        "no set of [training_sets]: all, some"),
    "pair with a language of another set": (SOME, f'{SOME}\nevaluate = ["en-de"]', "28: training_sets.some.evaluate",
        "'en-de' is not a pair of two of the languages de, zh, es, which are those of 'some'"),
    "pair that is trained on": (SOME, f'{SOME}\nevaluate = ["es-de"]', "28: training_sets.some.evaluate",
        "measured on 'es-de' anyway; leave it out"),
    "pair that is measured already": ('["de-es", "es-zh"]', '["de-es", "es-de"]', "23: training_sets.all.evaluate",
        "measured on 'es-de' anyway"),
    "language instead of a pair": ('["de-es", "es-zh"]', '["de"]', "23: training_sets.all.evaluate",
        "measured on 'de' anyway"),
    "pair turned round by a set": ('["de-es", "es-zh"]', '["es-de"]', "19: experiment.pairs",
        "'de-es', of 'some', is 'es-de' turned round", "turn 'es-de' round elsewhere"),
}  # fmt: skip


def test_a_mistake_of_a_training_set_is_shown_with_file_line_and_key(unexplained):
    assert unexplained(GOOD, MISTAKES) == []


def test_a_set_stands_for_the_pairs_of_its_pivot_by_default_the_first_language_with_all_that_heads_train_on(load):
    config = load(GOOD)
    assert config.training_sets == ("all", "some")
    assert config.pair_languages["all"] == (("en", "de"), ("en", "es"), ("en", "zh"))
    assert config.pair_languages["some"] == (("de", "zh"), ("de", "es"))
    assert config.evaluated_pairs["all"] == (*config.pair_languages["all"], ("de", "es"), ("es", "zh"))
    assert config.languages_of("some") == ("de", "zh", "es")


@pytest.mark.parametrize("name", ["all", "en-de", "en-de+en-es"])
def test_only_a_name_that_does_not_have_its_pairs_has_a_meaning_to_look_up(load, name):
    config = load(GOOD.replace('["all", "some"]', f'["{name}"]'))
    assert config.meaning_of(config.training_sets) == ({"all": config.evaluated_pairs["all"]} if name == "all" else {})
    assert config.is_mixture(name) is (name != "en-de")
