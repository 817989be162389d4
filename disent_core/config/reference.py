"""Document every key of the configuration as Markdown, from the settings classes: `docs/configuration.md`."""

import inspect
import json
import re
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from disent_core import methods
from disent_core.config import sections
from disent_core.config.model import MethodConfig
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.negatives.config import BleuConfig
from disent_core.settings import LARGEST, OF_PUBLISHED_CODE, bounds_of, hints_of

INTRODUCTION = """\
# Configuration

Made by `disent settings > docs/configuration.md`; `disent settings METHOD` lists one method's keys. Strings are
shown as TOML has them; a default `none` is what holds where the key is left out. An unknown key is an error. Paths
are relative to the file. Editors complete and check a file whose first line is `#:schema disent.schema.json`, with the
JSON Schema that `disent settings --schema` prints and `disent init` writes.
"""
METHOD_KEYS = {
    "method": ("NAME", "the method: one of those below, or one of your own as `package.module:ATTRIBUTE`"),
    "preset": ('`"paper"`', "the preset that the method's keys start from; every method has one named `paper`"),
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
        *(_methods(names, groups) for names in groups.values()),
        "## Keys that methods share\n",
        *("\n".join([f"### `{base.__name__}`\n", f"{prose(base)}\n", *_of_users(base, {})]) for base in bases),
    ]
    return "\n".join(parts)


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
            note = " (every method's default is named so)" if preset == "paper" else ""
            lines.append(f"- `{name}`, preset `{preset}`: {_assigned(changed) or 'as above'}{note}")
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
    """Yield a section, and the sections inside it."""
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
    rows = ["| key | default | values | meaning |", "|---|---|---|---|"]
    for field in (field for field in fields(kind) if field.name in names):
        default = values.get(field.name, default_of(field))
        shown = "required" if default is MISSING else "its own section" if is_dataclass(default) else _code(default)
        owner = _owner(kind, field.name)
        meaning = meanings.get(field.name) or ("" if owner is kind else f"see `{owner.__name__}`")
        rows.append(f"| `{field.name}` | {shown} | {_values(hints[field.name])} | {meaning} |")
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


def _values(hint: Any) -> str:
    """Describe the allowed values of a key."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return f"{_values(inner[0])}{_bounds(hint)}"
    if get_origin(hint) is Literal:
        return ", ".join(_code(option) for option in inner)
    if get_origin(hint) in (tuple, dict):
        return f"list of {_values(inner[0])}" if get_origin(hint) is tuple else f"table of {_values(inner[1])}"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_values(option) for option in inner if option is not NoneType)
    if is_dataclass(hint):
        return "table"
    name: str = hint.__name__
    return {"str": "string", "bool": "true, false"}.get(name, name)


def _bounds(hint: Any) -> str:
    """Describe the bounds of a number, except those that only refuse the absurd."""
    bounds = {word: bound for word, bound in bounds_of(hint).items() if abs(bound) not in (LARGEST, 2**63 - 1)}
    if bounds.keys() == {"at least", "at most"}:
        return f", {bounds['at least']:,} to {bounds['at most']:,}"
    return "".join(f", {word} {bound:,}" for word, bound in bounds.items())


def _code(value: Any) -> str:
    return "none" if value is None else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
