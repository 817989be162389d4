"""Document every key of the configuration from the settings classes: as Markdown, and as a JSON Schema.

The page is `docs/configuration.md`; by the schema, `disent.schema.json`, editors complete and check the file.
"""

import inspect
import json
import re
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter

from disent_core import methods
from disent_core.config import sections
from disent_core.config.model import MethodConfig
from disent_core.corpora import READERS
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.evaluation.contract import TASKS, EvaluationConfig
from disent_core.methods.families import FineTunedMethod, TaggingMethod
from disent_core.negatives.config import BleuConfig
from disent_core.settings import OF_PUBLISHED_CODE, bounds_of, hints_of

INTRODUCTION = """\
# Configuration

Made by `disent settings > docs/configuration.md`; `disent settings METHOD` lists one method's keys. Strings are
shown as TOML has them; a default `none` is what holds where the key is left out. The column `or` has the other values;
bounds that only refuse the absurd are left out. An unknown key is an error. Paths are relative to the file. Editors
complete and check a file whose first line is `#:schema disent.schema.json`, with the JSON Schema that
`disent settings --schema` prints and `disent init` writes.
"""
METHOD_KEYS = {
    "method": ("NAME", "the method: one of those below, or one of your own as `package.module:ATTRIBUTE`"),
    "preset": ('`"paper"`', "the preset that the method's keys start from; `paper` is the defaults, unless listed"),
    "encoders": ("all", "encoders that the method runs on"),
    "pairs": (
        "`experiment.pairs`",
        "language pairs, mixtures of them or names of training sets, that the method is trained and measured on",
    ),
    "seeds": ("`experiment.seeds`", "random seeds; not allowed for deterministic methods"),
    "corpora": ("all with `train = true`", "corpora that a tagging method trains on, whatever their `train` says"),
}
"""Default and meaning of the keys that every method has."""
OWN_KEYS = "\n".join([
    "## `[methods.NAME]`\n",
    "NAME is the name of the method in the metrics. The keys of the method override its preset; every method also "
    "has:\n",
    "| key | default | meaning |\n|---|---|---|",
    *(f"| `{key}` | {default} | {meaning} |" for key, (default, meaning) in METHOD_KEYS.items()),
    "",
])  # fmt: skip
SECTIONS = {
    "[[corpora]]": sections.CorpusConfig,
    "[experiment]": sections.ExperimentConfig,
    "[training_sets.NAME]": sections.TrainingSetConfig,
    "[negatives]": BleuConfig,
    "[targets]": sections.TargetsConfig,
    "[evaluation]": EvaluationConfig,
    "[settings_search]": sections.SettingsSearchConfig,
    "[mteb]": sections.MtebConfig,
    "[exports]": sections.ExportsConfig,
    "[warehouse]": sections.WarehouseConfig,
}


def reference() -> str:
    """Return all sections, encoder kinds, methods and presets; a key that methods inherit has one row."""
    kinds = {f'[[encoders]], kind = "{kind}"': encoder_kind(kind) for kind in ENCODER_KINDS}
    groups: dict[type, list[str]] = {}
    for name in methods.METHODS:
        groups.setdefault(type(methods.method(name).presets["paper"]), []).append(name)
    bases = [base for base in dict.fromkeys(base for kind in groups for base in _bases(kind)) if base not in groups]
    parts = [
        INTRODUCTION,
        *(part for name, kind in (SECTIONS | kinds).items() for part in _section(f"## `{name}`", name, kind)),
        OWN_KEYS,
        *(_methods(names, groups) for names in groups.values() if not _is_tuned(names)),
        "## Methods that fine-tune the encoder\n",
        *(_methods(names, groups) for names in groups.values() if _is_tuned(names)),
        "## Keys that methods share\n",
        *("\n".join([f"### `{base.__name__}`\n", f"{prose(base)}\n", *_of_users(base, {})]) for base in bases),
    ]
    return "\n".join(parts)


