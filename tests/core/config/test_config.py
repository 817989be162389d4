"""Every mistake in a configuration is one line with file, line and key; a signature tells configurations apart."""

import contextlib
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from places import PROJECT as ROOT
from worlds import corpus, encoder, experiment, section

from disent_core.config.load import load_config
from disent_core.config.model import signature
from disent_core.errors import ConfigError
from disent_core.training.needs import Need

GOOD = (
    corpus("one", path="corpora/one", languages=["en-US", "de-DE"])
    + corpus("two", path="/absolute/two", languages=["en-US", "zh-CN", "zh-TW"])
    + encoder()
    + encoder("real", "huggingface", path="models/real")
    + experiment("raw", "dream", "mine", pairs=["en-de", "en-zh-TW"])
    + section("methods.dream", patience=7)
    + section("methods.mine", method="fmda", preset="softmax", contrast="hinge", encoders=["real"])
).lstrip()


def changed(old, new):
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


MISTAKES = {
    # what it is: (text to replace, replacement, line and key, message)
    "unknown key in the second corpus": ('name = "two"', 'name = "two"\nodd = 1', "9: corpora[1].odd", "unknown key"),
    "missing key": ('kind = "huggingface"\n', "", "17: encoders[1].kind",
        "kind is None; choose one of huggingface, scratch"),
    "missing name": ('name = "two"\n', "", "7: corpora[1].name", "this key is missing"),
    "text for a whole number": ("patience = 7", 'patience = "7"', "27: methods.dream.patience",
        "this must be a whole number, without quotes (found '7')"),
    "text for a list": ('["en-US", "de-DE"]', '"en-US"', "5: corpora[0].languages",
        "a list, in brackets (found 'en-US')"),
    "number for a table": ("[methods.dream]\npatience = 7", "[methods]\ndream = 7", "27: methods.dream", "(found 7)"),
    "truth for a seed": ("methods = [", "seeds = [true]\nmethods = [", "24: experiment.seeds[0]",
        "this must be a whole number, without quotes (found True)"),
    "unknown choice": ('contrast = "hinge"', 'contrast = "hing"', "32: methods.mine.contrast",
        "'linear', 'hinge' or 'softmax'"),
    "unknown group of losses": ("patience = 7", 'without = ["all"]', "27: methods.dream.without[0]", "(found 'all')"),
    "unknown locale": ('"de-DE"', '"de-AT"', "5: corpora[0].languages",
        "massive has no 'de-AT' (did you mean 'de-DE'?); it has"),
    "unknown method": ('"dream", "mine"', '"dreem", "mine"', "24: experiment.methods",
        "unknown method 'dreem' (did you mean 'dream'?); choose one of raw"),
    "variant without a method": ('method = "fmda"\n', "", "29: methods.mine.method", "unknown method 'mine'"),
    "unknown preset": ('preset = "softmax"', 'preset = "sofmax"', "31: methods.mine.preset",
        "choose one of paper, hinge, softmax"),
    "preset that is a list": ('preset = "softmax"', 'preset = ["paper"]', "31: methods.mine.preset",
        "a text, in quotes"),
    "method given twice": ('"raw", "dream"', '"raw", "raw"', "24: experiment.methods", "must be distinct"),
    "unknown format": ('"one"\nformat = "massive"', '"one"\nformat = "masive"', "3: corpora[0].format",
        "did you mean 'massive'?); choose one of conll"),
    "unknown task": ("[methods.dream]", '[evaluation]\ntasks = ["odd"]\n[methods.dream]', "27: evaluation.tasks",
        "unknown task 'odd'; choose one of crosslingual_retrieval"),
    "method of no package": ('method = "fmda"', 'method = "no_such_package.x:METHOD"', "30: methods.mine.method",
        "there is no module 'no_such_package'; install its package, or set PYTHONPATH"),
    "method without a name for its folders": ('"raw", "dream"', '"raw", "a_package.b:METHOD", "dream"',
        "24: experiment.methods", 'give it another name, [methods.NAME] method = "a_package.b:METHOD"'),
    "format that is something else": ('"one"\nformat = "massive"', '"one"\nformat = "json.decoder"',
        "3: corpora[0].format", "KIND is 'None'; set it to one of utterances"),
    "task that is something else": ("[methods.dream]", '[evaluation]\ntasks = ["sts", "json:dumps"]\n[methods.dream]',
        "27: evaluation.tasks", "this is a function, not a task; export an instance of disent_core.evaluation.Task"),
    "unknown device": ("methods = [", 'device = "gpu"\nmethods = [', "24: experiment.device",
        "'auto', 'cpu' or 'cuda' (found 'gpu')"),
    "pair of an unknown language": ('["en-de",', '["en-fr",', "23: experiment.pairs",
        "two of the languages en, de, zh-CN, zh-TW"),
    "pair of one language": ('["en-de",', '["en-en",', "23: experiment.pairs", "'en-en' is not a pair"),
    "pair that no corpus has": ('["en-de",', '["de-zh-CN",', "23: experiment.pairs",
        "no corpus has both languages of 'de-zh-CN'"),
    "mixture with a pair twice": ('["en-de",', '["en-de+de-en",', "23: experiment.pairs",
        "names a pair of languages twice"),
    "no pairs": ('["en-de", "en-zh-TW"]', "[]", "23: experiment.pairs", "at least one"),
    "corpora of one name": ('"two"\n', '"one"\n', "8: corpora[1].name", "'one' is the name of another corpus"),
    "encoders of one name": ('"real"\nkind', '"toy"\nkind', "18: encoders[1].name", "two encoders are named 'toy'"),
    "training templates of test": ("[methods.dream]",
        '[targets.training_template_pairs]\nsplits = ["test"]\n[methods.dream]',
        "targets.training_template_pairs", "nothing from test may be trained on"),
    "neither path nor url": ('path = "corpora/one"\n', "", "1: corpora[0]", "give path, url or both"),
    "path in a bucket": ('"corpora/one"', '"s3://x/one.zip"', "4: corpora[0].path",
        "give the address of an archive as url"),
    "token states of imported vectors": ('kind = "huggingface"\npath = "models/real"',
        'kind = "vectors"\npath = "real.parquet"', "33: methods.mine.encoders",
        "mine needs token states, which encoder 'real' does not have; name those that it runs on"),
    "broken syntax": ("[experiment]", "[experiment", "22", "(at column 12). Fix the TOML syntax"),
    "text that does not end": ('encoders = ["real"]\n', 'encoders = """', "33", "Fix the TOML syntax"),
}  # fmt: skip


