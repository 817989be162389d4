"""What methods, distilled encoders and named training sets may say; a mistake is one line with file, line and key."""

import pytest
from worlds import corpus, encoder, experiment, section

from disent_core.errors import ConfigError
from disent_core.training.needs import Need

OF_METHODS = (
    corpus("one", path="corpora/one", languages=["en-US", "de-DE", "zh-TW"])
    + encoder()
    + experiment("raw", "dream", pairs=["en-de", "en-zh"])
    + section("methods.dream", patience=7)
).lstrip()
KEY, PAIRS = "patience = 7", '["en-de", "en-zh"]'
TAGS = 'method = "token_classification"\n'
METHOD_MISTAKES = {
    "key nearly right": ("patience", "patiense", "16: methods.dream.patiense",
        "unknown key (did you mean 'patience'?)"),
    "own key nearly right": ("patience = 7", "encoder = []", "16: methods.dream.encoder", "did you mean 'encoders'?"),
    "section nearly right": ("[methods.dream]", "[negative]\n[methods.dream]", "15: negative", "mean 'negatives'?"),
    "key like no other": ("patience", "zzz", "16: methods.dream.zzz", "zzz: unknown key"),
    "unknown encoder": (KEY, 'encoders = ["x"]', "16: methods.dream.encoders", "no encoder 'x'; choose one of toy"),
    "pair reversed": (PAIRS, '["en-de", "de-en"]', "12: experiment.pairs", "'de-en' is 'en-de' reversed"),
    "pair reversed in a mixture": (PAIRS, '["zh-en", "en-de+en-zh"]', "12: experiment.pairs",
        "write 'zh-en' here too"),
    "pair reversed by a method": (KEY, 'pairs = ["de-en"]', "16: methods.dream.pairs",
        "'de-en' is 'en-de' reversed, which is the same training; write 'en-de' here too"),
    "no pairs": (KEY, "pairs = []", "16: methods.dream.pairs", "leave it out to use the experiment's"),
    "pair given twice": (KEY, 'pairs = ["en-de", "en-de"]', "16: methods.dream.pairs", "pairs must be distinct"),
    "negative seed": (KEY, "seeds = [-1]", "16: methods.dream.seeds", "greater than or equal to 0 (found -1)"),
    "no encoders": (KEY, "encoders = []", "16: methods.dream.encoders", "leave it out to use all encoders"),
    "seeds where nothing is random": ("[methods.dream]", "[methods.raw]\nseeds = [0]\n[methods.dream]",
        "16: methods.raw.seeds", "nothing in raw is random; leave seeds out"),
    "corpora of a method that does not tag": (KEY, 'corpora = ["one"]', "16: methods.dream.corpora",
        "dream trains on all corpora that have train = true"),
    "unknown corpus": (KEY, f'{TAGS}corpora = ["on"]', "17: methods.dream.corpora", "'on' (did you mean 'one'?);"),
    "no corpora": (KEY, f"{TAGS}corpora = []", "17: methods.dream.corpora", "leave it out to use all with train"),
    "corpora without a language": ("[[encoders]]",
        '[[corpora]]\nname = "two"\nformat = "conll"\npath = "corpora/one"\nlanguages = ["de"]\n\n'
        '[methods.tags]\nmethod = "token_classification"\ncorpora = ["two"]\n\n[[encoders]]',
        "15: methods.tags.corpora",
        "none of two has en, a language of 'en-de'; choose others, or set pairs in [methods.tags]"),
}  # fmt: skip


def test_a_method_may_override_its_pairs_and_seeds(load):
    config = load(OF_METHODS.replace(KEY, 'pairs = ["en-de+en-zh", "de-zh"]\nseeds = [4]'))
    assert config.training_sets == ("en-de", "en-zh", "en-de+en-zh", "de-zh")
    assert config.seeds_of(config.methods["dream"]) == (4,)


IMPORTED = OF_METHODS.replace('kind = "scratch"', 'kind = "vectors"\npath = "v"').replace('"dream"]', '"emu"]')


def test_a_former_method_name_is_an_alias(load):
    for method in ("", '\nmethod = "tuned"'):
        text = OF_METHODS.replace("dream", "tuned").replace("patience = 7", f"epochs = 1{method}")
        tuned = load(text).methods["tuned"]
        assert (tuned.method.name, tuned.settings.epochs) == ("fine_tuned", 1)


