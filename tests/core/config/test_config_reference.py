"""The page of all settings keys matches the settings classes, and so does the JSON Schema, which refuses mistakes."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import pytest
from places import PROJECT

from disent_core import methods
from disent_core.config.reference import FILE_NAME, SECTIONS, json_schema, method_reference, reference, schema_text
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.errors import ConfigError

PAGE, REFERENCE = PROJECT / "docs" / "configuration.md", reference()


def test_the_page_is_fresh():
    assert PAGE.read_text(encoding="utf-8") == REFERENCE, "run: disent settings > docs/configuration.md"


def test_every_key_and_preset_of_a_method_is_documented():
    for name in methods.METHODS:
        page, presets = method_reference(name), methods.method(name).presets
        assert [field.name for field in fields(presets["paper"]) if f"\n| `{field.name}` | " not in page] == []
        for shown in (page, REFERENCE):
            named = [preset for preset in presets if f"- `{name}`, preset `{preset}`: " in shown]
            assert named in ([*presets], [*presets][1:])  # `paper`, the first, only where it changes something
    assert '- `emu_parallel`, preset `paper`: `adversary = "translation"`' in REFERENCE
    assert '- `emu_parallel`, preset `head`: `tune = "head"`, `adversary = "translation"`' in REFERENCE


def test_the_page_lists_every_method_key_in_its_section_or_a_linked_one():
    sections = {part.partition("\n")[0]: part for part in REFERENCE.split("\n### ")}
    for name in methods.METHODS:
        section = next(part for title, part in sections.items() if f"`{name}`" in title.split(", "))
        shared = re.findall(r"`(\w+)`", "".join(re.findall(r"^And the keys of .*$", section, re.MULTILINE)))
        shown = section + "".join(part for title, part in sections.items() if {f"`{key}`" for key in shared} & {title})
        shown += "".join(re.findall(r"^To repeat the code of papers .*$", shown, re.MULTILINE)).replace("`", "\n| `")
        keys = [field.name for field in fields(type(methods.method(name).presets["paper"]))]
        assert [f"{name}.{key}" for key in keys if f"\n| `{key}" not in shown] == []


def test_every_encoder_kind_is_documented():
    for kind in ENCODER_KINDS:
        settings = encoder_kind(kind)
        _, _, rest_of_page = REFERENCE.partition(f'## `[[encoders]], kind = "{kind}"`')
        section = rest_of_page.partition("\n## ")[0]
        assert [field.name for field in fields(settings) if f"| `{field.name}` | " not in section] == []


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match="unknown method 'drem'"):
        method_reference("drem")


SCHEMA = json_schema()
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
LIMITS = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}


def mistakes(value: Any, schema: Mapping[str, Any], key: str) -> Iterator[str]:
    """Yield the keys of a value that the schema refuses, by the rules of JSON Schema that it uses."""
    if "$ref" in schema:
        yield from mistakes(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], key)
    for part in schema.get("allOf", ()):
        yield from mistakes(value, part, key)
    if "anyOf" in schema and all([*mistakes(value, option, key)] for option in schema["anyOf"]):
        yield f"{key} is none of its forms"
    if "type" in schema and (
        not isinstance(value, TYPES[schema["type"]]) or (schema["type"] != "boolean" and value is True)
    ):
        yield f"{key} is no {schema['type']}"
        return
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{key} is no choice"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{key} has another form"
    if isinstance(value, int | float):
        yield from (f"{key} is beyond its {rule}" for rule, holds in LIMITS.items()
                    if rule in schema and not holds(value, schema[rule]))  # fmt: skip
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0) or (schema.get("uniqueItems") and len(set(value)) < len(value)):
            yield f"{key} is too short, or not distinct"
        yield from (mistake for item in value for mistake in mistakes(item, schema.get("items", {}), f"{key}[]"))
    if isinstance(value, dict):
        yield from (f"{key}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, inner in value.items():
            of_key = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            yield from [f"{key}.{name} is unknown"] if of_key is False else mistakes(inner, of_key, f"{key}.{name}")


def mistakes_of(text: str) -> list[str]:
    return list(mistakes(tomllib.loads(text), SCHEMA, "file"))


def test_the_file_is_current():
    assert (PROJECT / FILE_NAME).read_text(encoding="utf-8") == schema_text(), "run: disent settings --schema"


def test_every_configuration_names_the_schema_and_is_valid_by_it():
    for path in [PROJECT / "disent.toml", *sorted((PROJECT / "configs").rglob("*.toml"))]:
        text = path.read_text(encoding="utf-8")
        line, _, _ = text.partition("\n")
        assert (path.parent / line.removeprefix("#:schema ")).resolve() == PROJECT / FILE_NAME, path
        assert mistakes_of(text) == [], path


GOOD = """
experiment = {pairs = ["en-de"], methods = ["raw", "mine"]}
corpora = [{name = "c", format = "massive", path = "c", limit = 5}]
encoders = [{kind = "vectors", name = "e", path = "v"}]
methods = {mine = {method = "dream", learning_rate = 0.001}}
"""
WRONG = {
    "unknown key": ("limit = 5", "limits = 5", "corpora[].limits is unknown"),
    "wrong type": ("limit = 5", 'limit = "5"', "limit is no integer"),
    "number below its bound": ("limit = 5", "limit = 0", "limit is beyond its minimum"),
    "number above its bound": ("limit = 5", "limit = 5_000_000_000", "limit is beyond its maximum"),
    "missing key": ('name = "c", ', "", "corpora[].name is missing"),
    "no pairs": ('["en-de"]', "[]", "pairs is too short"),
    "unknown format": ('"massive"', '"masive"', "format is none of"),
    "unknown kind": ('"vectors"', '"vector"', "encoders[] is none of"),
    "rate of a method of zero": ("0.001", "0.0", "methods.mine is none of"),
    "unknown section": ("experiment", "experiments", "file.experiments is unknown"),
}


def test_mistakes_are_refused():
    assert mistakes_of(GOOD) == []
    unseen = {name: mistakes_of(GOOD.replace(old, new)) for name, (old, new, expected) in WRONG.items()
              if expected not in " ".join(mistakes_of(GOOD.replace(old, new)))}  # fmt: skip
    assert unseen == {}


def tables(schema: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, of_key in schema.get("properties", {}).items():
        yield f"{name}.{key}", of_key
        yield from tables(of_key, f"{name}.{key}")


def test_every_key_has_a_type_a_meaning_and_a_default_unless_it_is_required():
    sections = {name: SCHEMA["properties"][name] for name in (name.strip("[]").partition(".")[0] for name in SECTIONS)}
    sections["corpora"] = sections["corpora"]["items"]
    sections["training_sets"] = sections["training_sets"]["additionalProperties"]
    encoders = dict(zip(ENCODER_KINDS, SCHEMA["properties"]["encoders"]["items"]["anyOf"], strict=True))
    of_methods = {name: SCHEMA["$defs"][name] for name in methods.METHODS}
    keys = dict(key for name, schema in (sections | encoders | of_methods).items() for key in tables(schema, name))
    assert len(keys) > 300
    assert [name for name, schema in keys.items() if not {"type", "enum", "const", "anyOf"} & schema.keys()] == []
    undescribed = {name.rpartition(".")[2] for name, schema in keys.items() if "description" not in schema}
    assert undescribed <= {"kind"}
    assert keys["dream.learning_rate"]["default"] == 1e-4
    assert keys["targets.training_template_pairs.n_targets"]["default"] == 1