def _is_tuned(names: Sequence[str]) -> bool:
    return isinstance(methods.method(names[0]), FineTunedMethod | TaggingMethod)


def method_reference(name: str) -> str:
    """Return all keys of one method, and its presets."""
    name = methods.ALIASES.get(name, name)
    bases = _bases(type(methods.method(name).presets["paper"]))
    return "\n".join([_methods([name]), *(f"`{base.__name__}`: {prose(base)}\n" for base in bases)])


def configured_reference(named: MethodConfig) -> str:
    """Return what the configuration sets of a method that it names, and all keys of the method."""
    values = _assigned(named.changed) or "the defaults"
    return f"`{named.name}` is `{named.base}` with {values}.\n\n{method_reference(named.base)}"


def _methods(names: Sequence[str], groups: Mapping[type, Sequence[str]] | None = None) -> str:
    """Document the methods of one settings class: defaults are those of the first, changes of the presets follow.

    With `groups`, which maps settings classes to their methods, inherited keys are only named.
    """
    base = methods.method(names[0]).presets["paper"]
    lines = []
    for name in names:
        for preset, settings in methods.method(name).presets.items():
            changed = {key: value for key, value in asdict(settings).items() if value != asdict(base)[key]}
            if changed or preset != "paper":  # every method has that, with the defaults
                lines.append(f"- `{name}`, preset `{preset}`: {_assigned(changed) or 'as above'}")
    kind, title = type(base), ", ".join(f"`{name}`" for name in names)
    if not fields(base):
        tables = ["No keys.", ""]
    elif groups is None:
        tables = [_table(kind, asdict(base), _names(kind)), ""]
    else:
        tables = [*_of_users(kind, asdict(base)), *_inherited(base, groups)]
    return "\n".join([f"### {title}\n", f"{prose(kind)}\n", *tables, *lines, ""])


def _of_users(kind: type, values: Mapping[str, Any]) -> list[str]:
    """Return the table of the keys that a class adds, and a line that names its keys of published code."""
    declared = [field for field in fields(kind) if field.name in _declared(kind)]
    hidden = [field.name for field in declared if field.metadata == OF_PUBLISHED_CODE]
    shown = [field.name for field in declared if field.name not in hidden]
    table = [_table(kind, values, shown), ""] if shown else []
    listed = ", ".join(f"`{name}`" for name in hidden)
    introduction = "To repeat the code of papers where it differs from them (`disent settings METHOD` has the values)"
    return [*table, *([f"{introduction}: {listed}.\n"] if hidden else [])]


def _inherited(settings: Any, groups: Mapping[type, Sequence[str]]) -> list[str]:
    """Return a line that names the classes, or methods, whose keys a method inherits, and the defaults it changes."""
    kind, classes = type(settings), []
    for base in _bases(kind):
        defaults = {field.name: default_of(field) for field in fields(base)}
        names = [name for name in _declared(base) if _owner(kind, name) is base]
        changed = {name: value for name in names if (value := getattr(settings, name)) != defaults[name]}
        if names:
            owner = groups[base][0] if base in groups else base.__name__
            classes.append(f"`{owner}`" + (f" ({_assigned(changed)})" if changed else ""))
    return [f"And the keys of {', '.join(classes)}.\n"] if classes else []


