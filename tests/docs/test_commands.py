"""Every command and option is in the docs, and the docs show none that does not exist."""

import re
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from disent_assets.cli import main
from tools import generated

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")), *ROOT.glob("docs/**/*.md")])
_SHOWN = re.compile(r"^(?:    |\$ ?)(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?disent((?: (?! )[^#\n]*)?)", re.MULTILINE)
_INLINE = re.compile(r"`disent((?: [^`]*)?)`")
_MAKE = re.compile(r"(?:^    |`)make ([a-z][a-z-]*)", re.MULTILINE)
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_OPTIONAL = re.compile(r"[\[\]]|\.\.\.")
_SHELL = re.compile(r"[|>;&].*")


def shown(page: Path) -> list[str]:
    """What stands behind `disent` in the commands of a page, without what a shell does with it."""
    text = page.read_text(encoding="utf-8")
    commands = _SHOWN.findall(text) + _INLINE.findall(text.replace("\n", " "))
    plain = (_SHELL.sub("", _OPTIONAL.sub("", _QUOTED.sub("QUOTED", command))) for command in commands)
    return sorted({command.strip() for command in plain} - {""})


def fault(command: str) -> str | None:
    """Why the command line would refuse a command as it stands; arguments may be left out."""
    words = command.split()
    while words and words[0] in ("--debug", "--help", "--version"):
        words = words[1:]
    if not words or words[0].isupper():
        return None
    known = main.commands.get(words[0])
    if known is None:
        return f"no command {words[0]!r}"
    options = {name for param in known.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    return next((f"no option {word!r}" for word in words if re.match(r"--?[a-z]", word) and word not in options), None)


def test_the_page_of_commands_is_that_of_the_code():
    assert generated.COMMANDS.read_text(encoding="utf-8") == generated.commands(), "run: python -m tools.generated"


def test_the_page_of_commands_has_every_command_and_option():
    text = generated.commands()
    shown = {name: command for name, command in main.commands.items() if not command.hidden}
    for name, command in shown.items():
        (section,) = re.findall(rf"^## disent {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        options = [name for param in command.params if isinstance(param, click.Option) for name in param.opts]
        assert [option for option in options if f"{option} " not in section and f"{option}`" not in section] == []


def test_commands_of_pages_exist_with_their_options():
    assert [(page.name, command, why) for page in PAGES for command in shown(page) if (why := fault(command))] == []


def test_the_targets_of_make_on_pages_exist():
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    assert {target for page in PAGES for target in _MAKE.findall(page.read_text(encoding="utf-8"))} <= targets


def test_unknown_commands_on_pages_are_detected(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("    disent materialise | head\n\n`disent sql\n--from x`, `disent diff [--all]`", encoding="utf-8")
    assert [why for command in shown(page) if (why := fault(command))] == [
        "no command 'materialise'",
        "no option '--from'",
    ]


def test_completion_prints_a_script_for_the_shell_and_bash_reads_it():
    for shell in ("bash", "zsh", "fish"):
        ran = CliRunner().invoke(main, ["completion", shell])
        assert (ran.exit_code, ran.stderr) == (0, "")
        assert f"_DISENT_COMPLETE={shell}_complete" in ran.stdout
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout + "\ncomplete -p disent\n"
    ran = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("-F _disent_completion disent\n")


@pytest.mark.parametrize(("typed", "offered"), [("mater", "plain,materialize"), ("leaderboard --f", "plain,--format")])
def test_what_is_typed_is_completed(typed, offered):
    words = f"disent {typed}"
    environment = {"_DISENT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    ran = CliRunner().invoke(main, prog_name="disent", env=environment)
    assert ran.stdout.split() == [offered]
