"""Regular expressions: each is listed with what it reads, and those that read what others wrote take linear time."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path

import pytest

from harness.fuzz.run import SECONDS_A_BYTE, TooSlowError, limited_time

ROOT = Path(__file__).parents[2]

TRUSTED = {
    "disent_assets.lineage.metadata": "what the UI shows of our tables",
    "disent_assets.cli.queries": "what Linux says of a process",
    "disent_assets.lineage.refresh": "a selection of whoever types it",
    "disent_assets.warehouse.build": "our SQL files, and a query of whoever types it",
    "disent_assets.lineage.factory": "names of assets",
    "disent_assets.run.error_messages": "tracebacks of Python",
    "disent_assets.settings.results_folder": "names of folders",
    "disent_assets.run.plan": "a selection of whoever types it",
    "disent_assets.run.progress": "lines of our log",
    "disent_assets.warehouse.sql_files": "our SQL files",
    "disent_assets.warehouse.costs": "what Linux says of the process",
    "disent_core.config.load": "errors of tomllib",
    "disent_core.config.reference": "our docstrings",
    "disent_core.config.toml_lines": "lines of the configuration, which are bounded",
    "disent_core.corpora.formats.mlqe": "names of files",
    "disent_core.corpora.formats.sts": "names of files",
    "disent_core.lineage.history": "names of files",
    "disent_core.methods.spec": "what Linux says of the processor",
    "disent_core.progress": "lines of our log",
    "disent_core.report.document": "names of views",
    "disent_core.report.style": "pictures of matplotlib",
    "disent_core.storage.bucket": "errors of obstore",
    "disent_core.storage.files": "names of files and errors of the system",
    "disent_core.storage.remote": "keys of our objects",
}
UNTRUSTED = {
    "disent_assets.web.search_page.app", "disent_core.evaluation.mteb_results",
    "disent_assets.cli.output.tables", "disent_core.corpora.annotation", "disent_core.corpora.languages",
    "disent_core.storage.download", "disent_core.corpora.formats.conll", "disent_core.corpora.formats.xsid",
    "disent_core.corpora.lines", "disent_core.config.sections",
    "disent_core.encoders.kinds.distilled.pairs", "disent_core.encoders.kinds.distilled.aligned",
    "disent_core.encoders.tokens", "disent_core.registry", "disent_core.static_folder", "disent_core.storage.names",
    "disent_core.targets.code_switching", "disent_core.text",
}  # fmt: skip
_CALLS = {f"re.{name}" for name in ("compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub")}


@cache
def modules() -> dict[str, list[ast.Call]]:
    """Calls of `re` by module."""
    calls: dict[str, list[ast.Call]] = {}
    for path in sorted([*ROOT.glob("disent_core/**/*.py"), *ROOT.glob("disent_assets/**/*.py")]):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
                calls.setdefault(name, []).append(node)
    return calls


def patterns(module: str) -> Iterator[re.Pattern[str]]:
    """Patterns of a module: those that it names, and those that it writes where it uses them."""
    loaded = import_module(module)
    yield from (value for value in vars(loaded).values() if isinstance(value, re.Pattern))
    for call in modules()[module]:
        if ast.unparse(call.func) != "re.compile" and isinstance(call.args[0], ast.Constant):
            yield re.compile(str(call.args[0].value))


def test_every_module_with_patterns_is_listed():
    assert set(modules()) == set(TRUSTED) | UNTRUSTED


UNITS = (
    "a", " ", "\t", "\n", "[", "]", "[a : b] ", "aA", "1", ".", "a.", "-", "en-", "aa-", "_", "#", "# a", ":", "|", "<",
    "`", "\\", "the ", "\u0301", "\x1b", "<mask>", "\ue000",
)  # fmt: skip
STRIPPED = {"disent_core.targets.code_switching"}
"""A search of texts without white space at their end, each character of which would begin one."""


def lines_that_repeat(unit: str) -> Iterator[str]:
    for before, after in product(("", "#", "[", "a"), ("", "!", "\n", " ")):
        yield before + unit * (20_000 // len(unit)) + after


@pytest.mark.parametrize("module", sorted(UNTRUSTED))
def test_patterns_on_untrusted_text_take_linear_time(module):
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    is_searched = re.search(r"\.(search|findall|finditer|split|sub)\(", source) is not None
    regexes = list(patterns(module))
    assert regexes
    for pattern, unit in product(regexes, UNITS):
        for line in lines_that_repeat(unit):
            text = line.rstrip() if module in STRIPPED else line
            with limited_time(0.5 + SECONDS_A_BYTE * len(text)):
                pattern.match(text)
                pattern.fullmatch(text)
                for _ in pattern.finditer(text) if is_searched else ():  # a list of them would wake the collector
                    pass


def test_a_pattern_that_backtracks_is_found():
    with pytest.raises(TooSlowError), limited_time(0.2):
        re.fullmatch(r"\s*([^\s:]+)\s*:\s*(\S.*?)\s*", f"x : a{' ' * 20_000}b]", re.DOTALL)
