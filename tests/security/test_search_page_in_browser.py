"""The page of `disent serve` in a browser: by keyboard, narrow, dark, and with texts that want to be markup."""

import threading
from collections.abc import Iterator

import pytest

from disent_assets.web.listening import listening, server
from disent_assets.web.search_page.app import application
from harness.chromium import Tab, needs_chromium, tab, until
from tests.toy_index import SENTENCES, ToyIndex

pytestmark = needs_chromium
NINE = "wake me up at nine"
HOSTILE = """at nine</a></li><script>document.title = "taken"</script><img src="data:," onerror="alert('taken')">
<style>* { display: none }</style><a href="javascript:document.title='taken'">\u202e x \u0301\u0301"""
WIDE = "nine" + "w" * 250
ANSWERS = """Object.fromEntries([...document.querySelectorAll(".columns section")].map(
  column => [column.querySelector("h2").innerText, [...column.querySelectorAll("li a")].map(a => a.textContent)]))"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    index = ToyIndex([*SENTENCES, (HOSTILE, '"><b>'), (WIDE, "en")])
    with listening("127.0.0.1", 0) as listener:
        running = server(application(index, {"model": "facet on tiny"}))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        running.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with tab(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def page(opened, address) -> Iterator[Tab]:
    """The page without a question, which must not complain about anything that a test does with it."""
    opened.events.clear()
    opened.open(address)
    yield opened
    assert opened.complaints == []
    assert {url for url in opened.requested if not url.startswith((f"{address}/", "data:"))} == set()


def test_a_sentence_is_typed_and_answered_without_a_mouse(page):
    until(lambda: page.value("document.activeElement.id") == "q")
    page.ask("Input.insertText", text=NINE)
    page.loads(lambda: page.press("Enter"))
    answers = page.value(ANSWERS)
    assert list(answers) == ["Same shape", "Same values", "Same meaning"]
    assert answers["Same shape"][0] == "wake me up at ten"
    assert answers["Same values"][0] == "call the office at nine"
    assert page.value("location.search") == "?q=wake+me+up+at+nine&k=10&language=&only="


def test_filters_and_answers_are_reachable_by_tab(page, address):
    page.open(f"{address}/?q={NINE}")
    page.value('document.getElementById("q").focus()')
    reached = []
    for _ in range(6):
        page.press("Tab")
        reached.append(page.value("document.activeElement.name || document.activeElement.textContent.trim()"))
    assert reached == ["Search", "k", "language", "only", "All shapes", "wake me up at ten"]
    page.loads(lambda: page.press("Enter"))
    assert page.value('document.getElementById("q").value') == "wake me up at ten"


def test_a_filter_is_chosen_by_keyboard(page, address):
    page.open(f"{address}/?q={NINE}&language=en")
    page.value("document.getElementsByName('only')[0].focus()")
    page.press("ArrowDown")
    page.value('document.getElementById("q").focus()')
    page.loads(lambda: page.press("Enter"))
    languages = page.value('[...new Set([...document.querySelectorAll(".columns .badge")].map(b => b.innerText))]')
    assert set(languages) == {"de", '"><b>'}


def test_the_focused_element_is_visibly_outlined(page):
    page.press("Tab")
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_hostile_text_stays_text(page, address):
    page.open(f"{address}/?q=at+nine{'&k=20'}")
    assert HOSTILE in page.value(ANSWERS)["Same meaning"]
    assert page.value("document.title") == "at nine · disent"
    assert (
        page.value("document.scripts.length + document.images.length + document.querySelectorAll('style').length") == 1
    )
    assert page.value("[...document.links].every(link => ['http:'].includes(link.protocol))")


def test_a_hostile_question_stays_text(page, address):
    page.open(f"{address}/?q={HOSTILE.replace('%', '%25').replace('#', '%23').replace('&', '%26')}")
    assert page.value('document.getElementById("q").value') == HOSTILE.replace("\n", "")
    assert page.value("document.scripts.length") == 0
    assert page.value("document.title").endswith("disent")


def test_colours_follow_the_system(page):
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for scheme in ("light", "dark"):
        page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        seen.append(page.value(ground))
    assert seen == ["rgb(244, 246, 248)", "rgb(13, 17, 23)"]


@pytest.mark.parametrize("width", [1200, 420, 320])
@pytest.mark.parametrize("search", ["", "?q=nine&k=20"])
def test_no_width_needs_horizontal_scrolling(page, address, width, search):
    page.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    page.open(f"{address}/{search}")
    until(lambda: page.value("innerWidth") == width)
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value("[...document.links].filter(link => link.scrollWidth > link.clientWidth).length") == 0
    tops = set(page.value('[...document.querySelectorAll(".columns section")].map(c => c.offsetTop)'))
    assert len(tops) == (0 if not search else 1 if width == 1200 else 3)
    page.ask("Emulation.clearDeviceMetricsOverride")
