"""Find parts by name: those of the library in a registry, those of a user by their module."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from disent_core.errors import ConfigError

_REFERENCE = re.compile(r"[^\W\d]\w*(\.\w+)*(:\w+)?")


def is_import(name: str) -> bool:
    """Return whether a name is that of a module (`my_package.rotation`) or of its attribute (`rotation:METHOD`)."""
    return _REFERENCE.fullmatch(name) is not None and not name.isidentifier()


def find(kind: str, name: str, registry: Mapping[str, str], attribute: str = "", *, also: Iterable[str] = ()) -> Any:
    """Return a part by its name in the registry, or by its module, `module` or `module:ATTRIBUTE`.

    The registry maps names to such references and goes first. `attribute` is the default attribute of a module, empty
    for the module itself; `kind` is the word for such a part in messages, e.g. `method`. `also` are other names, which
    a message suggests if none in the registry is close.
    """
    if name not in registry and not is_import(name) and not _is_module(name):
        reference = "package.module:ATTRIBUTE" if attribute else "package.module"
        choices = f"choose one of {', '.join(registry)}, or name one of your own as {reference}"
        suggestion = nearest(name, registry) or nearest(name, also)
        raise ConfigError(f"unknown {kind} {name!r}{suggestion}; {choices}")
    module, _, named_attribute = registry.get(name, name).partition(":")
    imported = import_module(module) if name in registry else _imported(kind, name, module)
    attribute = named_attribute or attribute
    if attribute and not hasattr(imported, attribute):
        raise ConfigError(f"{kind} {name!r}: {module} has no {attribute!r}; name one it has, as {module}:ATTRIBUTE")
    return getattr(imported, attribute) if attribute else imported


def imported(part: Any) -> Any:
    """Return a part, imported first if it is given as a reference `module:ATTRIBUTE`."""
    return find("part of a method", part, {}) if isinstance(part, str) else part


def _is_module(name: str) -> bool:
    """Return whether a bare name is that of a module; a folder without `__init__.py` is not."""
    try:
        spec = find_spec(name) if name.isidentifier() else None
    except ValueError:  # a module that was not imported from a file, such as __main__
        return False
    return spec is not None and spec.origin is not None


def _imported(kind: str, name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        problem = f"there is no module {error.name!r}; install its package, or set PYTHONPATH to its folder"
        raise ConfigError(f"{kind} {name!r}: {problem}") from error
    except (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, RecursionError) as error:
        problem = f"{module} can't be imported ({type(error).__name__}: {error})"
        raise ConfigError(f"{kind} {name!r}: {problem}; fix the module") from error


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelt or cut name, to put behind it in a message; empty if no name is close."""
    names = list(known)
    matches = get_close_matches(str(name), names, n=1) or [known for known in names if known.startswith(str(name))]
    return f" (did you mean {matches[0]!r}?)" if matches else ""
