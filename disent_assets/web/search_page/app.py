"""The web application of the search page: `/` is the page, `/api/search` the same answers as JSON. It has no script."""

import base64
import contextlib
import hashlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from disent_assets.web.request_guard import LOOPBACK, Guard, in_address
from disent_assets.web.search_page.answers import (
    LONGEST,
    OTHERS,
    Column,
    Hit,
    Index,
    Question,
    columns,
    examples,
    pieces,
    question,
)
from disent_core.errors import DisentError

COUNTS = (5, 10, 20, 50)
"""Numbers of answers that the page offers."""
SHOWN_CHARACTERS = 300
"""Of an answer; more is cut, so that one long text does not hide the others."""
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


def application(index: Index, about: Mapping[str, str], shared: str | None = None) -> Starlette:
    """Make the web application of an index.

    Args:
        index: is asked by one request at a time.
        about: what stands below the answers, as names and values.
        shared: a name or address under which other machines may ask too; None: this machine only.
    """
    page = Page(index, about)
    routes = [Route("/", page.html), Route("/api/search", page.json)]
    return Starlette(routes=routes, middleware=[Middleware(Guard, shared)])


class Page:
    """Answers requests about one index."""

    def __init__(self, index: Index, about: Mapping[str, str]) -> None:
        self.index, self.about = index, about
        self.languages = sorted(language for language in set(index.languages[:]) if language)
        self.examples = examples(index)
        self.template = _template()
        self.lock = Lock()

    def html(self, request: Request) -> HTMLResponse:
        asked, found, error = self._answered(request)
        page = self.template.render(
            style=Markup(_STYLE),
            asked=asked,
            columns=found,
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
        asked, found, error = self._answered(request)
        if error:
            return JSONResponse({"error": error}, status_code=400, headers=_HEADERS)
        answers = {
            column.name: [{name: getattr(hit, name) for name in _OF_HIT} for hit in column.hits] for column in found
        }
        return JSONResponse({"question": asdict(asked), "answers": answers}, headers=_HEADERS)

    def question(self, request: Request) -> Question:
        """The question of an address; raises as `question.question` does."""
        return question(request.query_params, self.languages)

    def columns(self, asked: Question) -> list[Column]:
        """Answers to a question; raises as `answers.columns` does."""
        with self.lock:
            return columns(self.index, asked) if asked.q else []

    def _answered(self, request: Request) -> tuple[Question, list[Column], str]:
        """The question of an address, its answers, and what is wrong with it, if anything."""
        given = request.query_params
        # What was typed and chosen stays on the page beside an error.
        asked = Question(given.get("q", "").strip()[:LONGEST], 10, given.get("language", ""), given.get("only", ""))
        try:
            asked = self.question(request)
            return asked, self.columns(asked), ""
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


def _address(asked: Question, path: str = "/", hit: Hit | None = None) -> str:
    """The address at which a question is answered; with the text of a hit, if there is one, for its sentence."""
    if hit is not None:
        asked = replace(asked, q=hit.text[:LONGEST], language=hit.language or "" if asked.language else "")
    return f"{path}?{urlencode({name: value for name, value in asdict(asked).items() if value})}"


def cut(text: str) -> str:
    """A text as the page shows it."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def is_shared(host: str) -> bool:
    """Return whether other machines can reach this address."""
    return host not in (*LOOPBACK, "localhost")


def warm(index: Index) -> None:
    """Search once by each embedding, so that errors come before the server listens and the first question is fast.

    From then on the vectors are mapped into memory, so that the index may be extended meanwhile.
    """
    if len(index.texts):
        columns(index, Question(index.texts[0][:LONGEST], 1, index.languages[0] or ""))


def run(index: Index, about: Mapping[str, str], host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page of an index.

    Args:
        index: to search in.
        about: as in `application`.
        host: name or address to listen on.
        port: 0: any that is free.
        ready: gets the address of the page as soon as it can be opened.
    """
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
    """Return a listening socket."""
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
