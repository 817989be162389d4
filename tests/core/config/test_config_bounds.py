"""Every number of the configuration: what is absurd is refused with file, line, key and remedy."""

import tomllib
from dataclasses import asdict, fields
from math import inf, nan
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core import methods
from disent_core.config.bounds import BOUNDS, SEED
from disent_core.config.load import load_config
from disent_core.config.reference import SECTIONS
from disent_core.config.sections import CorpusConfig, ExperimentConfig
from disent_core.config.toml_lines import Locator
from disent_core.encoders import ENCODER_KINDS
from disent_core.errors import ConfigError
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.targets.code_switching import CodeSwitchingConfig
from disent_core.targets.template_pairs import TemplatePairConfig

ROOT = Path(__file__).parents[3]
LOCATOR = Locator(Path("disent.toml"), "")
REQUIRED = {"scratch": {}, "distilled": {"teacher": "t", "corpora": ["c"]}}
SETTINGS: dict[str, tuple[type, dict[str, Any]]] = {
    "corpora": (CorpusConfig, {"name": "c", "format": "massive", "path": "."}),
    "experiment": (ExperimentConfig, {"pairs": ["en-de"], "methods": ["raw"]}),
    "evaluation": (EvaluationConfig, {}),
    "negatives": (SECTIONS["[negatives]"], {}),
    "template_pairs": (TemplatePairConfig, {}),
    "code_switching": (CodeSwitchingConfig, {}),
    **{kind: (settings, {"name": "e"} | REQUIRED.get(kind, {"path": "."})) for kind, settings in ENCODER_KINDS.items()},
    **{name: (type(methods.method(name).presets["paper"]), asdict(methods.method(name).presets["paper"]))
       for name in methods.METHODS},
}  # fmt: skip


def of_numbers(hint: Any) -> Any:
    """Wrap a number as the key has it, or None if the key has no numbers."""
    inner = get_args(hint)
    if hint in (int, float):
        return lambda value: value
    if get_origin(hint) is tuple and inner[0] in (int, float):
        return lambda value: [value]
    if get_origin(hint) is dict and inner[1] is float:
        return lambda value: {"utterance_reconstruction": value}
    if get_origin(hint) in (Union, UnionType) and {int, float} & set(inner):
        return lambda value: value
    return None


KEYS = {
    f"{section}.{field.name}": wrap
    for section, (kind, _) in SETTINGS.items()
    for field in fields(kind)
    if (wrap := of_numbers(get_type_hints(kind)[field.name]))
}


def read(key: str, number: float) -> Any:
    section, name = key.split(".")
    kind, table = SETTINGS[section]
    return LOCATOR.validate(kind, {**table, name: KEYS[key](number)}, (section,))


def test_numeric_keys_of_every_section_are_tried():
    assert len(KEYS) > 150
    assert {"corpora.size", "experiment.seeds", "scratch.checkpoint_seconds", "dream.weights"} <= set(KEYS)


@pytest.mark.parametrize("number", [nan, inf, -inf, 1e300, -1e300, 10**30, -(10**30)])
@pytest.mark.parametrize("key", KEYS)
def test_a_number_that_is_none_or_is_huge_is_refused_at_its_key(key, number):
    section, name = key.split(".")
    with pytest.raises(ConfigError, match=rf"^disent\.toml:1: {section}[.:].*{name}"):
        read(key, number)


MAY_BE_NEGATIVE = {"layer": "counted from the last", "weights": "a term that is turned round"}


@pytest.mark.parametrize("key", KEYS)
def test_a_negative_number_is_refused_unless_it_means_something(key):
    if key.split(".")[1] in MAY_BE_NEGATIVE:
        read(key, -1)
    else:
        with pytest.raises(ConfigError, match=key.replace(".", ".*")):
            read(key, -1)


