"""Validate parts of the configuration file, with errors that show file, line and key."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from disent_core.errors import ConfigError, quoted, shortened
from disent_core.registry import nearest

_MOST_MESSAGES = 20


class TomlErrors:
    """The errors of one TOML file: each names the file, the line and the key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()

    def validate(self, kind: Any, value: Any, key_path: tuple[str | int, ...], also: Sequence[str] = ()) -> Any:
        """Return the value as the type `kind`; report all its mistakes in one `ConfigError`.

        `also` are further valid keys: one of them is suggested if an unknown key looks like a misspelling of it.
        """
        try:
            return TypeAdapter(kind).validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            mistakes = error.errors()
            if mistakes[0]["type"] == "json_invalid":  # pydantic's own limit; json's is lower in Python 3.11
                raise self._too_deep() from error
            messages = [
                self._message((*key_path, *mistake["loc"]), mistake, _allowed_keys(kind, mistake["loc"], also))
                for mistake in mistakes[:_MOST_MESSAGES]
            ]
            more = [f"and {len(mistakes) - len(messages):,} more"] if len(mistakes) > len(messages) else []
            raise ConfigError("\n".join([*messages, *more])) from error
        except RecursionError as error:
            raise self._too_deep() from error

    def _too_deep(self) -> ConfigError:
        return ConfigError(f"{self.path}:1: a table is nested too deeply; no key has more than four parts")

    def fail(self, key_path: tuple[str | int, ...], problem: str) -> NoReturn:
        """Raise a `ConfigError` at a key."""
        raise ConfigError(f"{self.path}:{self.line(key_path)}: {_dotted(key_path)}: {shortened(problem)}")

    def line(self, key_path: Sequence[str | int]) -> int:
        """Line (from 1) of the key, or of the nearest table or key above it."""
        start, end, rest = self._section(key_path)
        for name in (str(part) for part in rest if isinstance(part, str)):
            for number in range(start, end):
                if re.match(rf"\s*\"?{re.escape(name)}\"?\s*=", self.lines[number]):
                    return number + 1
        return max(start, 1)

    def _section(self, key_path: Sequence[str | int]) -> tuple[int, int, Sequence[str | int]]:
        """Return the lines of the innermost table that the path leads through, and the remaining path."""
        headers = [
            (number, match.group(1).strip().replace('"', ""))
            for number, line in enumerate(self.lines)
            if (match := re.match(r"\s*\[\[?([^\[\]]+)\]\]?", line))
        ]
        for depth in range(len(key_path), 0, -1):
            name = ".".join(part for part in key_path[:depth] if isinstance(part, str))
            lines_of_header = [number for number, header in headers if header == name]
            index = next((part for part in key_path[:depth] if isinstance(part, int)), 0)
            if index < len(lines_of_header):
                start = lines_of_header[index] + 1
                end = next((number for number, _ in headers if number >= start), len(self.lines))
                return start, end, key_path[depth:]
        return 0, min((number for number, _ in headers), default=len(self.lines)), key_path

    def _message(self, key_path: tuple[str | int, ...], mistake: Mapping[str, Any], allowed: Sequence[str]) -> str:
        if mistake["type"] == "value_error":  # an error of a section begins with its key: `key must` or `key:`
            problem = mistake["msg"].removeprefix("Value error, ")
            key = re.split("[ :]", problem, maxsplit=1)[0]
            key_path = (*key_path, key) if key in mistake["input"] else key_path
            problem = problem.removeprefix(f"{key}: ")
        elif mistake["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            problem = f"unknown key{nearest(key_path[-1] if key_path else '', allowed)}"
        elif mistake["type"] in ("missing", "missing_argument"):
            problem = "this key is missing"
        else:
            problem = f"{_KINDS.get(mistake['type'], mistake['msg'])} (found {quoted(mistake['input'])})"
        return f"{self.path}:{self.line(key_path)}: {_dotted(key_path)}: {shortened(problem)}"


_KINDS = {
    **dict.fromkeys(("list_type", "tuple_type"), "this must be a list, in brackets"),
    **dict.fromkeys(("dict_type", "dataclass_type", "model_type"), "this must be a table"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "this must be true or false, without quotes"),
    **dict.fromkeys(("int_type", "int_parsing"), "this must be a whole number, without quotes"),
    **dict.fromkeys(("float_type", "float_parsing"), "this must be a number, without quotes"),
    "string_type": "this must be a text, in quotes",
}
"""Types of pydantic's errors -> what to write."""


def _allowed_keys(kind: Any, path: Sequence[str | int], also: Sequence[str]) -> list[str]:
    """Return the keys allowed in place of the last one of the path, with `also` in the outermost section."""
    for part in path[:-1]:
        if isinstance(part, int):
            kind = next(iter(get_args(kind)), None)
        else:
            kind = get_type_hints(kind).get(part) if is_dataclass(kind) else None
    keys = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    return keys if len(path) > 1 else [*keys, *also]


def _dotted(key_path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path).lstrip(".")
