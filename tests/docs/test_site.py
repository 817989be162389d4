"""The documentation site: what it is made of, and that its check sees what is dead. `make docs` builds the site."""

import importlib.util
import posixpath
import re

import pytest
import yaml

from tools import build_site, generated
from tools.build_site import LIMIT, MADE, PARTS, ROOT, SCRIPTS, SITE, anchor, cut, faults, finish, moved, staged


def listed(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    values = nav.values() if isinstance(nav, dict) else nav
    return [name for value in values for name in listed(value)]


def site(folder, **pages: str):
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    return folder


def test_every_page_is_in_the_navigation_once_and_the_site_has_the_folders_of_the_repository():
    pages = [name for name in staged() if name.endswith(".md")]
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(listed(nav)) == sorted([*pages, *MADE, *(part for parts in PARTS.values() for part in parts)])
    assert [name for name, source in staged().items() if name != "index.md" and source != ROOT / name] == []


def test_pages_link_to_files_that_the_site_has():
    files = {*staged(), *MADE, *SCRIPTS, "README.md"} - {"index.md"}
    links = [
        (name, posixpath.normpath(posixpath.join(posixpath.dirname(name), link)))
        for name, source in staged().items()
        if name.endswith(".md")
        for link in re.findall(r"\]\(([^)\s:#]+)(?:#[^)\s]*)?\)", source.read_text(encoding="utf-8"))
    ]
    assert len(links) > 200
    assert [(name, link) for name, link in links if link not in files] == []


def test_the_python_pages_cover_the_public_api():
    import disent

    text = "".join(MADE[page]() for page in generated.PYTHON)
    assert sorted(re.findall(r"^::: disent\.(\w+)$", text, re.MULTILINE)) == sorted([*disent.__all__, "mteb"])


def test_the_pages_of_the_warehouse_describe_every_relation_and_column():
    text = MADE["docs/warehouse.md"]()
    relations = [path.stem for kind in ("tables", "views") for path in (ROOT / "sql" / kind).rglob("*.sql")]
    assert [name for name in relations if f"### {name}\n" not in text and f".{name}\n" not in text] == []
    columns = (ROOT / "sql" / "columns.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line for line in columns if f"| `{line.split(',')[1]}` |" not in text] == []


@pytest.mark.parametrize(
    ("body", "addresses"),
    [
        ("<a href='other.html#here'>x</a><a href='#top'>y</a><p id='top'></p>", []),
        ("<a href='https://example.org'>x</a><a href='mailto:a@b'>y</a>", []),
        ("<a href='gone.html'>x</a>", ["gone.html"]),
        ("<a href='other.html#gone'>x</a>", ["other.html#gone"]),
        ("<a href='#gone'>x</a>", ["#gone"]),
        ("<img src='gone.png'>", ["gone.png"]),
        ("<script src='https://example.org/x.js'></script>", ["https://example.org/x.js"]),
        ("<link rel='stylesheet' href='//example.org/x.css'>", ["//example.org/x.css"]),
    ],
)
def test_dead_links_and_external_resources_of_the_site_are_detected(tmp_path, body, addresses):
    site(tmp_path, page=body, other="<p id='here'></p>")
    assert faults(tmp_path) == [f"page.html: {address}" for address in addresses]


def test_external_stylesheets_are_detected(tmp_path):
    (tmp_path / "site.css").write_text("a { background: url( 'https://example.org/x.png') }", encoding="utf-8")
    assert faults(tmp_path) == ["site.css: another host"]


def test_the_search_without_a_server_uses_our_script(tmp_path):
    (tmp_path / "docs" / "theme").mkdir(parents=True)
    (tmp_path / "docs" / "theme" / "site.js").touch()
    theirs = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
    site(tmp_path, index=theirs)
    site(tmp_path / "docs", use=theirs)
    finish(tmp_path)
    assert faults(tmp_path) == []


def test_oversized_pages_are_detected(tmp_path):
    site(tmp_path, small="x", large="x" * LIMIT)
    assert [fault.partition(":")[0] for fault in faults(tmp_path)] == ["large.html"]


def test_a_page_states_its_version(tmp_path):
    finish(site(tmp_path, page="<footer>Made with"))
    assert re.search(r">disent \d+\.\d+\.\d+( and later changes)?\. Made with", (tmp_path / "page.html").read_text())


def test_a_split_page_keeps_its_content_and_links_its_parts():
    whole = "# Use\n\nfirst\n\n## A head\n\nsecond\n\n## Search\n\nthird\n"
    first, second = cut("docs/use.md", whole).values()
    assert [part for part in ("first", "second", "third") if (part in first) == (part in second)] == []
    assert ("# Use\n" in first, "](use-search.md)" in first, "](use.md)" in second) == (True, True, True)
    assert cut("docs/other.md", whole) == {"docs/other.md": whole}


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("README.md", "docs/use.md#service", "docs/use-search.md#service"),
        ("docs/use.md", "#service", "use-search.md#service"),
        ("docs/use-search.md", "#a-head", "use.md#a-head"),
        ("docs/use-search.md", "#service", "#service"),
        ("docs/tutorials/search.md", "../use.md#service", "../use-search.md#service"),
        ("docs/use.md", "other.md#service", "other.md#service"),
        ("docs/use.md", "#none", "#none"),
    ],
)
def test_heading_links_lead_to_the_right_part_of_a_split_page(page, link, expected):
    homes = {("docs/use.md", "service"): "docs/use-search.md", ("docs/use.md", "a-head"): "docs/use.md"}
    assert moved(page, f"[x]({link})", homes) == f"[x]({expected})"
    assert anchor("`[[a]]`, kind: What, me?") == "a-kind-what-me"


@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs zensical, which make docs installs")
def test_the_site_is_built_without_a_dead_link():
    assert build_site.main() == 0
    assert 'class="doc doc-object' in (SITE / "docs" / "python.html").read_text(encoding="utf-8")