def test_a_map_over_frozen_vectors_runs_on_imported_ones(load):
    config = load(IMPORTED.replace("[methods.dream]\npatience = 7", '[methods.emu]\npreset = "head"'))
    assert config.methods["emu"].needs == config.needs("toy") == {Need.UTTERANCES}


ENCODER_MISTAKES = {
    "no encoder has what the method needs": ("[experiment]", "[experiment]", "14: experiment.methods",
        "emu needs a model to tune, which encoder 'toy' does not",
        "no encoder of this file has it: add one, or leave emu out"),
    "another encoder has it": ("[experiment]", '[[encoders]]\nname = "other"\nkind = "scratch"\n\n[experiment]',
        "18: experiment.methods", 'those that it runs on, encoders = ["other"] in [methods.emu]'),
}  # fmt: skip


DISTILLED = (
    corpus("massive", languages=["en-US", "de-DE", "fr-FR"])
    + corpus("bitext", "moses", pairs=["en-de", "es-en", "de-it"])
    + encoder("english", "huggingface", path="english", pooling="mean")
    + encoder("multi", "distilled", teacher="english", corpora=["bitext"])
    + experiment("raw", "dream")
    + section("methods.dream")
).lstrip()
IN_DOMAIN = DISTILLED.replace('corpora = ["bitext"]', 'corpora = ["bitext", "massive"]')


def seen(config, encoder):
    return config.encoders[encoder].has_seen(config)


def methods_on(config, encoder):
    return [method.name for method in config.methods_of(encoder)]


def test_languages_and_training_data_of_a_distilled_encoder_follow_from_its_corpora(load):
    for text, languages, saw in ((DISTILLED, ("de", "es"), "bitext"), (IN_DOMAIN, ("de", "es", "fr"), "in-domain")):
        config = load(text)
        assert (config.encoders["multi"].taught_languages(config), seen(config, "multi")) == (languages, saw)


def test_heads_are_not_trained_on_encoders_distilled_on_their_utterances(load):
    assert methods_on(load(DISTILLED), "multi") == methods_on(load(IN_DOMAIN), "english") == ["raw", "dream"]
    assert methods_on(load(IN_DOMAIN), "multi") == ["raw"]


def test_a_head_that_names_an_encoder_of_its_domain_is_refused(load):
    with pytest.raises(ConfigError, match=r":\d+: methods.dream.encoders: dream is trained, and 'multi' was distilled"):
        load(f'{IN_DOMAIN}encoders = ["multi"]\n')


DISTILLED_MISTAKES = {
    "a teacher without the mean": ('pooling = "mean"', "", "teacher", "'english' is not an encoder", "add one"),
    "a teacher with a low layer": ('"mean"', '"mean"\nlayer = 2', "teacher", "mean of its last layer", ""),
    "its own teacher": ('"english"\ncorpora', '"multi"\ncorpora', "teacher", "'multi' is not", "of english"),
    "no such corpus": ('["bitext"]', '["x"]', "corpora", "there is no corpus 'x'", "of massive, bitext"),
    "no such language": ('["bitext"]', '["bitext"]\nlanguages = ["it"]', "languages", "pairs it with en", ": de, es"),
    "no such pivot": ('["bitext"]', '["bitext"]\npivot = "ja"', "corpora", "a language with 'ja'", "set pivot"),
    "nothing to hold out": ('["bitext"]', '["massive"]', "corpora", "names no corpus of", "or set train = false"),
    "the pivot as a language": ('["bitext"]', '["bitext"]\nlanguages = ["en"]', "languages", "include the pivot", ""),
    "no corpus": ('["bitext"]', "[]", "corpora", "must name at least one", ""),
}  # fmt: skip


def test_a_distilled_folder_records_that_its_encoder_is_in_domain(load, tmp_path):
    (tmp_path / "english").mkdir()
    (tmp_path / "english" / "distillation.json").write_text('{"encoder_saw": "in-domain"}')
    config = load(DISTILLED.replace('"mean"', '"mean"\nsaw = "English"'))
    assert seen(config, "english") == "in-domain"
    assert methods_on(config, "english") == ["raw"]


def test_the_setting_saw_is_recorded_but_not_part_of_the_fingerprint(load):
    stated, silent = load(DISTILLED.replace('"mean"', '"mean"\nsaw = "English"')), load(DISTILLED)
    assert (seen(stated, "english"), seen(silent, "english")) == ("English", None)
    assert repr(stated.encoders["english"]) == repr(silent.encoders["english"])


