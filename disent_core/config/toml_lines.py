"""The configuration file's lines: where a key is, so that a mistake is shown with file, line and key."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from disent_core.errors import ConfigError
from disent_core.registry import nearest


class Locator:
    """Finds the line of a key in the file, for messages."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()

    def validate(self, kind: Any, value: Any, where: tuple[str | int, ...], also: Sequence[str] = ()) -> Any:
        """The value as the type `kind`; everything that is wrong with it is one `ConfigError`.

        `also` are keys that may stand beside those of `kind`: an unknown one may have meant them.
        """
        try:
            return TypeAdapter(kind).validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            messages = [
                self._message((*where, *one["loc"]), one, _known(kind, one["loc"], also)) for one in error.errors()
            ]
            raise ConfigError("\n".join(messages)) from error

    def fail(self, where: tuple[str | int, ...], found: str) -> NoReturn:
        """Raise a `ConfigError` at a key."""
        raise ConfigError(f"{self.path}:{self.line(where)}: {_dotted(where)}: {found}")

    def line(self, where: Sequence[str | int]) -> int:
        """Line (from 1) of the key, or of the nearest table or key above it."""
        start, end, rest = self._section(where)
        for name in (str(part) for part in rest if isinstance(part, str)):
            for number in range(start, end):
                if re.match(rf"\s*\"?{re.escape(name)}\"?\s*=", self.lines[number]):
                    return number + 1
        return max(start, 1)

    def _section(self, where: Sequence[str | int]) -> tuple[int, int, Sequence[str | int]]:
        """Lines of the innermost table header that the path leads through, and what of the path is left."""
        headers = [
            (number, match.group(1).strip().replace('"', ""))
            for number, line in enumerate(self.lines)
            if (match := re.match(r"\s*\[\[?([^\[\]]+)\]\]?", line))
        ]
        for depth in range(len(where), 0, -1):
            name = ".".join(part for part in where[:depth] if isinstance(part, str))
            same = [number for number, header in headers if header == name]
            nth = next((part for part in where[:depth] if isinstance(part, int)), 0)
            if nth < len(same):
                start = same[nth] + 1
                end = next((number for number, _ in headers if number >= start), len(self.lines))
                return start, end, where[depth:]
        return 0, min((number for number, _ in headers), default=len(self.lines)), where

    def _message(self, where: tuple[str | int, ...], one: Mapping[str, Any], known: Sequence[str]) -> str:
        unknown = f"unknown key{nearest(where[-1] if where else '', known)}"
        what = {
            "extra_forbidden": unknown,
            "unexpected_keyword_argument": unknown,
            "missing": "this key is missing",
            "missing_argument": "this key is missing",
        }
        if one["type"] == "value_error":  # of a whole section: its message begins with the key, `key must` or `key:`
            found = one["msg"].removeprefix("Value error, ")
            key = re.split("[ :]", found, maxsplit=1)[0]
            where = (*where, key) if key in one["input"] else where
            found = found.removeprefix(f"{key}: ")
        else:
            found = what.get(one["type"]) or f"{one['msg']} (found {one['input']!r})"
        return f"{self.path}:{self.line(where)}: {_dotted(where)}: {found}"


def _known(kind: Any, path: Sequence[str | int], also: Sequence[str]) -> list[str]:
    """Keys that may stand where the last one of the path does, `also` in the outermost section."""
    for part in path[:-1]:
        inner = (
            get_args(kind) if isinstance(part, int) else (get_type_hints(kind).get(part),) if is_dataclass(kind) else ()
        )
        kind = inner[0] if inner else None
    own = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    return own if len(path) > 1 else [*own, *also]


def _dotted(where: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
