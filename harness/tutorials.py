"""Run a page of docs/tutorials as a reader would: in a folder, block by block."""

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from disent_assets.cli import main

PAGES = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Reader:
    """Writes titled blocks to files, runs Python and commands, and checks that commands print the `text` blocks."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.printed = folder, ""
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        patch.setenv("DISENT_WORKERS", "1")  # in this process
        self._patch = patch

    def read(self, page: str) -> None:
        names: dict[str, Any] = {}
        for kind, title, text in _BLOCK.findall((PAGES / page).read_text(encoding="utf-8")):
            if title:
                path = self.folder / title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            elif kind == "python":
                exec(compile(text, page, "exec"), names)
            elif kind == "sh":
                self.printed = "".join(self._run(line) for line in text.replace("\\\n", "").splitlines())
            elif kind == "text":
                assert missing(text, self.printed) == [], self.printed
            else:
                raise AssertionError(f"{page}: a block of {kind!r} is not run")

    def _run(self, line: str) -> str:
        command, *words = shlex.split(line, comments=True)
        if command == "export":
            for name, value in (word.split("=", 1) for word in words):
                self._patch.setenv(name, os.path.expandvars(value))
            return ""
        assert command == "disent", line
        ran = CliRunner().invoke(main, words, catch_exceptions=False)
        assert ran.exit_code == 0, f"{line}\n{ran.output}"
        return ran.stdout


def missing(expected: str, printed: str) -> list[str]:
    """Return the lines of a page that a command did not print; numbers and widths may differ."""
    there = {_masked(line) for line in printed.splitlines()}
    return [line for line in expected.splitlines() if _masked(line) not in there]


def _masked(line: str) -> str:
    return " ".join(_NUMBER.sub("N", line).split())
