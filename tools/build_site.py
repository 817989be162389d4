"""Build the documentation site: `make docs`, or `python -m tools.build_site`.

The pages are those of the repository, in the same folders, so that links that work on a forge work on the site. Only
the start page has another name, and some pages of the reference are made here (`generated`).
"""

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools import generated

ROOT = Path(__file__).resolve().parents[1]
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
START = "index.md"
COPIED = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "AGENTS.md",
    "CITATION.bib",
    "CITATION.cff",
    "data/corpora/README.md",
    "disent/models/small/README.md",
    "sql/published/README.md",
    *(f"deploy/{name}/README.md" for name in ("image", "compose", "helm", "kuberay", "slurm")),
)


def result_rows() -> str:
    """Return the rows of docs/results as a script, which pages can load without a server: file -> columns and rows."""
    files = {}
    for path in sorted((ROOT / "docs" / "results").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            files[path.name] = list(csv.reader(file))
    return f"const RESULTS = {json.dumps(files, ensure_ascii=False, separators=(',', ':'))};\n"


MADE = {
    **{page: partial(generated.python, page) for page in generated.PYTHON},
    "docs/warehouse.md": partial(generated.warehouse, first=True),
    "docs/warehouse-parts.md": partial(generated.warehouse, first=False),
}
SCRIPTS = {"docs/results/data.js": result_rows}
_SHIM = re.compile(r'src="https://unpkg\.com/iframe-worker/shim"')
_FETCHED = re.compile(r"""(?:url\(|@import)\s*["']?https?:""")


def staged(root: Path = ROOT) -> Mapping[str, Path]:
    """Return every file of the site that the repository has, by its path on the site."""
    names = [*COPIED, *(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*") if path.is_file())]
    return {START: root / "README.md", **{name: root / name for name in sorted(names)}}


def stage() -> None:
    """Put the pages where `mkdocs.yml` expects them."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for name, source in staged().items():
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, PAGES / name)
    for name, page in {**MADE, **SCRIPTS}.items():
        (PAGES / name).write_text(page(), encoding="utf-8")


def keep_local(site: Path) -> None:
    """Replace the script that the theme fetches from another host for its search without a server."""
    for page in site.rglob("*.html"):
        to_root = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        page.write_text(_SHIM.sub(f'src="{to_root}docs/theme/site.js"', text), encoding="utf-8")


class Page(HTMLParser):
    """What a page can be linked at, links to, and fetches when it is opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        named = [given[key] for key in ("href", "src") if key in given]
        (self.links if tag == "a" else self.fetched).extend(named)


def faults(site: Path) -> list[str]:
    """Return links and files that lead nowhere, and what a page would fetch from another host; `page: address` each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    dead = [
        f"{path.relative_to(site)}: {address}"
        for path, page in pages.items()
        if path.name != "404.html"  # its addresses begin at the root of a server
        for address in _faults_of(path, page, pages)
    ]
    styles = [path for path in site.rglob("*.css") if _FETCHED.search(path.read_text(encoding="utf-8"))]
    return [*dead, *(f"{path.relative_to(site)}: another host" for path in styles)]


def _faults_of(path: Path, page: Page, pages: Mapping[Path, Page]) -> Iterator[str]:
    for address in [*page.links, *page.fetched]:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") or parts.netloc:
            if address in page.fetched:
                yield address
            continue
        if parts.scheme:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        anchors = pages[target].anchors if target in pages else set()
        if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
            yield address


def main() -> int:
    """Build the site and return 1 if anything in it leads nowhere or to another host."""
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=True)
    keep_local(SITE)
    dead = faults(SITE)
    print(*dead, f"{SITE / 'index.html'}: {len(dead)} dead links", sep="\n")
    return bool(dead)


if __name__ == "__main__":
    raise SystemExit(main())
