"""Every key of the configuration, as Markdown made from the dataclasses themselves: `docs/configuration.md`."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from disent_core import heads
from disent_core.config.sections import CorpusConfig, ExperimentConfig, TargetsConfig
from disent_core.encoders import ENCODER_KINDS, encoder_module
from disent_core.errors import ConfigError
from disent_core.evaluation.contract import EvaluationConfig
from disent_core.negatives import BleuConfig

INTRODUCTION = """\
# Configuration

Made by `disent settings > docs/configuration.md`; `disent settings METHOD` tells one method's keys. Strings are
shown as TOML has them; a default `none` is what holds where the key is left out. An unknown key is an error. Paths
are relative to the file.
"""
OWN_KEYS = """\
## `[methods.NAME]`

Any name, under which the metrics have it. Beside the keys of the method, all of which override its preset:

| key | default | meaning |
|---|---|---|
| `method` | NAME | the method, one of those below |
| `preset` | `"paper"` | the preset that the method's keys start from |
| `encoders` | all | names of the encoders that it runs on |
| `pairs` | `experiment.pairs` | what it is trained and measured on |
| `seeds` | `experiment.seeds` | of a method in which something is random |
| `corpora` | all with `train = true` | of a method that tags: those it learns from, whatever their `train` says |
"""
SECTIONS = {
    "[[corpora]]": CorpusConfig,
    "[experiment]": ExperimentConfig,
    "[negatives]": BleuConfig,
    "[targets]": TargetsConfig,
    "[evaluation]": EvaluationConfig,
}


def reference() -> str:
    """Every section, encoder kind, method and preset."""
    kinds = {f'[[encoders]], kind = "{kind}"': encoder_module(kind).CONFIG for kind in ENCODER_KINDS}
    groups: dict[type, list[str]] = {}
    for name in heads.METHODS:
        groups.setdefault(type(heads.method(name).presets["paper"]), []).append(name)
    bases = dict.fromkeys(base for kind in groups for base in _bases(kind))
    parts = [
        INTRODUCTION,
        *(part for name, kind in (SECTIONS | kinds).items() for part in _section(f"## `{name}`", name, kind)),
        OWN_KEYS,
        *(_methods(names) for names in groups.values()),
        "## Keys that methods share\n",
        *(f"### `{base.__name__}`\n\n{_prose(base)}\n" for base in bases),
    ]
    return "\n".join(parts)


def method_reference(name: str) -> str:
    """The keys of one method, and its presets.

    Raises:
        ConfigError: if there is no such method.
    """
    if name not in heads.METHODS:
        raise ConfigError(f"unknown method {name!r}; choose one of {', '.join(heads.METHODS)}")
    bases = _bases(type(heads.method(name).presets["paper"]))
    return "\n".join([_methods([name]), *(f"`{base.__name__}`: {_prose(base)}\n" for base in bases)])


def _methods(names: Sequence[str]) -> str:
    """Methods that share their keys: defaults are those of the first, and what each preset has instead follows."""
    base = heads.method(names[0]).presets["paper"]
    lines = []
    for name in names:
        for preset, settings in heads.method(name).presets.items():
            other = {key: value for key, value in asdict(settings).items() if value != asdict(base)[key]}
            said = ", ".join(f"`{key} = {_toml(value)}`" for key, value in other.items())
            lines.append(f"- `{name}`, preset `{preset}`: {said or 'as above'}")
    title = ", ".join(f"`{name}`" for name in names)
    table = _table(type(base), asdict(base)) if fields(base) else "No keys."
    return "\n".join([f"### {title}\n", f"{_prose(type(base))}\n", table, "", *lines, ""])


def _section(title: str, name: str, kind: type, values: Mapping[str, Any] | None = None) -> Iterator[str]:
    """A section, and those within it."""
    yield "\n".join([f"{title}\n", f"{_prose(kind)}\n", _table(kind, values or {}), ""])
    for field in fields(kind):
        own = _default(field)
        if is_dataclass(own) and not isinstance(own, type):
            inner = f"[{name.strip('[]')}.{field.name}]"
            yield from _section(f"### `{inner}`", inner, type(own), asdict(own))


def _table(kind: type, values: Mapping[str, Any]) -> str:
    hints, said = get_type_hints(kind), _attributes(kind)
    rows = ["| key | default | values | meaning |", "|---|---|---|---|"]
    for field in fields(kind):
        default = values.get(field.name, _default(field))
        shown = "required" if default is MISSING else "its own section" if is_dataclass(default) else _code(default)
        meaning = said.get(field.name) or _declared(kind, field.name)
        rows.append(f"| `{field.name}` | {shown} | {_values(hints[field.name])} | {meaning} |")
    return "\n".join(rows)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _declared(kind: type, name: str) -> str:
    """Where a key without a line of its own is told of, if that is elsewhere."""
    owner = next(base for base in kind.__mro__ if name in inspect.get_annotations(base))
    return "" if owner is kind else f"see `{owner.__name__}`"


def _bases(kind: type) -> list[type]:
    """Classes from which keys are inherited."""
    return [base for base in kind.__mro__[1:] if is_dataclass(base) and fields(base)]


def _doc(kind: type) -> str:
    text = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    return "" if text.startswith(f"{kind.__name__}(") else text  # what `dataclass` writes where there is none


def _prose(kind: type) -> str:
    return re.split(r"\n*^Attributes:$", _doc(kind), flags=re.MULTILINE)[0]


def _attributes(kind: type) -> dict[str, str]:
    """Key -> what the docstrings say of it, that of the class before those of its bases."""
    found: dict[str, str] = {}
    for base in (kind, *_bases(kind)):
        _, _, listed = _doc(base).partition("Attributes:\n")
        for key, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, flags=re.MULTILINE):
            found.setdefault(key, " ".join(text.split()).replace("|", "\\|"))
    return found


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
