"""What a method's own table may say: its pairs, encoders and seeds, instead of the experiment's."""

import pytest

from disent_core.errors import ConfigError
from disent_core.training.needs import Need

GOOD = """\
[[corpora]]
name = "one"
format = "massive"
path = "corpora/one"
languages = ["en-US", "de-DE", "zh-TW"]

[[encoders]]
name = "toy"
kind = "scratch"

[experiment]
pairs = ["en-de", "en-zh"]
methods = ["raw", "dream"]

[methods.dream]
patience = 7
"""
OWN, PAIRS = "patience = 7", '["en-de", "en-zh"]'
TAGS = 'method = "token_classification"\n'
MISTAKES = {
    "key nearly right": ("patience", "patiense", "16: methods.dream.patiense",
        "unknown key; did you mean 'patience'?"),
    "own key nearly right": ("patience = 7", "encoder = []", "16: methods.dream.encoder", "did you mean 'encoders'?"),
    "section's key nearly right": ("[experiment]", "[experiment]\nmethod = []", "12: experiment.method",
        "did you mean 'methods'?"),
    "corpus's key nearly right": ("path =", "pth = 1\npath =", "4: corpora[0].pth", "did you mean 'path'?"),
    "section nearly right": ("[methods.dream]", "[negative]\n[methods.dream]", "15: negative", "mean 'negatives'?"),
    "key within a section nearly right": ("[methods.dream]", "[targets.template_pairs]\nsplit = []\n[methods.dream]",
        "16: targets.template_pairs.split", "did you mean 'splits'?"),
    "key like no other": ("patience", "zzz", "16: methods.dream.zzz", "zzz: unknown key"),
    "method nearly right": ('"raw"', '"rw"', "13: experiment.methods", "unknown method 'rw'; did you mean 'raw'?"),
    "unknown encoder": (OWN, 'encoders = ["x"]', "16: methods.dream.encoders", "no encoder 'x'; choose of toy"),
    "pair turned round": (PAIRS, '["en-de", "de-en"]', "12: experiment.pairs", "'de-en' is 'en-de' turned round"),
    "pair turned round in a mixture": (PAIRS, '["zh-en", "en-de+en-zh"]', "12: experiment.pairs",
        "write 'zh-en' here too"),
    "pair turned round by a method": (OWN, 'pairs = ["de-en"]', "16: methods.dream.pairs",
        "'de-en' is 'en-de' turned round, the same training; write 'en-de' here too"),
    "pair of another language in a method": (OWN, 'pairs = ["en-fr"]', "16: methods.dream.pairs",
        "'en-fr' is not a pair of two of the languages"),
    "no pairs": (OWN, "pairs = []", "16: methods.dream.pairs", "leave it out to take the experiment's"),
    "pair given twice": (OWN, 'pairs = ["en-de", "en-de"]', "16: methods.dream.pairs", "pairs must be distinct"),
    "no seeds": (OWN, "seeds = []", "16: methods.dream.seeds", "leave it out to take the experiment's"),
    "seed given twice": (OWN, "seeds = [1, 1]", "16: methods.dream.seeds", "seeds must be distinct"),
    "negative seed": (OWN, "seeds = [-1]", "16: methods.dream.seeds", "greater than or equal to 0 (found -1)"),
    "no encoders": (OWN, "encoders = []", "16: methods.dream.encoders", "leave it out to take all encoders"),
    "encoder given twice": (OWN, 'encoders = ["toy", "toy"]', "16: methods.dream.encoders",
        "encoders must be distinct"),
    "seeds where nothing is random": ("[methods.dream]", "[methods.raw]\nseeds = [0]\n[methods.dream]",
        "16: methods.raw.seeds", "nothing in raw is random; leave seeds out"),
    "corpora of a method that does not tag": (OWN, 'corpora = ["one"]', "16: methods.dream.corpora",
        "dream trains on all corpora that have train = true"),
    "unknown corpus": (OWN, f'{TAGS}corpora = ["on"]', "17: methods.dream.corpora", "'on'; did you mean 'one'?"),
    "no corpora": (OWN, f"{TAGS}corpora = []", "17: methods.dream.corpora", "leave it out to take all with train"),
    "corpora without a language": ("[[encoders]]",
        '[[corpora]]\nname = "two"\nformat = "conll"\npath = "corpora/one"\nlanguages = ["de"]\n\n'
        '[methods.tags]\nmethod = "token_classification"\ncorpora = ["two"]\n\n[[encoders]]',
        "15: methods.tags.corpora", "none of two has en, of 'en-de'; choose others, or set pairs in [methods.tags]"),
}  # fmt: skip


def test_a_mistake_of_a_method_is_shown_with_file_line_and_key(unexplained):
    assert unexplained(GOOD, MISTAKES) == []


def test_a_method_may_have_pairs_of_its_own_in_the_same_direction(load):
    config = load(GOOD.replace(OWN, 'pairs = ["en-de+en-zh", "de-zh"]\nseeds = [4]'))
    assert config.training_sets == ("en-de", "en-zh", "en-de+en-zh", "de-zh")
    assert config.seeds_of(config.methods["dream"]) == (4,)


IMPORTED = GOOD.replace('kind = "scratch"', 'kind = "vectors"\npath = "v"').replace('"dream"]', '"emu"]')


def test_a_method_is_known_by_its_former_name(load):
    for table in ("[methods.tuned]", '[methods.tuned]\nmethod = "tuned"'):
        text = GOOD.replace('"dream"]', '"tuned"]').replace("[methods.dream]\npatience = 7", f"{table}\nepochs = 1")
        tuned = load(text).methods["tuned"]
        assert (tuned.method.name, tuned.settings.epochs) == ("fine_tuned", 1)


def test_a_map_over_frozen_vectors_runs_on_imported_ones(load):
    config = load(IMPORTED.replace("[methods.dream]\npatience = 7", '[methods.emu]\npreset = "head"'))
    assert config.methods["emu"].needs == config.needs("toy") == {Need.UTTERANCES}


def test_a_method_on_an_encoder_that_lacks_what_it_needs_is_named_where_it_is_chosen(load):
    with pytest.raises(ConfigError) as caught:
        load(IMPORTED)
    assert ":14: experiment.methods: emu needs a model to tune, which encoder 'toy' does not" in str(caught.value)
    assert "no encoder of this file has it: add one, or leave emu out" in str(caught.value)


def test_encoders_that_a_method_could_run_on_are_named(load):
    more = '[[encoders]]\nname = "other"\nkind = "scratch"\n\n[experiment]'
    with pytest.raises(ConfigError, match=r'those that it runs on, encoders = \["other"\] in \[methods.emu\]'):
        load(IMPORTED.replace("[experiment]", more))
