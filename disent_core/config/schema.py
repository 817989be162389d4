"""Describe the configuration file as a JSON Schema, by which editors complete and check it: `disent.schema.json`."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from disent_core import methods
from disent_core.config.reference import METHOD_KEYS, SECTIONS, default_of, meanings_of, prose
from disent_core.corpora import READERS
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.settings import hints_of

FILE_NAME = "disent.schema.json"
_IMPORT = {"type": "string", "pattern": "[.:]"}
"""A part of a user's own, as `package.module:ATTRIBUTE`."""
_NAMES = {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 1}
_KEYS: Mapping[str, Any] = {
    "method": {"type": "string"},
    "preset": {"type": "string", "default": "paper"},
    **dict.fromkeys(("encoders", "pairs", "corpora"), _NAMES),
    "seeds": _NAMES | {"items": {"type": "integer", "minimum": 0}},
}


def schema_text() -> str:
    """Return the content of `disent.schema.json`."""
    return _written(json_schema(), "") + "\n"


def _written(schema: Any, indent: str) -> str:
    """Write a schema as JSON with one line a key of the configuration."""
    line = json.dumps(schema, ensure_ascii=False)
    if not isinstance(schema, dict) or '"properties": {' not in line:
        return line
    inner = indent + " "
    parts = (f"{inner}{json.dumps(name)}: {_written(value, inner)}" for name, value in schema.items())
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def json_schema() -> dict[str, Any]:
    """Return the schema of the whole file, with a definition for each method."""
    sections: dict[str, Any] = {name.strip("[]"): _object(kind, {}) for name, kind in SECTIONS.items()}
    sections["corpora"]["properties"]["format"] |= {"anyOf": [{"enum": list(READERS)}, _IMPORT]}
    training_set = sections.pop("training_sets.NAME")
    encoders = {kind: _object(encoder_kind(kind), {}) for kind in ENCODER_KINDS}
    for kind, encoder in encoders.items():
        encoder["properties"] = {"kind": {"const": kind}, **encoder["properties"]}
        encoder["required"] = ["kind", *encoder["required"]]
    known = {name: {"$ref": f"#/$defs/{name}"} for name in methods.METHODS}
    former = {alias: known[name] for alias, name in methods.ALIASES.items() if name in known}
    variants = [  # tables that say which method they are a variant of
        {"allOf": [of_method, {"properties": {"method": {"const": name}}, "required": ["method"]}]}
        for name, of_method in (known | former).items()
    ]
    imported = {"type": "object", "properties": {"method": _IMPORT}, "required": ["method"]}
    variant = {"$ref": "#/$defs/NAME"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of disent",
        "type": "object",
        "properties": {
            **sections,
            "corpora": {"type": "array", "items": sections["corpora"]},
            "encoders": {"type": "array", "items": {"anyOf": list(encoders.values())}},
            "training_sets": {"type": "object", "additionalProperties": training_set},
            "methods": {
                "type": "object",
                "properties": {name: {"anyOf": [of_method, variant]} for name, of_method in (known | former).items()},
                "additionalProperties": variant,
            },
        },
        "required": ["corpora", "encoders", "experiment"],
        "additionalProperties": False,
        "$defs": {"NAME": {"anyOf": [*variants, imported]}, **{name: _method(name) for name in methods.METHODS}},
    }


def _method(name: str) -> dict[str, Any]:
    presets = methods.method(name).presets
    schema = _object(type(presets["paper"]), asdict(presets["paper"]))
    common = {key: {**_KEYS[key], "description": meaning} for key, (_, meaning) in METHOD_KEYS.items()}
    common["preset"]["enum"] = list(presets)
    return {**schema, "properties": {**common, **schema["properties"]}, "required": []}


def _object(kind: type, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the table of a settings class; `defaults` replace those of the class."""
    meanings, properties, required = meanings_of(kind), {}, []
    for field in fields(kind):
        default = defaults.get(field.name, default_of(field))
        if is_dataclass(default) and not isinstance(default, type):
            schema = _object(type(default), asdict(default))
        else:
            schema = _value(hints_of(kind)[field.name]) | ({} if default in (None, MISSING) else {"default": default})
        if default is MISSING:
            required.append(field.name)
        if meaning := meanings.get(field.name):
            schema = schema | {"description": meaning.replace("\\|", "|")}
        properties[field.name] = schema
    return {
        "type": "object",
        "description": prose(kind),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


@cache
def _value(hint: Any) -> dict[str, Any]:
    """Return the schema of a value. TOML has no null: a key without a value is left out."""
    schema = TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False)).json_schema()
    options = [option for option in schema.pop("anyOf", []) if option != {"type": "null"}]
    return schema | (options[0] if len(options) == 1 else {"anyOf": options} if options else {})
