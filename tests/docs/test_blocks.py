"""Every block of code of the pages is run by a test, is read by the program that it is for, or says why not."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from disent_core.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("*.md", "docs/**/*.md", "data/corpora/*.md", "sql/**/*.md", "deploy/**/*.md")
PAGES = sorted(page for pattern in FOLDERS for page in ROOT.glob(pattern))
PYTHON, SQL, TUTORIAL = ({"python"}, {"sql"}, {"python", "sh"})
RUN = {
    "README.md": (PYTHON, "tests/end_to_end/test_tutorials.py"),
    "docs/classify.md": (PYTHON, "tests/end_to_end/test_tutorials.py"),
    "docs/extending.md": (PYTHON, "tests/end_to_end/test_parts_from_outside.py"),
    "docs/sql.md": (SQL, "tests/end_to_end/test_questions_in_sql.py"),
    "docs/tutorials/corpus.md": (TUTORIAL, "tests/end_to_end/test_tutorials.py"),
    "docs/tutorials/method.md": (TUTORIAL, "harness/tutorials.py"),
    "docs/tutorials/search.md": (TUTORIAL, "harness/tutorials.py"),
    "docs/tutorials/shapes.md": (PYTHON, "tests/assets/test_shapes_command.py"),
    "docs/use.md": (PYTHON, "tests/end_to_end/test_exported_heads.py"),
}
"""What is run of a page, and the test that runs it."""
SHOWN = {"text", "bibtex", "csv", "json", "yaml"}
"""What nobody runs."""
REST = {
    "corpora": '[[corpora]]\nname = "a"\nformat = "massive"\npath = "."\nlanguages = ["en-US", "de-DE"]\n',
    "encoders": '[[encoders]]\nname = "b"\nkind = "scratch"\n',
    "experiment": '[experiment]\npairs = ["en-de"]\nmethods = ["raw"]\n',
}
"""What a block of a configuration leaves out."""
_ELSEWHERE = re.compile(r"does not exist|there is no module|is not an encoder of kind huggingface")
_BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Code(NamedTuple):
    page: str
    kind: str
    text: str
    is_marked: bool


BLOCKS = [
    Code(page.relative_to(ROOT).as_posix(), kind, text, bool(mark))
    for page in PAGES
    for mark, kind, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
]
CONFIGURATIONS = [code for code in BLOCKS if code.kind == "toml" and not code.is_marked]


def test_every_code_block_is_run_by_a_test_or_marked():
    loose = [
        (page, kind, text.splitlines()[:1])
        for page, kind, text, is_marked in BLOCKS
        if not is_marked and kind not in {*SHOWN, "toml"} | RUN.get(page, (set(), ""))[0]
    ]
    assert loose == [], "name the test that runs it in RUN, or put <!-- not run: why --> before the block"


@pytest.mark.parametrize("page", RUN)
def test_the_test_of_a_page_exists_and_names_it(page):
    text = (ROOT / RUN[page][1]).read_text(encoding="utf-8")
    assert f'"{Path(page).name}"' in text or Path(page).parent.name in text.split('"')


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=[f"{block.page}-{at}" for at, block in enumerate(CONFIGURATIONS)])
def test_every_configuration_block_is_valid(block, load):
    assert wrong(block.text, load) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[experiment]\npairs = ['en-de']\nmethods = ['dream', 'draem']", "did you mean 'dream'"),
        ("[targets]\nmaks = 'word'", "did you mean 'mask'"),
        ("[[corpora]]\nname = 'a'\nformat = 'massive'\npath = 'gone'\ntrian = true", "did you mean 'train'"),
    ],
)
def test_unknown_keys_and_names_in_blocks_are_detected(text, message, load):
    (fault,) = wrong(text, load)
    assert message in fault


def wrong(text: str, load) -> list[str]:
    """What is wrong with a block; what it leaves out, and files and modules that it only names, are no fault."""
    whole = "".join(rest for section, rest in REST.items() if section not in tomllib.loads(text))
    try:
        load(whole + text)
    except ConfigError as error:
        faults = re.split(r"\n|; (?=\S+\.toml:\d+: )", str(error))
        return [fault for fault in faults if not _ELSEWHERE.search(fault)]
    return []
