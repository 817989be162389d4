"""Frozen encoders. A new kind is one module and one line here; a module is imported only when it is used."""

from importlib import import_module
from types import ModuleType

ENCODER_KINDS: dict[str, str] = {
    "huggingface": "disent_core.encoders.huggingface",
    "scratch": "disent_core.encoders.pretraining",
    "vectors": "disent_core.encoders.imported",
}
"""Kind, as the configuration names it -> module, which exports its settings class as `CONFIG`."""


def encoder_module(kind: str) -> ModuleType:
    """Return the module of an encoder kind.

    Raises:
        ValueError: if there is no such kind.
    """
    if kind not in ENCODER_KINDS:
        raise ValueError(f"{kind!r} is no encoder kind: choose one of {sorted(ENCODER_KINDS)}")
    return import_module(ENCODER_KINDS[kind])
