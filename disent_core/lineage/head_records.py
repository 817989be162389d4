"""Check the untrusted record of a head before anything that it names is imported, built or opened.

The record is the description in the file of a head, or `disent_head.json` of an exported folder. It may name parts of
disent; other modules are imported only if the caller allows them by name.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Le, MaxLen
from pydantic import TypeAdapter, ValidationError

from disent_core import methods
from disent_core.encoders import ENCODER_KINDS, encoder_kind
from disent_core.encoders.contract import EncoderConfig
from disent_core.encoders.kinds.huggingface import HuggingFaceConfig
from disent_core.errors import DamagedError, TrainingError, located, quoted
from disent_core.methods.contract import Method
from disent_core.settings import LARGEST_RECORD, STRICT, Seed, Settings, Text
from disent_core.text import parsed_json

Record = TypeVar("Record")
Languages = Annotated[list[Text], MaxLen(10_000)]
FloatType = Literal["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool"]
_AGAIN = "Copy it again, or make it again with this version of disent"


@dataclass(frozen=True, kw_only=True)
class _OfSeed:
    """What differs between the seeds of a tagging head."""

    __pydantic_config__ = STRICT
    classes: Languages = field(default_factory=list)
    languages: Languages = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Description:
    """The keys of a description that are read to open a head."""

    __pydantic_config__ = STRICT
    name: Text
    encoder: Text
    encoder_fingerprint: Text
    reference: Text
    trained_on: Text
    languages: Languages
    dim: Annotated[int, Ge(1), Le(1 << 20)]  # width of the encoder's states, of several layers side by side
    seeds: Annotated[list[Seed], MaxLen(10_000)]
    settings: dict[str, Any]
    encoder_config: dict[str, Any] | None = None
    of_seed: dict[str, _OfSeed] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Weight:
    __pydantic_config__ = STRICT
    file: Text
    name: Text
    dtype: FloatType


@dataclass(frozen=True, kw_only=True)
class _Probes:
    """Texts, or sentences as lists of words, and the head's outputs for them."""

    __pydantic_config__ = STRICT
    texts: list[str] | list[list[str]]
    vectors: dict[str, list[list[float]]]


@dataclass(frozen=True, kw_only=True)
class _Folder:
    __pydantic_config__ = STRICT
    description: _Description
    fingerprint: Text
    seed: Seed | None
    encoder: dict[str, Any] | None
    measured: list[dict[str, Any]]
    probes: _Probes
    weights: dict[str, _Weight]
    files: dict[str, Text]
    tags: Languages = field(default_factory=list)


def read_folder_record(path: Path) -> dict[str, Any]:
    """Read the record of an exported folder as JSON; raise ValueError or OSError if there is none."""
    if not path.is_file() or path.stat().st_size > LARGEST_RECORD:
        raise ValueError("it is not a file, or it is too large")
    record = parsed_json(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    return record


def check_folder_record(path: Path, record: Mapping[str, Any]) -> None:
    """Reject a record of an exported folder that lacks something, or has values of another type."""
    _validated(path, _Folder, record)


def check_description(path: Path, description: Mapping[str, Any]) -> None:
    """Reject the description of a head that lacks something, or has values of another type."""
    _validated(path, _Description, description)


def method_of(path: Path, description: Mapping[str, Any], allowed: Collection[str]) -> tuple[Method[Any], Settings]:
    """Return the method that a checked description names, and its settings within their bounds."""
    reference = description["reference"]
    _require_known(path, "method", reference, {*methods.METHODS, *methods.ALIASES}, allowed)
    method = methods.method(reference)
    settings = _validated(path, type(method.presets["paper"]), description["settings"])
    seeds = [str(seed) for seed in description["seeds"]]
    if method.is_seeded and not seeds:
        raise _refused(path, "seeds: there are none")
    if method.labels and not set(seeds) <= set(description.get("of_seed", {})):
        raise _refused(path, "of_seed: a seed is missing")
    return method, settings


def encoder_of(path: Path, described: Mapping[str, Any], folder: Path, allowed: Collection[str]) -> EncoderConfig:
    """Return the settings that `describe_config` wrote for a file in `folder`."""
    name = described.get("kind")
    _require_known(path, "encoder kind", name, ENCODER_KINDS, allowed)
    kind = encoder_kind(str(name))
    settings = {**kind.earlier_defaults, **described}
    del settings["kind"]
    return _validated(path, kind, settings).resolved(folder)


def encoder_inside(path: Path, described: Mapping[str, Any] | None) -> HuggingFaceConfig:
    """Return the settings of an exported folder's encoder, which must lie inside that folder."""
    described = described or {}
    places = {name: described.get(name) for name in ("kind", "path", "id", "revision")}
    if places != {"kind": "huggingface", "path": ".", "id": None, "revision": None}:
        raise _refused(path, f"encoder: it is {quoted(places)}, not the one in this folder")
    if is_there(adapter := path.with_name("adapter_config.json")):  # it would make another model be loaded
        raise DamagedError(located(adapter, None, "an exported folder must not have an adapter", _AGAIN))
    config = encoder_of(path, described, path.parent.resolve(), ())
    assert isinstance(config, HuggingFaceConfig)
    return config


def is_there(path: Path) -> bool:
    """Whether a file or folder exists; False for names that the system rejects with an error."""
    try:
        return path.exists()
    except OSError:
        return False


def require_inside(folder: Path) -> None:
    """Reject symbolic links that point outside a folder; those in the hub's cache may point to its `blobs`."""
    inside = [folder.resolve()]
    if folder.absolute().parent.name == "snapshots":
        inside.append(folder.absolute().parents[1].resolve() / "blobs")
    for file in folder.rglob("*"):
        if file.is_symlink() and not any(_target(file).is_relative_to(place) for place in inside):
            raise DamagedError(located(file, None, "this link points outside the folder", "Put a copy in its place"))


def _target(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # a circle
        return Path("/")


def _require_known(path: Path, what: str, name: object, known: Collection[str], allowed: Collection[str]) -> None:
    """Reject a module that is not part of disent and not allowed by the caller; nothing is imported."""
    if not isinstance(name, str) or (name not in known and _full(name) not in map(_full, listed(allowed))):
        problem = f"its {what} is {quoted(name)}, which is not part of disent, so it was not imported"
        raise TrainingError(located(path, None, problem, f"If you trust that module, name {quoted(name)} as methods="))


def listed(allowed: Collection[str]) -> Collection[str]:
    """Return the names that a caller allows; a single name is accepted too."""
    return [allowed] if isinstance(allowed, str) else allowed


def _full(reference: str) -> str:
    return reference if ":" in reference else f"{reference}:METHOD"


_adapter = cache(TypeAdapter)  # creating one takes 7 ms per record class


def _validated(path: Path, kind: type[Record], values: Any) -> Record:
    try:
        return _adapter(kind).validate_json(json.dumps(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _refused(path, f"{place}: {first['msg']}" if place else first["msg"]) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(path, str(error)) from error


def _refused(path: Path, problem: str) -> DamagedError:
    return DamagedError(located(path, None, f"this does not describe a head: {problem}", _AGAIN))
