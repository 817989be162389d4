"""Every key of the configuration, as Markdown made from the dataclasses themselves: `docs/configuration.md`."""

import inspect
import json
import re
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from disent_core import heads
from disent_core.config.sections import CorpusConfig, ExperimentConfig, TargetsConfig
from disent_core.encoders import ENCODER_KINDS, encoder_module
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.negatives import BleuConfig
from disent_core.settings import OF_PUBLISHED_CODE

INTRODUCTION = """\
# Configuration

Made by `disent settings > docs/configuration.md`; `disent settings METHOD` tells one method's keys. Strings are
shown as TOML has them; a default `none` is what holds where the key is left out. An unknown key is an error. Paths
are relative to the file.
"""
OWN_KEYS = """\
## `[methods.NAME]`

NAME is the name of the method in the metrics. The keys of the method override its preset; every method also has:

| key | default | meaning |
|---|---|---|
| `method` | NAME | the method: one of those below, or one of your own as `package.module:ATTRIBUTE` |
| `preset` | `"paper"` | the preset that the method's keys start from |
| `encoders` | all | encoders that the method runs on |
| `pairs` | `experiment.pairs` | language pairs, or mixtures of them, that the method is trained and measured on |
| `seeds` | `experiment.seeds` | random seeds; not allowed for deterministic methods |
| `corpora` | all with `train = true` | corpora that a tagging method trains on, whatever their `train` says |
"""
SECTIONS = {
    "[[corpora]]": CorpusConfig,
    "[experiment]": ExperimentConfig,
    "[negatives]": BleuConfig,
    "[targets]": TargetsConfig,
    "[evaluation]": EvaluationConfig,
}


def reference() -> str:
    """Every section, encoder kind, method and preset; a key that methods inherit has one row."""
    kinds = {f'[[encoders]], kind = "{kind}"': encoder_module(kind).CONFIG for kind in ENCODER_KINDS}
    groups: dict[type, list[str]] = {}
    for name in heads.METHODS:
        groups.setdefault(type(heads.method(name).presets["paper"]), []).append(name)
    bases = [base for base in dict.fromkeys(base for kind in groups for base in _bases(kind)) if base not in groups]
    parts = [
        INTRODUCTION,
        *(part for name, kind in (SECTIONS | kinds).items() for part in _section(f"## `{name}`", name, kind)),
        OWN_KEYS,
        *(_methods(names, groups) for names in groups.values()),
        "## Keys that methods share\n",
        *("\n".join([f"### `{base.__name__}`\n", f"{_prose(base)}\n", *_of_users(base, {})]) for base in bases),
    ]
    return "\n".join(parts)


def method_reference(name: str) -> str:
    """All keys of one method, and its presets.

    Raises:
        ConfigError: if there is no such method.
    """
    name = heads.ALIASES.get(name, name)
    bases = _bases(type(heads.method(name).presets["paper"]))
    return "\n".join([_methods([name]), *(f"`{base.__name__}`: {_prose(base)}\n" for base in bases)])


def _methods(names: Sequence[str], groups: Mapping[type, Sequence[str]] | None = None) -> str:
    """Methods of one settings class: defaults are those of the first, and what each preset has instead follows.

    With `groups`, the methods by their settings classes, inherited keys are named and not shown.
    """
    base = heads.method(names[0]).presets["paper"]
    lines = []
    for name in names:
        for preset, settings in heads.method(name).presets.items():
            other = {key: value for key, value in asdict(settings).items() if value != asdict(base)[key]}
            lines.append(f"- `{name}`, preset `{preset}`: {_assigned(other) or 'as above'}")
    kind, title = type(base), ", ".join(f"`{name}`" for name in names)
    if not fields(base):
        tables = ["No keys.", ""]
    elif groups is None:
        tables = [_table(kind, asdict(base), _names(kind)), ""]
    else:
        tables = [*_of_users(kind, asdict(base)), *_inherited(base, groups)]
    return "\n".join([f"### {title}\n", f"{_prose(kind)}\n", *tables, *lines, ""])


def _of_users(kind: type, values: Mapping[str, Any]) -> list[str]:
    """The table of the keys that a class adds, and a line that names those that are of published code alone."""
    hidden = [field.name for field in fields(kind) if field.metadata == OF_PUBLISHED_CODE]
    names = _declared(kind)
    shown, named = ([name for name in names if (name in hidden) == is_hidden] for is_hidden in (False, True))
    table = [_table(kind, values, shown), ""] if shown else []
    listed = ", ".join(f"`{name}`" for name in named)
    said = "To repeat the code of papers where it differs from them (`disent settings METHOD` has the values)"
    return [*table, *([f"{said}: {listed}.\n"] if named else [])]


