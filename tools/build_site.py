"""Build the documentation site: `make docs`, or `python -m tools.build_site`.

The site has the repository's pages in the same folders, so that links that work on a forge work on the site too. Only
the start page has another name, some reference pages are made here (`generated`), and long pages are cut into several
(`PARTS`), so that each opens fast on a phone.
"""

import csv
import json
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
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
    """Return docs/results as a script (file -> columns and rows), which pages can load without a server."""
    files = {}
    for path in sorted((ROOT / "docs" / "results").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            files[path.name] = list(csv.reader(file))
    return f"const RESULTS = {json.dumps(files, ensure_ascii=False, separators=(',', ':'))};\n"


MADE = {
    **{page: partial(generated.python, page) for page in generated.PYTHON},
    "docs/warehouse.md": generated.warehouse,
}
SCRIPTS = {"docs/results/data.js": result_rows}
PARTS = {
    "docs/benchmarks.md": {
        "docs/benchmarks-runs.md": ("Benchmarks of runs and services", "What the steps of a run take, and their share"),
    },
    "docs/configuration.md": {
        "docs/configuration-encoders.md": ("Configuration of encoders", '`[[encoders]], kind = "huggingface"`'),
        "docs/configuration-methods.md": ("Configuration of methods", "`[methods.NAME]`"),
        "docs/configuration-tuning.md": ("Configuration of fine-tuning", "Methods that fine-tune the encoder"),
    },
    "docs/methods.md": {"docs/methods-settings.md": ("Presets, negatives, targets", "Where the presets depart")},
    "docs/operations.md": {"docs/operations-security.md": ("Security, cost, your own Dagster project", "Security")},
    "docs/own-method.md": {"docs/own-method-tried.md": ("What was tried for facet", "What was tried")},
    "docs/sql.md": {
        "docs/sql-costs.md": ("Questions about leaks, costs and papers", "12. How much meaning leaks"),
        "docs/sql-history.md": ("Questions about changes and names", "22. What did each refresh change?"),
    },
    "docs/use.md": {"docs/use-search.md": ("Search, a service, sentence-transformers", "Search")},
    "docs/warehouse.md": {
        "docs/warehouse-stages.md": ("Tables of the stages", "corpora: "),
        "docs/warehouse-parts.md": ("Tables behind the views", "papers: "),
        "docs/warehouse-columns.md": ("Columns of several tables", "Tables that are files only"),
    },
}
"""Pages to cut -> their later parts by name, each with its title and the start of its first heading."""
LIMIT = 60_000  # most bytes of a page's HTML
_LINK = re.compile(r"\]\(([^)\s:#]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SHIM = re.compile(r'src="https://unpkg\.com/iframe-worker/shim"')
_PRE = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
_INDENTATION = re.compile(r"\s*\n\s*")
_BLANK = re.compile(r'<span class="w">(\s*)</span>')
_FETCHED = re.compile(r"""(?:url\(|@import)\s*["']?https?:""")


def staged(root: Path = ROOT) -> Mapping[str, Path]:
    """Return the repository's files for the site, by their paths on the site."""
    names = [*COPIED, *(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*") if path.is_file())]
    return {START: root / "README.md", **{name: root / name for name in sorted(names)}}


def cut(name: str, text: str) -> dict[str, str]:
    """Return the parts of a page by name, each with links to the others below its title."""
    if name not in PARTS:
        return {name: text}
    title, _, text = text.removeprefix("# ").partition("\n")
    titles = {name: title, **{part: title for part, (title, _) in PARTS[name].items()}}
    starts = [0, *(text.index(f"\n## {heading}") for _, heading in PARTS[name].values())]
    texts = {}
    for (part, title), start, end in zip(titles.items(), starts, [*starts[1:], None], strict=True):
        others = (f"[{title}]({posixpath.basename(other)})" for other, title in titles.items() if other != part)
        texts[part] = f"# {title}\n\nOther parts: {', '.join(others)}.\n\n{text[start:end].strip()}\n"
    return texts


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as links name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def moved(name: str, text: str, homes: Mapping[tuple[str, str], str]) -> str:
    """Return a page with its links to headings of cut pages updated; `homes`: cut page and anchor -> part."""
    folder = posixpath.dirname(name)
    whole = next((page for page, parts in PARTS.items() if name in parts), name)

    def link(match: re.Match[str]) -> str:
        address, heading = match.groups()
        home = homes.get((posixpath.normpath(posixpath.join(folder, address)) if address else whole, heading))
        there = "" if home in (None, name) else posixpath.relpath(home, folder or ".")
        return f"]({there}#{heading})" if home else match[0]

    return _LINK.sub(link, text)


def stage() -> None:
    """Copy the pages to where `mkdocs.yml` expects them."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for name, source in staged().items():
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, PAGES / name)
    for name, page in {**MADE, **SCRIPTS}.items():
        (PAGES / name).write_text(page(), encoding="utf-8")
    texts, homes = {}, {}
    for path in sorted(PAGES.rglob("*.md")):
        name = path.relative_to(PAGES).as_posix()
        for part, text in cut(name, path.read_text(encoding="utf-8")).items():
            texts[part] = text
            if name in PARTS:
                homes |= {(name, anchor(heading)): part for heading in _HEADING.findall(text)}
    for name, text in texts.items():
        (PAGES / name).write_text(moved(name, text, homes), encoding="utf-8")


def finish(site: Path) -> None:
    """Remove indentation and the script that the theme fetches from another host for its search; add the version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    later = " and later changes" if "\n## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8") else ""
    for page in site.rglob("*.html"):
        to_root = "../" * (len(page.relative_to(site).parts) - 1)
        text = _SHIM.sub(f'src="{to_root}docs/theme/site.js"', page.read_text(encoding="utf-8"))
        text = text.replace("Made with", f"disent {version}{later}. Made with")
        parts = _PRE.split(text)  # alternately text between code blocks, and the code of a block
        parts[::2] = [_INDENTATION.sub("\n", part) for part in parts[::2]]
        page.write_text(_BLANK.sub(r"\1", "".join(parts)), encoding="utf-8")


class Page(HTMLParser):
    """Collects a page's anchors, its links, and what it fetches when opened."""

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
    """Return dead links and files, what pages would fetch from another host, and pages over `LIMIT`."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    dead = [
        f"{path.relative_to(site)}: {address}"
        for path, page in pages.items()
        if path.name != "404.html"  # its links are relative to the root of a server
        for address in _faults_of(path, page, pages)
    ]
    styles = [path for path in site.rglob("*.css") if _FETCHED.search(path.read_text(encoding="utf-8"))]
    large = {path: size for path in pages if (size := path.stat().st_size) > LIMIT}
    return [
        *dead,
        *(f"{path.relative_to(site)}: another host" for path in styles),
        *(f"{path.relative_to(site)}: {size:,} of {LIMIT:,} bytes; cut it (PARTS)" for path, size in large.items()),
    ]


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
    """Build the site; return 1 if anything in it leads nowhere or to another host, or a page is too large."""
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=True)
    finish(SITE)
    wrong = faults(SITE)
    print(*wrong, f"{SITE / 'index.html'}: {len(wrong)} faults", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
