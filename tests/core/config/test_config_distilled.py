"""What an encoder that is distilled here may say of its teacher, corpora and languages, and what may run on it."""

import pytest

from disent_core.errors import ConfigError

TEXT = """\
[[corpora]]
name = "massive"
format = "massive"
path = "massive"
languages = ["en-US", "de-DE", "fr-FR"]

[[corpora]]
name = "bitext"
format = "moses"
path = "bitext"
pairs = ["en-de", "es-en", "de-it"]

[[encoders]]
name = "english"
kind = "huggingface"
path = "english"
pooling = "mean"

[[encoders]]
name = "multi"
kind = "distilled"
teacher = "english"
corpora = ["bitext"]

[experiment]
pairs = ["en-de"]
methods = ["raw", "dream"]

[methods.dream]
"""
IN_DOMAIN = TEXT.replace('corpora = ["bitext"]', 'corpora = ["bitext", "massive"]')


def seen(config, encoder):
    return config.encoders[encoder].has_seen(config)


def methods_on(config, encoder):
    return [method.name for method in config.methods_of(encoder)]


def test_its_languages_and_what_it_saw_follow_from_its_corpora(load):
    for text, languages, saw in ((TEXT, ("de", "es"), "bitext"), (IN_DOMAIN, ("de", "es", "fr"), "in-domain")):
        config = load(text)
        assert (config.encoders["multi"].taught_languages(config), seen(config, "multi")) == (languages, saw)


def test_heads_are_trained_on_it_only_if_it_has_seen_none_of_their_utterances(load):
    assert methods_on(load(TEXT), "multi") == methods_on(load(IN_DOMAIN), "english") == ["raw", "dream"]
    assert methods_on(load(IN_DOMAIN), "multi") == ["raw"]


def test_a_head_that_names_an_encoder_of_its_domain_is_refused(load):
    with pytest.raises(ConfigError, match=r":\d+: methods.dream.encoders: dream is trained, and 'multi' was distilled"):
        load(f'{IN_DOMAIN}encoders = ["multi"]\n')


MISTAKES = {
    "no such teacher": ('"english"\ncorpora', '"x"\ncorpora', "teacher", "'x' is no encoder", "of english"),
    "a teacher without the mean": ('pooling = "mean"', "", "teacher", "'english' is no encoder", "add one"),
    "a teacher with a low layer": ('"mean"', '"mean"\nlayer = 2', "teacher", "mean of its last layer", ""),
    "its own teacher": ('"english"\ncorpora', '"multi"\ncorpora', "teacher", "'multi' is no", "of english"),
    "no such corpus": ('["bitext"]', '["x"]', "corpora", "there is no corpus 'x'", "of massive, bitext"),
    "no such language": ('["bitext"]', '["bitext"]\nlanguages = ["it"]', "languages", "pairs it with en", "of de, es"),
    "no such pivot": ('["bitext"]', '["bitext"]\npivot = "ja"', "corpora", "a language with 'ja'", "set pivot"),
    "nothing to hold out": ('["bitext"]', '["massive"]', "corpora", "names none", "or set train = false"),
    "the pivot as a language": ('["bitext"]', '["bitext"]\nlanguages = ["en"]', "languages", "beside the pivot", ""),
    "no corpus": ('["bitext"]', "[]", "corpora", "must name at least one", ""),
}  # fmt: skip


def test_a_mistake_is_shown_with_its_key_and_remedy(unexplained):
    assert unexplained(TEXT, MISTAKES) == []


def test_a_folder_that_was_distilled_elsewhere_tells_what_it_saw_and_an_encoder_of_its_domain_is_no_base(
    load, tmp_path
):
    (tmp_path / "english").mkdir()
    (tmp_path / "english" / "distillation.json").write_text('{"encoder_saw": "in-domain"}')
    config = load(TEXT.replace('"mean"', '"mean"\nsaw = "English"'))
    assert seen(config, "english") == "in-domain"
    assert methods_on(config, "english") == ["raw"]


def test_what_another_encoder_saw_is_what_its_settings_say_and_no_part_of_its_fingerprint(load):
    said, silent = load(TEXT.replace('"mean"', '"mean"\nsaw = "English"')), load(TEXT)
    assert (seen(said, "english"), seen(silent, "english")) == ("English", None)
    assert repr(said.encoders["english"]) == repr(silent.encoders["english"])