def test_a_mistake_is_shown_with_file_line_and_key(unexplained):
    assert unexplained(GOOD, MISTAKES) == []


def test_all_mistakes_of_a_file_are_shown_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load(changed('path = "corpora/one"', "path = 3\nodd = 1").replace('"/absolute/two"', "4"))
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "corpora[0].path", "corpora[0].odd", "corpora[1].path",
    ]  # fmt: skip


def test_a_missing_or_non_utf_8_file_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.toml: there is no such file\. Check the path \(DISENT_CONFIG"):
        load_config(tmp_path / "nothing.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes(GOOD.replace("one", "\xe4").encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.toml: not UTF-8 .*Save the file as UTF-8"):
        load_config(path)


def test_a_byte_order_mark_at_the_start_of_a_file_is_skipped(tmp_path):
    path = tmp_path / "marked.toml"
    path.write_text("[nothing]\n", encoding="utf-8-sig")
    with pytest.raises(ConfigError, match="nothing: unknown key"):
        load_config(path)


def test_all_shipped_configurations_are_valid_even_in_an_empty_folder(tmp_path):
    for name in ("disent.toml", "configs/sample_all.toml"):
        assert load_config(ROOT / name).experiment.pairs
    for path in (ROOT / "configs").rglob("[!s]*.toml"):
        copied = tmp_path / path.name
        copied.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        assert load_config(copied).experiment.pairs


def test_the_headline_configuration_is_a_subset_of_the_full_one():
    few, every = (load_config(ROOT / "configs" / f"massive_{name}.toml") for name in ("headline", "minilm"))
    for name in few.encoders:
        assert few.encoders[name] == every.encoders[name]
        of_every = {method.name: method for method in every.methods_of(name)}
        for method in few.methods_of(name):
            same = of_every[method.name]
            assert (method.settings, few.seeds_of(method)) == (same.settings, every.seeds_of(same))
            assert set(few.training_sets_of(method)) <= set(every.training_sets_of(same))


def test_languages_are_the_language_part_unless_two_locales_of_a_corpus_share_it_also_in_mixtures(load):
    config = load(GOOD)
    assert config.languages == ("en", "de", "zh-CN", "zh-TW")
    assert config.locales["two"] == {"en": "en-US", "zh-CN": "zh-CN", "zh-TW": "zh-TW"}
    assert config.pair_languages == {"en-de": (("en", "de"),), "en-zh-TW": (("en", "zh-TW"),)}
    mixture = load(changed('"en-de", "en-zh-TW"', '"en-de+en-zh-TW", "zh-CN-en", "zh-CN-zh-TW"'))
    assert mixture.pair_languages == {
        "en-de+en-zh-TW": (("en", "de"), ("en", "zh-TW")),
        "zh-CN-en": (("zh-CN", "en"),), "zh-CN-zh-TW": (("zh-CN", "zh-TW"),),
    }  # fmt: skip


def test_paths_are_relative_to_the_file_and_those_inside_a_package_stay_as_they_are(load, tmp_path):
    config = load(GOOD)
    assert config.resolve(config.corpora[0].path) == tmp_path / "corpora/one"
    assert config.resolve(config.corpora[1].path) == Path("/absolute/two")
    assert config.encoders["real"].path == str(tmp_path / "models/real")
    packaged = load(changed('"models/real"', '"package:some/model"'))
    assert packaged.encoders["real"].path == "package:some/model"


def test_a_method_has_its_preset_with_the_overrides_of_the_file(load):
    methods = load(GOOD).methods
    assert (methods["dream"].settings.patience, methods["dream"].settings.learning_rate) == (7, 1e-4)
    assert methods["dream"].settings.validation == "train_fraction"
    mine = methods["mine"]
    assert (mine.method.name, mine.settings.contrast, mine.settings.learning_rate) == ("fmda", "hinge", 1e-3)


def test_a_key_of_training_templates_leaves_their_other_defaults(load):
    pairs = load(f"{GOOD}\n[targets.training_template_pairs]\nn_targets = 2\n").targets.training_template_pairs
    assert (pairs.splits, pairs.values, pairs.n_targets) == (("train", "dev"), "train", 2)


def test_an_encoder_needs_only_what_its_methods_need_and_corpora_of_a_pair_have_both_languages(load):
    config = load(GOOD)
    assert [corpus.name for corpus in config.corpora_of("en")] == ["one", "two"]
    assert [corpus.name for corpus in config.corpora_of_pair("en", "zh-TW")] == ["two"]
    assert [method.name for method in config.methods_of("toy")] == ["raw", "dream"]
    assert config.needs("toy") == frozenset()
    assert config.needs("real") == {Need.TOKEN_STATES, Need.MASKED_TARGETS, Need.NEGATIVE_POOL}


PIECES = ["3", "-1", "nan", "true", '""', "[]", "[[]]", "{}", '"x"', '"~x"', "2020-01-01", "[1, 2]", '["en-US"]',
          '"\\u0000"']  # fmt: skip


@st.composite
def mutated(draw):
    lines = GOOD.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(["value", "drop", "twice", "cut", "insert"]))
        if change == "value" and "=" in lines[index]:
            lines[index] = f"{lines[index].split('=')[0]}= {draw(st.sampled_from(PIECES))}"
        elif change == "twice":
            lines.insert(index, lines[draw(st.integers(0, len(lines) - 1))])
        elif change == "cut":
            lines[index] = lines[index][: draw(st.integers(0, len(lines[index])))]
        elif change == "insert":
            lines.insert(index, draw(st.text(max_size=12)))
        elif len(lines) > 1:
            del lines[index]
    return "\n".join(lines)