SETS = (
    corpus("one", path="corpora/one", languages=["en-US", "de-DE", "es-ES", "zh-TW"])
    + corpus("two", "xsid", path="corpora/two", languages=["en", "it"], train=False)
    + encoder()
    + experiment("raw", "dream", pairs=["all", "some"])
    + section("training_sets.all", evaluate=["de-es", "es-zh"])
    + section("training_sets.some", pivot="de", languages=["zh", "de", "es"])
).lstrip()
SOME = 'pivot = "de"\nlanguages = ["zh", "de", "es"]'
SET_MISTAKES = {
    "unknown key": (SOME, 'pivots = "de"', "26: training_sets.some.pivots", "unknown key"),
    "no languages": (SOME, "languages = []", "26: training_sets.some.languages", "name at least one"),
    "unknown pivot": (SOME, 'pivot = "dee"', "26: training_sets.some.pivot",
        "'dee' (did you mean 'de'?); choose one of en"),
    "unknown language": (SOME, 'languages = ["zh", "fr"]', "26: training_sets.some.languages",
        "no corpus has the language 'fr'"),
    "the pivot alone": (SOME, 'languages = ["en"]', "26: training_sets.some.languages",
        "no language besides its pivot"),
    "a language without training data": (SOME, 'languages = ["it"]', "19: experiment.pairs",
        "no corpus has both languages of 'en-it' for training"),
    "name of a pair": ("[training_sets.some]", "[training_sets.en-de]", "25: training_sets.en-de",
        "'en-de' is a language or a pair of languages already; choose another name"),
    "name of a mixture": ("[training_sets.some]", '[training_sets."some+more"]', "25: training_sets.some+more",
        "leave + out of the name"),
    "name that is no part of a path": ("[training_sets.some]", '[training_sets."a/b"]', "25: training_sets.a/b",
        "can't be part of a path"),
    "names that are one folder on some disks": ("[training_sets.some]", "[training_sets.ALL]", "25: training_sets.ALL",
        "'ALL' and 'all' differ in case only"),
    "unknown set": ('["all", "some"]', '["al", "some"]', "19: experiment.pairs",
        "nor a set in [training_sets]: all, some"),
    "pair with a language of another set": (SOME, f'{SOME}\nevaluate = ["en-de"]', "28: training_sets.some.evaluate",
        "'en-de' is not a pair of two of the languages de, zh, es, which are those of 'some'"),
    "pair that is trained on": (SOME, f'{SOME}\nevaluate = ["es-de"]', "28: training_sets.some.evaluate",
        "measured on 'es-de' anyway; leave it out"),
    "pair that is measured already": ('["de-es", "es-zh"]', '["de-es", "es-de"]', "23: training_sets.all.evaluate",
        "measured on 'es-de' anyway"),
    "pair reversed by a set": ('["de-es", "es-zh"]', '["es-de"]', "19: experiment.pairs",
        "'de-es', of 'some', is 'es-de' reversed", "reverse 'es-de' elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("good", "mistakes"),
    [
        (OF_METHODS, METHOD_MISTAKES),
        (IMPORTED, ENCODER_MISTAKES),
        (DISTILLED, DISTILLED_MISTAKES),
        (SETS, SET_MISTAKES),
    ],
    ids=["methods", "encoders", "distilled encoders", "training sets"],
)
def test_a_mistake_is_shown_with_file_line_key_and_remedy(unexplained, good, mistakes):
    assert unexplained(good, mistakes) == []


def test_a_named_set_pairs_its_pivot_with_all_training_languages_by_default(load):
    config = load(SETS)
    assert config.training_sets == ("all", "some")
    assert config.pair_languages["all"] == (("en", "de"), ("en", "es"), ("en", "zh"))
    assert config.pair_languages["some"] == (("de", "zh"), ("de", "es"))
    assert config.evaluated_pairs["all"] == (*config.pair_languages["all"], ("de", "es"), ("es", "zh"))
    assert config.languages_of("some") == ("de", "zh", "es")


def test_only_a_named_set_needs_its_pairs_looked_up(load):
    config = load(SETS.replace('["all", "some"]', '["all", "en-de", "en-de+en-es"]'))
    assert config.meaning_of(config.training_sets) == {"all": config.evaluated_pairs["all"]}
    assert [config.is_mixture(name) for name in config.training_sets] == [True, False, True]
