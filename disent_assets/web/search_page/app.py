"""The web application of the search page: `/` is the page, `/api/search` the same answers as JSON. It has no script."""

import base64
import contextlib
import hashlib
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from disent_assets.web.request_guard import LOOPBACK, Guard, in_address
from disent_core.errors import DisentError

if TYPE_CHECKING:
    from disent import Hit, Index

LONGEST = 1_000  # characters of a sentence; more is a document, and encoding takes time for each
MOST_ANSWERS = 100
OTHERS = "-"  # asks for answers in other languages than the sentence's
PARAMETERS = ("q", "k", "language", "only")


@dataclass(frozen=True)
class Question:
    q: str = ""  # the sentence, stripped of white space at both ends; empty if nothing is asked yet
    k: int = 10  # answers of each kind
    language: str = ""  # of the sentence; empty if unknown
    only: str = ""  # the language of the answers, or `OTHERS`; empty: any


def question(parameters: Mapping[str, str], languages: Sequence[str]) -> Question:
    """Read a question from the parameters of an address; what is left out or empty has its default."""
    if unknown := [name for name in parameters if name not in PARAMETERS]:
        raise ValueError(f"{unknown[0][:40]}: no such parameter. There are {', '.join(PARAMETERS)}")
    asked = Question(
        parameters.get("q", "").strip(),
        _count(parameters.get("k") or "10"),
        parameters.get("language", ""),
        parameters.get("only", ""),
    )
    if len(asked.q) > LONGEST:
        raise ValueError(f"The sentence has {len(asked.q):,} characters; at most {LONGEST:,} can be searched for")
    for wanted, known in ((asked.language, languages), (asked.only, (*languages, OTHERS))):
        if wanted and wanted not in known:
            raise ValueError(f"No sentence here is in {wanted[:40]!r}; choose one of {', '.join(languages)}")
    if asked.only == OTHERS and not asked.language:
        raise ValueError("Choose the language of the sentence: answers are then in the others")
    return asked


def _count(written: str) -> int:
    if not (written.isascii() and written.isdigit() and len(written) < 10 and 1 <= int(written) <= MOST_ANSWERS):
        raise ValueError(
            f"The number of answers, k, is a whole number from 1 to {MOST_ANSWERS} and not {written[:40]!r}"
        )
    return int(written)


KINDS = {
    "template": ("Same shape", "the same request, for other things"),
    "residual": ("Same values", "other requests, for the same things"),
    "meaning": ("Same meaning", "the same request, for the same things"),
}
"""Title and note of each column, by the embedding that it compares."""
EXAMPLES = 6
_EXAMPLE_CHARACTERS = range(12, 60)
_LOOKED_AT = 2_000  # rows among which examples are sought
_WORD = re.compile(r"\w+")
_WORD_OR_GAP = re.compile(r"\w+|\W+")


@dataclass(frozen=True)
class Column:
    """The answers of one kind, the nearest first."""

    name: str
    title: str
    note: str
    hits: "Sequence[Hit]"


def columns(index: "Index", asked: Question) -> list[Column]:
    """Search by each embedding of the index that has a column here; the sentence itself is no answer."""
    hits_of = index.search_each(
        [asked.q],
        [name for name in KINDS if name in index.embeddings],
        asked.k,
        language=asked.language or None,
        other_language=asked.only == OTHERS,
        only_language=None if asked.only in ("", OTHERS) else asked.only,
        except_same_text=True,
    )
    return [Column(name, *KINDS[name], hits) for name, (hits,) in hits_of.items()]


@dataclass(frozen=True)
class Example:
    text: str
    language: str | None


