"""README, docs and the other pages: what they point to is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("*.md", "docs/**/*.md", "data/corpora/*.md", "sql/**/*.md", "deploy/**/*.md")
PAGES = sorted(page for pattern in FOLDERS for page in ROOT.glob(pattern))
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PARTS = ("disent_core", "disent_assets", "sql", "tests", "bench", "harness", "tools", "docs", "configs", "data/corpora",
         "deploy")  # fmt: skip
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAMED = re.compile(r"`([\w./-]+\.(?:py|sql|csv|toml|md|yaml)|[\w.-]+/[\w./-]+/)`")
NOT_OURS = re.compile(r"NAME|^(data/real|heads|encoders|cache|checkpoints|vectors|tables|DISENT_HOME)/|\bdefs\.yaml$")
"""What runs make, and what users put there."""
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What `page.md#...` may name, as GitHub makes it of headings."""
    titles = _HEADING.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


def files() -> str:
    """Every file and folder that pages may name, one a line, each with a / before it."""
    paths = [path for part in PARTS for path in (ROOT / part).rglob("*")] + list(ROOT.glob("*.*"))
    names = (f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in paths)
    return "\n".join(names) + "\n"


def dead_names(page: Path, known: str) -> list[str]:
    """Files and folders that the page names as code, but that no path of the project ends with."""
    named = _NAMED.findall(page.read_text(encoding="utf-8"))
    return [name for name in named if f"/{name}\n" not in known and not NOT_OURS.search(name)]


def test_links_have_a_target():
    assert len(PAGES) > 20
    assert {page.name: dead for page in PAGES if (dead := dead_links(page))} == {}


def test_files_of_the_project_that_a_page_names_exist():
    known = files()
    current = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which names files of earlier releases
    assert {page.name: dead for page in current if (dead := dead_names(page, known))} == {}


def test_tests_that_a_page_names_exist():
    sources = [
        path.read_text(encoding="utf-8") for part in ("tests", "harness") for path in (ROOT / part).rglob("*.py")
    ]
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert named - defined == set()


def test_dead_links_are_detected(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[here](page.md#a-title) [gone](gone.md) [no](#none) `docs/gone.md`", encoding="utf-8")
    assert dead_links(page) == ["gone.md", "#none"]
    assert dead_names(page, files()) == ["docs/gone.md"]


def test_no_page_has_marks_of_a_merge():
    marks = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
    assert [page.name for page in PAGES if marks.search(page.read_text(encoding="utf-8"))] == []
