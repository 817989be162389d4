"""One check for tables of mistakes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from disent_core.errors import ConfigError

Unexplained = Callable[[str, Mapping[str, tuple[str, ...]]], list[str]]


@pytest.fixture
def unexplained(load: Callable[[str], Any], tmp_path: Path) -> Unexplained:
    """Replace a text of a good file as each mistake does, and list those that are not reported in one line.

    A mistake is the text to replace, its replacement, and the parts of the message; the first is line and key.
    """

    def message_of(text: str) -> str:
        try:
            load(text)
        except ConfigError as error:
            return str(error)
        return "accepted"

    def failures(good: str, mistakes: Mapping[str, tuple[str, ...]]) -> list[str]:
        failed = []
        for name, (old, new, *parts) in mistakes.items():
            assert old in good, name
            message = message_of(good.replace(old, new, 1))
            prefix = f"{tmp_path}/disent.toml:"
            if not (message.startswith(prefix) and "\n" not in message and all(part in message for part in parts)):
                failed.append(f"{name}: {message}")
        return failed

    return failures
