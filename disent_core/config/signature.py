"""Tell whether two configurations are the same, also across processes."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from types import FunctionType

from disent_core.config.model import Config
from disent_core.storage.tables import fingerprint


def signature(config: Config) -> str:
    """Fingerprint of everything in a configuration; equal configurations have one in every process."""
    return fingerprint(_parts(config))


def _parts(value: object) -> object:
    """What a value consists of, in words that do not depend on the process.

    The `repr` of a set has the order of hashes that each process draws anew, that of a function has its address.
    """
    if is_dataclass(value):
        named = ((field.name, _parts(getattr(value, field.name))) for field in fields(value))
        return [type(value).__name__, *named]
    if isinstance(value, Mapping):
        return [(_parts(key), _parts(inner)) for key, inner in value.items()]
    if isinstance(value, Set):
        return sorted(map(repr, value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(map(_parts, value))
    return f"{value.__module__}:{value.__qualname__}" if isinstance(value, FunctionType) else repr(value)