@example(GOOD.replace('"scratch"', "{}"))
@example(GOOD.replace('"fmda"', "[]"))
@example(GOOD.replace('["real"]', "3"))
@given(mutated())
def test_a_mutated_file_is_valid_or_a_config_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "mutated.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ConfigError):
        load_config(path)


def test_training_data_are_required_only_by_trained_methods(load):
    evaluated = GOOD.replace("[[encoders]]", "train = false\n\n[[encoders]]", 1)
    with pytest.raises(ConfigError, match="no corpus has both languages of 'en-zh-TW' for training"):
        load(evaluated)
    untrained = load(evaluated.replace('["raw", "dream", "mine"]', '["raw"]'))
    assert untrained.training_sets == ("en-de", "en-zh-TW")


@pytest.fixture(scope="module")
def sample_config():
    return load_config(ROOT / "disent.toml")


def test_the_signature_does_not_depend_on_set_order(sample_config):
    first, second = copy(sample_config), copy(sample_config)
    for changed, items in ((first, [0, 8]), (second, [8, 0])):  # they have one place, so the first has it
        object.__setattr__(changed, "negatives", frozenset(items))
    assert (first == second, repr(first) == repr(second)) == (True, False)
    assert signature(first) == signature(second)


@pytest.mark.parametrize(
    "change",
    [
        lambda config: {"experiment": replace(config.experiment, seeds=(7,))},
        lambda config: {"corpora": config.corpora[:1]},
        lambda config: {"methods": dict(list(config.methods.items())[1:])},
        lambda config: {"encoders": {"another": next(iter(config.encoders.values()))}},
        lambda config: {"path": Path("another.toml")},
    ],
)
def test_the_signature_changes_with_every_part_of_the_configuration(sample_config, change):
    assert signature(replace(sample_config, **change(sample_config))) != signature(sample_config)
