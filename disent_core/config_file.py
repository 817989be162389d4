"""The configuration file's lines: where a key is, so that a mistake is shown with file, line and key."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from disent_core.errors import ConfigError


class Locator:
    """Finds the line of a key in the file, for messages."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()

    def validate(self, kind: Any, value: Any, where: tuple[str | int, ...]) -> Any:
        """The value as the type `kind`; everything that is wrong with it is one `ConfigError`."""
        try:
            return TypeAdapter(kind).validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            messages = [self._message((*where, *one["loc"]), one) for one in error.errors()]
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

    def _message(self, where: tuple[str | int, ...], one: Mapping[str, Any]) -> str:
        what = {
            "extra_forbidden": "unknown key",
            "unexpected_keyword_argument": "unknown key",
            "missing": "this key is missing",
            "missing_argument": "this key is missing",
        }
        if one["type"] == "value_error":  # of a whole section: its message begins with the key and names the value
            found = one["msg"].removeprefix("Value error, ")
            key = found.split(" ", 1)[0]
            where = (*where, key) if key in one["input"] else where
        else:
            found = what.get(one["type"]) or f"{one['msg']} (found {one['input']!r})"
        return f"{self.path}:{self.line(where)}: {_dotted(where)}: {found}"


def _dotted(where: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