def _inherited(settings: Any, groups: Mapping[type, Sequence[str]]) -> list[str]:
    """A line that names the classes, or the methods, whose keys a method has as well, and its own defaults of them."""
    kind, told = type(settings), []
    for base in _bases(kind):
        defaults = {field.name: _default(field) for field in fields(base)}
        names = [name for name in _declared(base) if _owner(kind, name) is base]
        other = {name: value for name in names if (value := getattr(settings, name)) != defaults[name]}
        if names:
            place = groups[base][0] if base in groups else base.__name__
            told.append(f"`{place}`" + (f" ({_assigned(other)})" if other else ""))
    return [f"And the keys of {', '.join(told)}.\n"] if told else []


def _assigned(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key} = {_toml(value)}`" for key, value in values.items())


def _section(title: str, name: str, kind: type, values: Mapping[str, Any] | None = None) -> Iterator[str]:
    """A section, and those within it."""
    yield "\n".join([f"{title}\n", f"{_prose(kind)}\n", _table(kind, values or {}, _names(kind)), ""])
    for field in fields(kind):
        own = _default(field)
        if is_dataclass(own) and not isinstance(own, type):
            inner = f"[{name.strip('[]')}.{field.name}]"
            yield from _section(f"### `{inner}`", inner, type(own), asdict(own))


def _table(kind: type, values: Mapping[str, Any], names: Collection[str]) -> str:
    """Rows of these keys; `values` stand for the defaults of the class."""
    hints = get_type_hints(kind)
    said = ChainMap(*(_described(base) for base in (kind, *_bases(kind))))
    rows = ["| key | default | values | meaning |", "|---|---|---|---|"]
    for field in (field for field in fields(kind) if field.name in names):
        default = values.get(field.name, _default(field))
        shown = "required" if default is MISSING else "its own section" if is_dataclass(default) else _code(default)
        meaning = said.get(field.name) or _elsewhere(kind, field.name)
        rows.append(f"| `{field.name}` | {shown} | {_values(hints[field.name])} | {meaning} |")
    return "\n".join(rows)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _elsewhere(kind: type, name: str) -> str:
    """Where a key without a line of its own is described, if that is in a class from which it is inherited."""
    owner = _owner(kind, name)
    return "" if owner is kind else f"see `{owner.__name__}`"


def _owner(kind: type, name: str) -> type:
    return next(base for base in kind.__mro__ if name in _declared(base))


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def _declared(kind: type) -> list[str]:
    """Keys that a class adds, describes anew or gives other values; another default alone does not count."""
    if not is_dataclass(kind):
        return []
    hints, inherited = get_type_hints(kind), ChainMap(*map(get_type_hints, kind.__mro__[1:-1]))
    return [name for name in _names(kind) if hints[name] != inherited.get(name) or name in _described(kind)]


def _bases(kind: type) -> list[type]:
    """Classes from which keys are inherited."""
    return [base for base in kind.__mro__[1:] if is_dataclass(base) and fields(base)]


def _doc(kind: type) -> str:
    text = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    return "" if text.startswith(f"{kind.__name__}(") else text  # what `dataclass` writes where there is none


def _prose(kind: type) -> str:
    return re.split(r"\n*^Attributes:$", _doc(kind), flags=re.MULTILINE)[0]


def _described(kind: type) -> dict[str, str]:
    """Key -> what the docstring of the class says of it."""
    _, _, listed = _doc(kind).partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, flags=re.MULTILINE)
    return {key: " ".join(text.split()).replace("|", "\\|") for key, text in found}


def _values(hint: Any) -> str:
    """What a key may be, in words."""
    inner = get_args(hint)
    if get_origin(hint) is Literal:
        return ", ".join(_code(one) for one in inner)
    if get_origin(hint) is tuple:
        return f"list of {_values(inner[0])}"
    if get_origin(hint) is dict:
        return f"table of {_values(inner[1])}"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_values(one) for one in inner if one is not NoneType)
    if is_dataclass(hint):
        return "table"
    name: str = hint.__name__
    return {"str": "string", "bool": "true, false"}.get(name, name)


def _code(value: Any) -> str:
    return "none" if value is None else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_toml(one)}" for key, one in value.items())
        return f"{{{inner}}}"
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