def examples(index: "Index") -> list[Example]:
    """Return a few short sentences of all languages of an index."""
    by_language: dict[str, list[Example]] = {}
    for row in range(0, len(index.texts), max(len(index.texts) // _LOOKED_AT, 1)):
        if len(text := index.texts[row].strip()) in _EXAMPLE_CHARACTERS:
            language = index.languages[row]
            by_language.setdefault(language or "", []).append(Example(text, language))
    languages = list(by_language.values())
    # Rows at the same position in two languages may be translations of each other.
    numbers = range(EXAMPLES if languages else 0)
    of_number = [(number, languages[number % len(languages)]) for number in numbers]
    chosen = [listed[number * len(listed) // EXAMPLES] for number, listed in of_number]
    return list(dict.fromkeys(chosen))


def pieces(text: str, sentence: str) -> list[tuple[str, bool]]:
    """Return a text in pieces, each with whether its words are words of the sentence too; case does not matter."""
    words = {word.casefold() for word in _WORD.findall(sentence)}
    parts = _WORD_OR_GAP.findall(text)
    shared = [part.casefold() in words for part in parts]
    for gap in range(1, len(parts) - 1):
        shared[gap] |= parts[gap].isspace() and shared[gap - 1] and shared[gap + 1]
    runs = groupby(zip(parts, shared, strict=True), key=itemgetter(1))
    return [("".join(part for part, _ in run), is_shared) for is_shared, run in runs]


# --- the web application ----------------------------------------------------------------------------------

COUNTS = (5, 10, 20, 50)  # numbers of answers that the page offers
SHOWN_CHARACTERS = 300  # of an answer; more is cut, so that one long text does not hide the others
_STYLE = (files("disent_assets.web.search_page") / "page.css").read_text(encoding="utf-8")
_POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
        "img-src data:",  # the icon
        "form-action 'self'",
        "base-uri 'none'",
    ]
)
_OF_HIT = ("text", "language", "score", "row", "text_key")
_HEADERS = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}


def application(index: "Index", about: Mapping[str, str], shared: str | None = None) -> Starlette:
    """Make the web application of an index; `about` stands below the answers, `shared` as in `Guard`."""
    page = Page(index, about)
    routes = [Route("/", page.html), Route("/api/search", page.json)]
    return Starlette(routes=routes, middleware=[Middleware(Guard, shared)])


class Page:
    """Answers requests about one index, which is asked by one of them at a time."""

    def __init__(self, index: "Index", about: Mapping[str, str]) -> None:
        self.index, self.about = index, about
        self.languages = sorted(language for language in set(index.languages[:]) if language)
        self.examples = examples(index)
        self.template = _template()
        self.lock = Lock()

    def html(self, request: Request) -> HTMLResponse:
        asked, answered, error = self.answered(request)
        page = self.template.render(
            style=Markup(_STYLE),
            asked=asked,
            columns=answered,
            error=error,
            languages=self.languages,
            counts=sorted({*COUNTS, asked.k}),
            examples=self.examples,
            about=self.about,
            longest=LONGEST,
            others=OTHERS,
        )
        return HTMLResponse(page, status_code=400 if error else 200, headers=_HEADERS)

    def json(self, request: Request) -> JSONResponse:
        asked, answered, error = self.answered(request)
        if error:
            return JSONResponse({"error": error}, status_code=400, headers=_HEADERS)
        answers = {
            column.name: [{name: getattr(hit, name) for name in _OF_HIT} for hit in column.hits] for column in answered
        }
        return JSONResponse({"question": asdict(asked), "answers": answers}, headers=_HEADERS)

    def answered(self, request: Request) -> tuple[Question, list[Column], str]:
        """Return the question of an address, its answers, and what is wrong with it, if anything."""
        given = request.query_params
        # What was typed and chosen stays on the page beside an error.
        asked = Question(given.get("q", "").strip()[:LONGEST], 10, given.get("language", ""), given.get("only", ""))
        try:
            asked = question(given, self.languages)
            with self.lock:
                return asked, columns(self.index, asked) if asked.q else [], ""
        except (DisentError, ValueError) as error:
            return asked, [], str(error)


@cache
def _template() -> Any:
    page = Environment(
        loader=PackageLoader("disent_assets.web.search_page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters |= {"address": _address, "cut": cut}
    page.globals |= {"pieces": pieces}
    return page.get_template("page.html.j2")


def _address(asked: Question, path: str = "/", hit: "Hit | None" = None) -> str:
    """Return the address at which a question is answered; with the text of a hit, if there is one, for its sentence."""
    if hit is not None:
        asked = replace(asked, q=hit.text[:LONGEST], language=hit.language or "" if asked.language else "")
    return f"{path}?{urlencode({name: value for name, value in asdict(asked).items() if value})}"


def cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def is_shared(host: str) -> bool:
    """Return whether other machines can reach this address."""
    return host not in (*LOOPBACK, "localhost")


def warm(index: "Index") -> None:
    """Search once by each embedding, so that errors come before the server listens and the first question is fast.

    From then on the vectors are mapped into memory, so that the index may be extended meanwhile.
    """
    if len(index.texts):
        columns(index, Question(index.texts[0][:LONGEST], 1, index.languages[0] or ""))


def run(index: "Index", about: Mapping[str, str], host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page of an index; `ready` gets its address as soon as it can be opened. Port 0: any that is free."""
    import uvicorn

    app = application(index, about, host if is_shared(host) else None)
    with listening(host, port) as listener:
        ready(f"http://{in_address(host)}:{listener.getsockname()[1]}")
        config = uvicorn.Config(
            app, http="h11", ws="none", lifespan="off", log_level="warning", access_log=False, server_header=False,
            proxy_headers=False, limit_concurrency=100,
        )  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as closed_on_error:
            listener = closed_on_error.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            closed_on_error.pop_all()
            return listener
    except OSError as error:
        problem = f"can't listen on {host}, port {port} ({error.strerror})"
        raise DisentError(f"{problem}. Name another with --port, --port 0 takes one that is free") from error
