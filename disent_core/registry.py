"""Parts by name: those of the library stand in a registry, those of a user are named by the module that has them."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from disent_core.errors import ConfigError

_REFERENCE = re.compile(r"[^\W\d]\w*(\.\w+)*(:\w+)?")


def is_import(name: str) -> bool:
    """Whether a name is that of a module (`my_package.rotation`) or of what it has (`rotation:METHOD`)."""
    return _REFERENCE.fullmatch(name) is not None and not name.isidentifier()


def find(kind: str, name: str, registry: Mapping[str, str], attribute: str = "") -> Any:
    """A part by its name in the registry, or by its module.

    Args:
        kind: what messages call such a part, `method`.
        name: a name in the registry, `module` or `module:ATTRIBUTE`.
        registry: from names to modules, `module` or `module:ATTRIBUTE` too.
        attribute: what is taken of a module where no attribute is named; empty: the module itself.

    Raises:
        ConfigError: if there is no such name, module or attribute, or the module can't be imported.
    """
    if name not in registry and not is_import(name):
        choices = f"choose one of {', '.join(registry)}, or name one of your own as package.module:ATTRIBUTE"
        raise ConfigError(f"unknown {kind} {name!r}{nearest(name, registry)}; {choices}")
    module, _, named = registry.get(name, name).partition(":")
    imported = import_module(module) if name in registry else _imported(kind, name, module)
    wanted = named or attribute
    if wanted and not hasattr(imported, wanted):
        raise ConfigError(f"{kind} {name!r}: {module} has no {wanted!r}; name what it has, as {module}:ATTRIBUTE")
    return getattr(imported, wanted) if wanted else imported


def _imported(kind: str, name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        found = f"there is no module {error.name!r}"
        raise ConfigError(f"{kind} {name!r}: {found}; install its package, or set PYTHONPATH to its folder") from error
    except (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError) as error:
        found = f"{module} can't be imported, {type(error).__name__}: {error}"
        raise ConfigError(f"{kind} {name!r}: {found}; mend the module") from error


def nearest(name: object, known: Iterable[str]) -> str:
    """What a misspelt name may have meant, to be put behind a message; empty where nothing is near."""
    near = get_close_matches(str(name), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
