"""The page of `disent serve`, over an index of six sentences."""

import re
import socket
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient
from static_models import static_model

from disent_assets.web.request_guard import refusal
from disent_assets.web.search_page.app import (
    KINDS,
    LONGEST,
    MOST_ANSWERS,
    SHOWN_CHARACTERS,
    Question,
    application,
    examples,
    pieces,
    question,
    run,
)
from disent_core.errors import DisentError, EncoderError
from tests.toy_index import SENTENCES, ToyIndex

NINE = "wake me up at nine"


def client(index: ToyIndex | None = None, shared: str | None = None, at: str = "127.0.0.1") -> TestClient:
    app = application(index or ToyIndex(), {"model": "facet on tiny"}, shared)
    return TestClient(app, base_url=f"http://{at}:8900", raise_server_exceptions=True)


@pytest.fixture
def page() -> Callable[..., str]:
    return lambda **parameters: client().get("/", params=parameters).text


class Reader(HTMLParser):
    """Texts of the answers, by column."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.columns: dict[str, list[str]] = {}
        self.links: list[str] = []
        self.name, self.is_answer = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "section":
            self.name = str(attributes["class"])
            self.columns[self.name] = []
        if tag == "a":
            self.links.append(str(attributes["href"]))
        if tag == "a" and self.name in KINDS:
            self.is_answer = True
            self.columns[self.name].append("")

    def handle_endtag(self, tag: str) -> None:
        self.name = "" if tag == "section" else self.name
        self.is_answer = self.is_answer and tag != "a"

    def handle_data(self, data: str) -> None:
        if self.is_answer:
            self.columns[self.name][-1] += data


# --- answers ----------------------------------------------------------------------------------------------


def test_the_page_lists_k_nearest_answers_in_three_columns(page):
    columns = Reader(page(q=NINE)).columns
    assert list(columns) == ["template", "residual", "meaning"]
    assert columns["template"][0] == "wake me up at ten"
    assert columns["residual"][0] == "call the office at nine"
    assert columns["meaning"][:2] == ["wake me up at ten", "call the office at nine"]
    assert all(NINE not in texts for texts in columns.values())  # the sentence itself is no answer
    assert {len(texts) for texts in Reader(page(q=NINE, k="2")).columns.values()} == {2}


def test_a_question_is_one_search_by_all_of_its_parts():
    index = ToyIndex()
    client(index).get("/", params={"q": NINE})
    assert index.asked == [("template", "residual", "meaning")]


def test_json_has_the_answers_of_the_page(page):
    answer = client().get("/api/search", params={"q": NINE}).json()
    texts = {name: [hit["text"] for hit in hits] for name, hits in answer["answers"].items()}
    assert list(texts) == ["shape", "values", "meaning"]
    assert list(texts.values()) == list(Reader(page(q=NINE)).columns.values())
    assert answer["question"] == {"q": NINE, "k": 10, "language": "", "only": ""}
    assert answer["answers"]["shape"][0] == {
        "text": "wake me up at ten", "language": "en", "score": 1.0, "row": 1,
        "text_key": "e1ebcc912e9b0be343953e78d3adba3d",
    }  # fmt: skip


def test_an_index_without_templates_has_no_column_of_them_and_an_empty_column_says_so():
    index = ToyIndex(embeddings=("meaning", "language"))
    index.model = static_model()
    shown = client(index).get("/", params={"q": NINE}).text
    assert list(Reader(shown).columns) == ["meaning"]
    shown = client(ToyIndex([(NINE, "en")])).get("/", params={"q": NINE}).text
    assert shown.count("Nothing in this index.") == 3


@pytest.mark.parametrize("filters", [{"only": "de"}, {"language": "en", "only": "-"}])
def test_the_language_filter_applies_to_answers(filters):
    answer = client().get("/api/search", params={"q": NINE, **filters}).json()
    assert {hit["language"] for hits in answer["answers"].values() for hit in hits} == {"de"}


def test_a_link_on_an_answer_searches_with_it_and_keeps_the_filters(page):
    assert "/?q=weck+mich+um+neun&k=7" in Reader(page(q=NINE, k="7")).links
    links = Reader(page(q="play some jazz", language="en", only="-")).links
    assert "/?q=spiel+jazz&k=10&language=de&only=-" in links


def test_the_form_keeps_its_values_with_answers_and_with_an_error(page):
    shown = page(q=NINE, k="7", language="de", only="-")
    assert f'value="{NINE}"' in shown
    assert re.findall(r"<option[^>]* selected>([^<]+)", shown) == ["7", "de", "other languages"]
    shown = page(q=NINE, only="-")
    assert f'value="{NINE}"' in shown
    assert re.findall(r"<option[^>]* selected>([^<]+)", shown) == ["10", "other languages"]


def test_words_of_the_sentence_are_marked_with_the_spaces_between_them():
    assert pieces("Wake me up at ten", NINE) == [("Wake me up at", True), (" ten", False)]
    assert pieces("play, at nine", NINE) == [("play, ", False), ("at nine", True)]


@pytest.mark.parametrize(("score", "width"), [(-0.5, "0.0%"), (0.254, "25.4%"), (1.0000001, "100.0%")])
def test_a_bar_is_as_long_as_its_cosine(score, width, monkeypatch):
    page = client()
    best = iter([1.0, *[score] * 4] * 3)
    monkeypatch.setattr(ToyIndex, "score", staticmethod(lambda left, right: next(best)))
    widths = re.findall(r'<rect width="([^"]*)"', page.get("/", params={"q": NINE}).text)
    assert widths == ["100.0%", *[width] * 4] * 3


# --- nothing asked yet ------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [None, "", "  "])
def test_an_empty_question_gets_examples_of_every_language_and_no_search(q):
    index = ToyIndex()
    shown = client(index).get("/", params={} if q is None else {"q": q}).text
    assert "/?q=wake+me+up+at+nine&k=10" in Reader(shown).links
    assert "/?q=weck+mich+um+neun&k=10" in Reader(shown).links
    assert index.asked == []


def test_examples_are_short_and_few():
    rows = [(f"{'long ' * 20}{number}", "en") for number in range(30)]
    assert examples(ToyIndex(rows)) == []
    assert len(examples(ToyIndex([(f"a sentence number {number}", "en") for number in range(5_000)]))) == 6
    assert client(ToyIndex([])).get("/").status_code == 200


def test_an_index_without_languages_offers_none_to_choose():
    index = ToyIndex([(text, None) for text, _ in SENTENCES])
    shown = client(index).get("/", params={"q": NINE}).text
    assert [text for text in ('name="language"', 'lang=""', "None") if text in shown] == []


# --- what can't be asked ----------------------------------------------------------------------------------

REFUSED = {
    "k is not a number": ({"k": "ten"}, "a whole number from 1 to 100"),
    "k is of another script": ({"k": "٣"}, "a whole number from 1 to 100"),
    "no answers": ({"k": "0"}, "a whole number from 1 to 100"),
    "too many answers": ({"k": str(MOST_ANSWERS + 1)}, "a whole number from 1 to 100"),
    "an unknown language": ({"language": "xx"}, "choose one of de, en"),
    "answers of an unknown language": ({"only": "xx"}, "choose one of de, en"),
    "other languages than none": ({"only": "-"}, "Choose the language of the sentence"),
    "an unknown parameter": ({"by": "template"}, "The parameters are q, k, language, only"),
    "a document": ({"q": "a" * (LONGEST + 1)}, "1,001 characters; at most 1,000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_out_of_bounds_query_is_400_with_a_remedy(case):
    parameters, message = REFUSED[case]
    index = ToyIndex()
    for path in ("/", "/api/search"):
        answer = client(index).get(path, params={"q": NINE, **parameters})
        assert answer.status_code == 400
        assert message in answer.text
    assert index.asked == []


def test_a_sentence_that_the_head_refuses_is_an_error_on_the_page(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise EncoderError("the text has <b>no</b> tokens")

    page = client()
    monkeypatch.setattr(ToyIndex, "search_each", refuse)
    answer = page.get("/", params={"q": NINE})
    assert answer.status_code == 400
    assert "The text has &lt;b&gt;no&lt;/b&gt; tokens." in answer.text


def test_all_defaults_may_be_left_out():
    assert question({}, []) == question({"q": " ", "k": "", "language": ""}, []) == Question()


# --- hostile texts, other pages ---------------------------------------------------------------------------

HOSTILE = (
    """</a><script>alert(1)</script><img src=x onerror=alert(1)>" onclick='alert(1)' {{ 7 * 7 }} &amp; \x00\u202e"""
)