def _assigned(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key} = {_toml(value)}`" for key, value in values.items())


def _section(title: str, name: str, kind: type, values: Mapping[str, Any] | None = None) -> Iterator[str]:
    yield "\n".join([f"{title}\n", f"{prose(kind)}\n", _table(kind, values or {}, _names(kind)), ""])
    for field in fields(kind):
        default = default_of(field)
        if is_dataclass(default) and not isinstance(default, type):
            inner = f"[{name.strip('[]')}.{field.name}]"
            yield from _section(f"### `{inner}`", inner, type(default), asdict(default))


def _table(kind: type, values: Mapping[str, Any], names: Collection[str]) -> str:
    """Return rows of these keys; `values` replace the defaults of the class."""
    hints = hints_of(kind)
    meanings = meanings_of(kind)
    rows = ["| key | default | or | meaning |", "|-|-|-|-|"]
    for field in (field for field in fields(kind) if field.name in names):
        default = values.get(field.name, default_of(field))
        shown = "required" if default is MISSING else "its own section" if is_dataclass(default) else _code(default)
        shown = "all" if default == tuple(TASKS) else shown
        owner = _owner(kind, field.name)
        meaning = meanings.get(field.name) or ("" if owner is kind else f"see `{owner.__name__}`")
        rows.append(f"| `{field.name}` | {shown} | {_values(hints[field.name], default)} | {meaning} |")
    return "\n".join(rows)


def default_of(field: Field[Any]) -> Any:
    """Return the default of a key, `MISSING` without one."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _owner(kind: type, name: str) -> type:
    return next(base for base in kind.__mro__ if name in _declared(base))


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


@cache
def _declared(kind: type) -> Sequence[str]:
    """Return the keys that a class adds, describes again or gives other types; another default alone does not count."""
    if not is_dataclass(kind):
        return []
    hints, inherited = get_type_hints(kind), ChainMap(*map(get_type_hints, kind.__mro__[1:-1]))
    return [name for name in _names(kind) if hints[name] != inherited.get(name) or name in described(kind)]


def _bases(kind: type) -> list[type]:
    """Return the classes from which keys are inherited."""
    return [base for base in kind.__mro__[1:] if is_dataclass(base) and fields(base)]


def _doc(kind: type) -> str:
    docstring = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    return "" if docstring.startswith(f"{kind.__name__}(") else docstring  # the docstring that `dataclass` generates


def prose(kind: type) -> str:
    """Return the docstring of a class without the descriptions of its keys."""
    return re.split(r"\n*^Attributes:$", _doc(kind), flags=re.MULTILINE)[0]


def meanings_of(kind: type) -> Mapping[str, str]:
    """Map the keys of a class, inherited ones included, to their descriptions."""
    return ChainMap(*(described(base) for base in (kind, *_bases(kind))))


def described(kind: type) -> dict[str, str]:
    """Map keys to their descriptions in the docstring of the class."""
    _, _, attributes = _doc(kind).partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, flags=re.MULTILINE)
    return {key: " ".join(text.split()).replace("|", "\\|") for key, text in entries}


def _values(hint: Any, default: Any = None) -> str:
    """Describe the allowed values of a key: options beside the default, which also tells the type of a number."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return f"{_values(inner[0], default)} {_bounds(hint)}".strip()
    if get_origin(hint) is Literal or hint is bool:
        return ", ".join(_code(option) for option in inner or (True, False) if option != default)
    if get_origin(hint) in (tuple, dict):
        return f"list of {_values(inner[0])}" if get_origin(hint) is tuple else f"table of {_values(inner[1])}"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_values(option) for option in inner if option is not NoneType)
    if type(default) is hint and hint in (int, float):
        return ""
    name: str = hint.__name__
    return "table" if is_dataclass(hint) else {"str": "string"}.get(name, name)


def _bounds(hint: Any) -> str:
    """Describe the bounds of a number, except those that only refuse the absurd."""
    least, bounds = "at least", bounds_of(hint)
    bounds = {name: bound for name, bound in bounds.items() if abs(bound) < 1_000 or (name == least and bound > 0)}
    if bounds.keys() == {"at least", "at most"}:
        return f"{bounds['at least']:,} to {bounds['at most']:,}"
    return ", ".join(f"{_SIGNS[word]} {bound:,}" for word, bound in bounds.items())


_SIGNS = {"at least": ">=", "above": ">", "at most": "<=", "below": "<"}


def _code(value: Any) -> str:
    return "none" if value is None else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


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
