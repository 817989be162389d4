"""Every number of the configuration: what is absurd is refused with file, line, key and remedy."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from math import inf, nan
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest

from disent_core import methods
from disent_core.config.load import load_config
from disent_core.config.reference import SECTIONS
from disent_core.config.sections import CorpusConfig, ExperimentConfig
from disent_core.config.toml_lines import TomlErrors
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.errors import ConfigError
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.settings import bounds_of, hints_of
from disent_core.targets.code_switching import CodeSwitchingConfig
from disent_core.targets.template_pairs import TemplatePairConfig

ERRORS = TomlErrors(Path("disent.toml"), "")
REQUIRED = {"scratch": {}, "words": {}, "distilled": {"teacher": "t", "corpora": ["c"]}}
SETTINGS: dict[str, tuple[type, dict[str, Any]]] = {
    "corpora": (CorpusConfig, {"name": "c", "format": "massive", "path": "."}),
    "experiment": (ExperimentConfig, {"pairs": ["en-de"], "methods": ["raw"]}),
    "evaluation": (EvaluationConfig, {}),
    "negatives": (SECTIONS["[negatives]"], {}),
    "template_pairs": (TemplatePairConfig, {}),
    "code_switching": (CodeSwitchingConfig, {}),
    **{kind: (encoder_kind(kind), {"name": "e"} | REQUIRED.get(kind, {"path": "."})) for kind in ENCODER_KINDS},
    **{name: (type(methods.method(name).presets["paper"]), asdict(methods.method(name).presets["paper"]))
       for name in methods.METHODS},
}  # fmt: skip


def numbers_in(hint: Any) -> Any:
    """Return the type of the numbers of a key, and how a number is written there; None if the key has no numbers."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return (hint, lambda value: value) if inner[0] in (int, float) else numbers_in(inner[0])
    if hint in (int, float):
        return hint, lambda value: value
    if get_origin(hint) is tuple and (of_item := numbers_in(inner[0])):
        return of_item[0], lambda value: [value]
    if get_origin(hint) is dict and (of_item := numbers_in(inner[1])):
        return of_item[0], lambda value: {"utterance_reconstruction": value}
    if get_origin(hint) in (Union, UnionType):
        return next(filter(None, map(numbers_in, inner)), None)
    return None


KEYS = {
    f"{section}.{name}": numbers
    for section, (kind, _) in SETTINGS.items()
    for name, hint in hints_of(kind).items()
    if name in {field.name for field in fields(kind)} and (numbers := numbers_in(hint))
}
MAY_BE_NEGATIVE = {"layer": "counted from the last", "weights": "a term that is turned round"}


def message_of(section: str, numbers: Mapping[str, float]) -> str:
    """Return what is said of a section with these numbers at its keys, "" if they are accepted."""
    kind, table = SETTINGS[section]
    values = {key.partition(".")[2]: KEYS[key][1](number) for key, number in numbers.items()}
    try:
        ERRORS.validate(kind, table | values, (section,))
    except ConfigError as error:
        return str(error)
    return ""


def accepted(numbers: Mapping[str, float]) -> Iterator[str]:
    """Yield the keys whose number is not refused with file, line and key: tried together, and alone if none is said."""
    for section in SETTINGS:
        of_section = {key: number for key, number in numbers.items() if key.startswith(f"{section}.")}
        together = message_of(section, of_section)
        for key, number in of_section.items():
            refused = re.compile(rf"^disent\.toml:1: {section}[.:](.*\W)?{key.partition('.')[2]}\b", re.MULTILINE)
            if not (refused.search(together) or refused.search(message_of(section, {key: number}))):
                yield f"{key} = {number}"


def beyond_the_bounds(key: str, word: str) -> dict[str, float]:
    """Return the number next to a bound of a key that is outside, if it has this bound."""
    kind = KEYS[key][0]
    if word not in (bounds := bounds_of(kind)):
        return {}
    step = 1 if get_args(kind)[0] is int else 1e-9 * max(abs(bounds[word]), 1)
    return {key: bounds[word] + {"above": 0, "at least": -step, "below": 0, "at most": step}[word]}


def test_numeric_keys_of_every_section_are_tried():
    assert len(KEYS) > 150
    assert {"corpora.size", "experiment.seeds", "scratch.checkpoint_seconds", "dream.weights"} <= set(KEYS)