def test_a_hostile_text_is_shown_as_text_wherever_it_comes_from():
    index = ToyIndex([(HOSTILE, HOSTILE), *SENTENCES])
    shown = client(index).get("/", params={"q": f"{HOSTILE} nine", "k": "1"}).text
    assert Reader(shown).columns["meaning"] == [HOSTILE]
    assert [tag for tag in ("<script", "<img") if tag in shown] == []
    assert "49" not in re.sub(r"<style>.*?</style>", "", shown, flags=re.DOTALL)


def test_a_long_answer_is_truncated_on_the_page_but_not_in_json():
    long = "nine " * SHOWN_CHARACTERS
    index = ToyIndex([(long, "en")])
    (shown,) = Reader(client(index).get("/", params={"q": "nine"}).text).columns["meaning"]
    assert len(shown) == SHOWN_CHARACTERS + 1
    assert client(index).get("/api/search", params={"q": "nine"}).json()["answers"]["meaning"][0]["text"] == long
    index = ToyIndex([("nine " * LONGEST, "en")])
    _, link, *_ = (link for link in Reader(client(index).get("/", params={"q": "nine"}).text).links if link[1:2] == "?")
    assert client(index).get(link).status_code == 200


def test_the_content_security_policy_forbids_scripts_and_resources():
    (policy, frames) = client().get("/").headers.get_list("Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert frames == "frame-ancestors 'none'"


FOREIGN = {
    "a name that leads here": {"Host": "evil.example:8900"},
    "another page": {"Origin": "https://evil.example"},
    "another site": {"Sec-Fetch-Site": "cross-site"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("path", ["/", "/api/search?q=nine"])
def test_a_forged_request_is_refused(path, headers):
    assert client().get(path, headers=headers).status_code == 403
    assert client().post("/", json={}).status_code == 405  # nothing can be sent


@pytest.mark.parametrize(("shared", "reached", "named", "is_refused"), [
    (None, "192.0.2.1", "192.0.2.1", True),
    (None, "192.0.2.1", "127.0.0.1", True),
    ("192.0.2.1", "192.0.2.1", "192.0.2.1", False),
    ("0.0.0.0", "192.0.2.1", "192.0.2.1", False),
    ("0.0.0.0", "192.0.2.1", "evil.example", True),
    ("0.0.0.0", "127.0.0.1", "localhost", False),
    ("::", "2001:db8::1", "[2001:db8::1]", False),
    ("::", "::ffff:192.0.2.1", "192.0.2.1", False),
    ("wall.example", "192.0.2.1", "wall.example", False),
])  # fmt: skip
def test_a_shared_page_accepts_only_configured_names_and_its_address_as_host(shared, reached, named, is_refused):
    headers = [(b"host", f"{named}:8900".encode())]
    scope = {"type": "http", "method": "GET", "server": (reached, 8900), "headers": headers}
    assert bool(refusal(scope, shared)) is is_refused


def test_the_page_lets_other_machines_in_if_it_is_shared():
    assert client(at="192.0.2.1").get("/").status_code == 403
    assert client(shared="192.0.2.1", at="192.0.2.1").get("/").status_code == 200


def test_a_taken_port_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DisentError, match=f"can't listen on 127.0.0.1, port {port}"):
            run(ToyIndex(), {}, "127.0.0.1", port, lambda address: None)