@pytest.mark.parametrize(
    "key", [key for key in KEYS if key.endswith(("learning_rate", "batch_size", "epochs", "max_steps"))]
)
def test_nothing_is_trained_with_a_rate_or_a_number_of_zero(key):
    with pytest.raises(ConfigError, match=f"{key}: .*must"):
        read(key, 0)


@given(st.sampled_from([key for key in KEYS if key.split(".")[1] in BOUNDS]), st.data())
def test_numbers_beyond_the_bounds_of_their_key_are_refused(key, data):
    least, most = BOUNDS[key.split(".")[1]]
    number = data.draw(st.integers(max_value=least - 1) | st.integers(min_value=most + 1))
    with pytest.raises(ConfigError, match=key.replace(".", ".*")):
        read(key, number)


def test_a_seed_may_be_as_large_as_random_generators_take():
    assert read("experiment.seeds", SEED[1]).seeds == (2**63 - 1,)


@pytest.mark.parametrize("path", [ROOT / "disent.toml", *sorted((ROOT / "configs").glob("*.toml"))], ids=str)
def test_the_configurations_of_the_papers_are_within_the_bounds(path):
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, table in raw.get("methods", {}).items():
        method = methods.method(table.get("method", name))
        kind = type(method.presets["paper"])
        preset = asdict(method.presets[table.get("preset", "paper")])
        LOCATOR.validate(kind, preset | {key: table[key] for key in table if key in preset}, (name,))


# --- what is no number ---

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


def refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "disent.toml"
    assert old in MINIMAL
    path.write_text(MINIMAL.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as raised:
        load_config(path)
    assert len(str(raised.value)) < 5_000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "c"', 'path = "c"\nsha256 = "zz"', r"toml:6: corpora\[0\].sha256: sha256 must be 64 hex digits"),
        ('path = "c"', 'path = "~nosuchuser/x"', r"toml:5: corpora\[0\].path: this is no path"),
        ('path = "c"', f'path = "{"a" * 300}"', r"toml:5: corpora\[0\].path: this is no path"),
        ('path = "v"', 'path = "~nosuchuser/x"', r"toml:10: encoders\[0\].path: this is no path"),
        ('name = "c"', f'name = "{"a" * 300}"', r"toml:3: corpora\[0\].name: .* has more than 150 characters"),
        ('name = "e"', f'name = "{"a" * 300}"', r"toml:8: encoders\[0\].name: .* has more than 150 characters"),
        ("[experiment]", '[[encoders]]\nname = "E"\nkind = "vectors"\npath = "v"\n[experiment]',
         r"toml:12: encoders\[1\].name: 'E' and 'e' differ in case only"),
        ("[[encoders]]", '[[corpora]]\nname = "C"\nformat = "massive"\npath = "c"\nlanguages = ["en-US"]\n[[encoders]]',
         r"toml:8: corpora\[1\].name: 'C' and 'c' differ in case only"),
        ('"centered"]', '"centered", "Raw"]\n[methods.Raw]\nmethod = "raw"', "methods.Raw: 'Raw' and 'raw' differ"),
        ('"centered"]', '"centered"]\n[evaluation]\ntasks = []', "toml:15: evaluation.tasks: tasks must name at"),
        ('"centered"]', f'"centered"]\n[evaluation]\n{"a." * 3_000}a = 1', "a table is nested too deeply"),
        ('pairs = ["en-de"]', f'pairs = ["{"en-de+" * 50}en-de"]', "experiment.pairs: .* more than 150 characters"),
        ('"centered"]', '"centered"]\n' + "\n".join(f"x{number} = 1" for number in range(500)), "and 480 more"),
        ('languages = ["en-US", "de-DE"]', f'languages = ["en-{"a" * 10**4}"]', r"languages.*\(10,005 characters\)"),
        ('"centered"]', f'"centered"]\n[{"a." * 30_000}b]', "toml:14: a line of 60,003 .* over several lines"),
    ],
)  # fmt: skip
def test_what_no_run_could_use_is_refused_where_it_stands(tmp_path, old, new, message):
    refused(tmp_path, old, new, message)