@pytest.mark.parametrize("absurd", [nan, inf, -inf, 1e300, -1e300, 10**30, -(10**30)])
def test_absurd_numbers_are_refused_at_every_key(absurd):
    assert list(accepted(dict.fromkeys(KEYS, absurd))) == []


@pytest.mark.parametrize("word", ["above", "at least", "below", "at most"])
def test_numbers_beyond_the_bounds_of_their_key_are_refused(word):
    beyond = {key: number for key in KEYS for key, number in beyond_the_bounds(key, word).items()}
    assert beyond
    assert list(accepted(beyond)) == []


def test_negative_numbers_are_refused_unless_they_mean_something():
    meant = {key for key in KEYS if key.split(".")[1] in MAY_BE_NEGATIVE}
    assert {failure.partition(" ")[0] for failure in accepted(dict.fromkeys(KEYS, -1))} == meant


def test_nothing_is_trained_with_a_rate_or_a_number_of_zero():
    keys = [key for key in KEYS if key.endswith(("learning_rate", "batch_size", "epochs", "max_steps"))]
    assert len(keys) > 50
    assert list(accepted(dict.fromkeys(keys, 0))) == []


def test_a_seed_may_be_as_large_as_random_generators_take():
    assert message_of("experiment", {"experiment.seeds": 2**63 - 1}) == ""


MINIMAL = """
[[corpora]]
name = "c"
format = "massive"
path = "c"
languages = ["en-US", "de-DE"]
[[encoders]]
name = "e"
kind = "vectors"
path = "v"
[experiment]
pairs = ["en-de"]
methods = ["raw", "centered"]
"""


MISTAKES = [
    ('path = "c"', 'path = "c"\nsha256 = "zz"', r"toml:6: corpora\[0\].sha256: sha256 must be 64 hex digits"),
    ('path = "c"', 'path = "~nosuchuser/x"', r"toml:5: corpora\[0\].path: not a usable path"),
    ('path = "c"', f'path = "{"a" * 300}"', r"toml:5: corpora\[0\].path: not a usable path"),
    ('name = "c"', f'name = "{"a" * 300}"', r"toml:3: corpora\[0\].name: .* shorten it to 150 characters"),
    ('"centered"]', '"centered"]\n[mteb.results]\n"a/b" = "x"', "toml:15: mteb.results.a/b: .* part of a path"),
    ('"centered"]', '"centered"]\n[exports]\nheads = ["raw@e:en-de"]', "toml:15: exports.heads: there is no head"),
    ("[experiment]", '[[encoders]]\nname = "E"\nkind = "vectors"\npath = "v"\n[experiment]',
     r"toml:12: encoders\[1\].name: 'E' and 'e' differ in case only"),
    ('"centered"]', '"centered", "Raw"]\n[methods.Raw]\nmethod = "raw"', "methods.Raw: 'Raw' and 'raw' differ"),
    ('"centered"]', '"centered"]\n[evaluation]\ntasks = []', "toml:15: evaluation.tasks: tasks must name at"),
    *(('"centered"]', f'"centered"]\n[evaluation]\n{"a." * depth}a = 1',
       "a (table is|value is too long or) nested too deeply")
      for depth in (250, 3_000)),
    ('pairs = ["en-de"]', f'pairs = ["{"en-de+" * 50}en-de"]', "experiment.pairs: .* shorten it to 150 characters"),
    ('"centered"]', '"centered"]\n' + "\n".join(f"x{number} = 1" for number in range(500)), "and 480 more"),
    ('languages = ["en-US", "de-DE"]', f'languages = ["en-{"a" * 10**4}"]', r"languages.*\(10,005 characters\)"),
    ('"centered"]', f'"centered"]\n[{"a." * 30_000}b]', "toml:14: a line of 60,003 .* over several lines"),
]  # fmt: skip


def test_unusable_settings_are_refused_with_their_line(tmp_path):
    path = tmp_path / "disent.toml"
    for old, new, message in MISTAKES:
        assert old in MINIMAL
        path.write_text(MINIMAL.replace(old, new, 1))
        with pytest.raises(ConfigError, match=message) as raised:
            load_config(path)
        assert len(str(raised.value)) < 5_000
