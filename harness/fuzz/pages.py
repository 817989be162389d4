"""Hostile texts on the page of `disent serve`: whatever a query or an index contains, the page keeps its form."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote_plus

from starlette.requests import Request

from disent_assets.web.search_page.app import Page, cut
from disent_core.errors import DisentError
from tests.toy_index import SENTENCES, ToyIndex

FILES = {
    "sentence": b"wake me up at nine",
    "parameters": b"&k=20&language=en&only=-",
    "index.tsv": "".join(f"{language}\t{text}\n" for text, language in SENTENCES).encode(),
}
TAGS = {
    *("html", "head", "meta", "title", "link", "style", "body", "header", "main", "section", "footer", "form", "label"),
    *("input", "select", "option", "button", "div", "span", "i", "h1", "h2", "p", "ol", "ul", "li", "a", "b", "bdi"),
    *("mark", "svg", "rect", "dl", "dt", "dd", "strong"),
}
ALONE = {"meta", "link", "input", "rect"}


class Form(HTMLParser):
    """Checks that all tags are the template's and are balanced, and collects the texts of the answers."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ahead: list[str] = []
        self.answers: list[str] = []
        self.is_answer = False
        self.feed(page)
        self.close()
        assert self.ahead == [], f"not closed: {self.ahead}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, f"a foreign tag: {tag}"
        attributes = dict(attrs)
        assert not any(name.startswith("on") or name == "src" for name in attributes), (
            f"a foreign attribute: {attributes}"
        )
        if tag == "a":
            assert str(attributes["href"]).startswith(("/?", "/api/search?")) or attributes["href"] in (
                "/",
                "/shapes",
            ), attributes
            self.is_answer = "ol" in self.ahead
            self.answers += [""] * self.is_answer
        if tag not in ALONE:
            self.ahead.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ALONE:
            assert self.ahead.pop() == tag
        self.is_answer = self.is_answer and tag != "a"

    def handle_data(self, data: str) -> None:
        if self.is_answer:
            self.answers[-1] += data


def ask(folder: Path) -> None:
    """Query an index of the folder's texts, and check the page and the JSON.

    Raises:
        DisentError: if the query is rejected.
        AssertionError: if a text changed the form of the page.
    """
    content = {name: (folder / name).read_bytes() if (folder / name).is_file() else b"" for name in FILES}
    rows = [line.split("\t", 1) for line in content["index.tsv"].decode(errors="replace").split("\n") if "\t" in line]
    index = ToyIndex([(text, language or None) for language, text in rows])
    query = b"q=" + quote_plus(content["sentence"]).encode() + content["parameters"]
    request = Request({"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": []})
    page = Page(index, {})
    shown = page.html(request)
    form = Form(bytes(shown.body).decode())
    if shown.status_code == 400:
        raise DisentError(bytes(page.json(request).body).decode())
    _, columns, _ = page.answered(request)
    hits = [hit for column in columns if column.is_near for hit in column.hits]
    assert form.answers == [cut(hit.text) for hit in hits], "an answer is not shown as it is"
