"""The web application of `disent serve`: `/` is the search page, `/api/search` returns the same answers as JSON.

`/shapes` shows the shapes of the texts; the module `api` answers programs. The pages have no scripts.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, partial
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from disent.index import is_without_slots
from disent_assets.counted import counted
from disent_assets.web.listening import Turns, is_shared, serve
from disent_assets.web.request_guard import Guard, Login
from disent_assets.web.search_page.api import (
    ERRORS,
    HEADERS,
    LONGEST,
    MOST_ANSWERS,
    PUBLIC,
    Service,
    address_of,
    predictions,
    refused,
)
from disent_core.embedding_names import plain_word, without_slots
from disent_core.errors import DisentError
from disent_core.search.noise import written_apart
from disent_core.shapes import Shape, compared, shapes

if TYPE_CHECKING:
    import numpy as np

    from disent import Classifier, Hit, Index

OTHERS = "-"  # stands for answers in other languages than the sentence's
PARAMETERS = ("q", "k", "language", "only")


@dataclass(frozen=True)
class Question:
    q: str = ""  # the sentence, stripped of surrounding white space; empty before the first query
    k: int = 10  # answers of each kind
    language: str = ""  # of the sentence; empty if unknown
    only: str = ""  # the language of the answers, or `OTHERS`; empty: any


def question(parameters: Mapping[str, str], languages: Sequence[str]) -> Question:
    """Read a question from the query parameters of a URL; missing or empty ones have their defaults."""
    if unknown := [name for name in parameters if name not in PARAMETERS]:
        raise ValueError(f"{unknown[0][:40]}: no such parameter. The parameters are {', '.join(PARAMETERS)}")
    asked = Question(
        parameters.get("q", "").strip(),
        _count(parameters.get("k") or "10"),
        parameters.get("language", ""),
        parameters.get("only", ""),
    )
    if len(asked.q) > LONGEST:
        raise ValueError(f"The sentence has {len(asked.q):,} characters; at most {LONGEST:,} can be searched for")
    for wanted, known in ((asked.language, languages), (asked.only, (*languages, OTHERS))):
        if wanted and not languages:
            raise ValueError("No sentence here has a language; name it when indexing: disent index --language")
        if wanted and wanted not in known:
            raise ValueError(f"No sentence here is in {wanted[:40]!r}; choose one of {', '.join(languages)}")
    if asked.only == OTHERS and not asked.language:
        raise ValueError("Choose the language of the sentence: answers are then in the others")
    return asked


def _count(written: str) -> int:
    if not (written.isascii() and written.isdigit() and len(written) < 10 and 1 <= int(written) <= MOST_ANSWERS):
        raise ValueError(
            f"The number of answers, k, must be a whole number from 1 to {MOST_ANSWERS}, not {written[:40]!r}"
        )
    return int(written)


KINDS = {
    "template": ("Same shape", "the same request, for other things"),
    "residual": ("Same values", "other requests, for the same things"),
    "meaning": ("Same meaning", "the same request, for the same things"),
}
"""Embedding -> title and note of the column that compares it."""
EXAMPLES = 6
_EXAMPLE_CHARACTERS = range(12, 60)
_LOOKED_AT = 2_000  # rows that are searched for examples
_WORD = re.compile(r"\w+")
_WORD_OR_GAP = re.compile(r"\w+|\W+")


@dataclass(frozen=True)
class Column:
    """The answers of one kind, nearest first; the score of the best must exceed `noise` to be a match."""

    name: str
    title: str
    note: str
    hits: "Sequence[Hit]"
    noise: float

    @property
    def is_near(self) -> bool:
        return bool(self.hits) and self.hits[0].score > self.noise


def columns(index: "Index", asked: Question) -> list[Column]:
    """Search by each embedding of the index that has a column; leave out the sentence itself."""
    hits_of = index.search_each(
        [asked.q],
        kinds(index),
        asked.k,
        language=asked.language or None,
        other_language=asked.only == OTHERS,
        only_language=None if asked.only in ("", OTHERS) else asked.only,
        except_same_text=True,
    )
    return [Column(name, *KINDS[name], hits, index.noise[name]) for name, (hits,) in hits_of.items()]


def kinds(index: "Index") -> list[str]:
    """Return the embeddings of an index that have a column on the page."""
    return [name for name in KINDS if name in index.embeddings]


@dataclass(frozen=True)
class Example:
    text: str
    language: str | None


def examples(index: "Index") -> list[Example]:
    """Return a few short sentences in all languages of an index."""
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
    """Split a text into pieces, each with whether its words occur in the sentence too, ignoring case."""
    words = {word.casefold() for word in _WORD.findall(sentence)}
    parts = _WORD_OR_GAP.findall(text)
    shared = [part.casefold() in words for part in parts]
    for gap in range(1, len(parts) - 1):
        shared[gap] |= parts[gap].isspace() and shared[gap - 1] and shared[gap + 1]
    runs = groupby(zip(parts, shared, strict=True), key=itemgetter(1))
    return [("".join(part for part, _ in run), is_shared) for is_shared, run in runs]


# --- shapes ------------------------------------------------------------------------------------------------

MOST_GROUPED = 5_000
"""Most texts to group: the work grows with their square."""
LONGEST_GROUPED = 300  # characters of a grouped text; aligning two texts takes time in the product of their words
MOST_SHAPES = 100
PATIENCE_SECONDS = 2.0
"""How long a request waits before the answer that the shapes are not ready yet."""


@dataclass(frozen=True)
class IndexShapes:
    shapes: tuple[Shape, ...]  # of at least two texts each, the largest first, at most `MOST_SHAPES`
    more: int  # further such shapes
    alone: int  # texts whose shape no other text has
    texts: int  # grouped texts


class LazyShapes:
    """Groups the texts of an index once, in a thread, while searches go on."""

    def __init__(self, index: "Index") -> None:
        self.index = index
        self.is_possible = "template" in index.embeddings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shapes")

    @cached_property
    def _grouped(self) -> "Future[IndexShapes]":
        return self._thread.submit(index_shapes, self.index)

    async def get(self) -> IndexShapes | None:
        """Return the shapes, or None if computing them takes longer than a request waits."""
        self.index._embedding("shape")
        await asyncio.wait([asyncio.wrap_future(self._grouped)], timeout=PATIENCE_SECONDS)
        return self._grouped.result() if self._grouped.done() else None


def index_shapes(index: "Index") -> IndexShapes:
    """Group evenly spaced texts of an index, at most `MOST_GROUPED`, by the vectors in it."""
    step = max(-(-len(index) // MOST_GROUPED), 1)
    texts = [
        index.texts[row] for row in range(0, len(index), step) if 0 < len(index.texts[row].strip()) <= LONGEST_GROUPED
    ]
    row_of = {compared(index.texts[row]): row for row in range(0, len(index), step)}

    def vectors(listed: Sequence[str]) -> "np.ndarray":
        return index.vectors("template", [row_of[text] for text in listed])

    listed = shapes(texts, vectors)
    several = [shape for shape in listed if shape.distinct > 1]
    return IndexShapes(
        shapes=tuple(several[:MOST_SHAPES]),
        more=max(len(several) - MOST_SHAPES, 0),
        alone=len(listed) - len(several),
        texts=len(texts),
    )


# --- the web application ----------------------------------------------------------------------------------

COUNTS = (5, 10, 20, 50)  # numbers of answers to choose from on the page
SHOWN_CHARACTERS = 300  # of an answer; more is cut, so that one long text does not hide the others
_STYLE = "".join(
    (files("disent_assets.web") / name).read_text(encoding="utf-8") for name in ("search_page/page.css", "wordings.css")
)
_POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
        "img-src data:",  # the icon
        "form-action 'self'",
        "base-uri 'none'",
    ]
)
_HEADERS = {**HEADERS, "Content-Security-Policy": _POLICY}


def application(
    index: "Index",
    about: Mapping[str, str],
    shared: str | None = None,
    *,
    classifier: "Classifier | None" = None,
    token: str | None = None,
    turns: Turns | None = None,
) -> Starlette:
    """Return the web application of an index, with `about` below the answers; `shared` is as in `Guard`.

    `classifier` classifies the sentence and the texts of programs; `turns` orders the requests of several addresses.
    All paths but those of `PUBLIC` need the token, if there is one.
    """
    turns = turns or Turns()
    page = Page(index, about, classifier)

    def in_turn(answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def asked(request: Request) -> Response:
            return await turns.take(partial(answer, request), address_of(request))

        return asked

    pages = [
        Route("/", in_turn(page.html)),
        Route("/shapes", page.shapes_html),
        Route("/api/search", in_turn(page.json)),
    ]
    routes = [*pages, *Service(index, turns, classifier).routes()]
    middleware = [Middleware(Guard, shared, refused)]
    if token is not None:
        middleware.append(Middleware(Login, token, PUBLIC))
    return Starlette(routes=routes, middleware=middleware, exception_handlers=ERRORS)


class Page:
    """Answers people's requests about one index."""

    def __init__(self, index: "Index", about: Mapping[str, str], classifier: "Classifier | None" = None) -> None:
        self.index, self.about, self.classifier = index, about, classifier
        self.languages = sorted(language for language in set(index.languages[:]) if language)
        self.examples = examples(index)
        self.shapes = LazyShapes(index)
        self.absent = without_slots("the model of this index") if is_without_slots(index) else ""

    def html(self, request: Request) -> HTMLResponse:
        asked, answered, error = self.answered(request)
        prediction = None
        if self.classifier is not None and asked.q and not error:
            (prediction,) = predictions(self.classifier, [asked.q])
        return self._rendered(
            "page",
            asked,
            status=400 if error else 200,
            columns=answered,
            error=error,
            examples=self.examples,
            prediction=prediction,
            threshold=self.classifier and self.classifier.threshold_,
        )

    async def shapes_html(self, request: Request) -> HTMLResponse:
        try:
            grouped, error = await self.shapes.get(), ""
        except (DisentError, ValueError) as problem:
            grouped, error = None, str(problem)
        status = 404 if error else 202 if grouped is None else 200
        page = self._rendered(
            "shapes",
            Question(),
            status=status,
            grouped=grouped,
            error=error,
            longest_of=LONGEST_GROUPED,
            total=len(self.index.texts),
        )
        if status == 202:
            page.headers["Refresh"] = "2"
        return page

    def json(self, request: Request) -> JSONResponse:
        asked, answered, error = self.answered(request)
        if error:
            return JSONResponse({"error": error}, status_code=400, headers=_HEADERS)
        answers = {plain_word(column.name): [hit._asdict() for hit in column.hits] for column in answered}
        near = {plain_word(column.name): column.is_near for column in answered}
        return JSONResponse({"question": asdict(asked), "answers": answers, "is_near": near}, headers=_HEADERS)

    def answered(self, request: Request) -> tuple[Question, list[Column], str]:
        """Return the question in a request's URL, its answers, and what is wrong with it, if anything."""
        given = request.query_params
        # Keep what was typed and chosen on the page beside an error.
        asked = Question(given.get("q", "").strip()[:LONGEST], 10, given.get("language", ""), given.get("only", ""))
        try:
            asked = question(given, self.languages)
            return asked, columns(self.index, asked) if asked.q else [], ""
        except (DisentError, ValueError) as error:
            return asked, [], str(error)

    def _rendered(self, name: str, asked: Question, *, status: int, **shown: Any) -> HTMLResponse:
        page = (
            _templates()
            .get_template(f"search_page/{name}.html.j2")
            .render(
                style=Markup(_STYLE),
                asked=asked,
                languages=self.languages,
                counts=sorted({*COUNTS, asked.k}),
                about=self.about,
                longest=LONGEST,
                others=OTHERS,
                has_shapes=self.shapes.is_possible,
                absent=self.absent,
                has_focus=name == "page" and not asked.q,
                **shown,
            )
        )
        return HTMLResponse(page, status_code=status, headers=_HEADERS)


@cache
def _templates() -> Environment:
    pages = Environment(
        loader=PackageLoader("disent_assets.web", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"address": _address, "cut": cut}
    pages.globals |= {"pieces": pieces, "written_apart": written_apart, "counted": counted}
    return pages


def _address(asked: Question, path: str = "/", hit: "Hit | None" = None) -> str:
    """Return the address that answers a question; if a hit is given, its text replaces the sentence."""
    if hit is not None:
        asked = replace(asked, q=hit.text[:LONGEST], language=hit.language or "" if asked.language else "")
    return f"{path}?{urlencode({name: value for name, value in asdict(asked).items() if value})}"


def cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def warm(index: "Index") -> None:
    """Search once by each embedding, so that errors occur before the server listens, and the first answer is fast.

    From then on the vectors are mapped into memory, so that the index may be extended while it is served.
    """
    if len(index.texts):
        columns(index, Question(index.texts[0][:LONGEST], 1, index.languages[0] or ""))


def run(
    index: "Index",
    about: Mapping[str, str],
    host: str,
    port: int,
    ready: Callable[[str], None],
    **options: Any,
) -> None:
    """Serve an index; call `ready` with the address once it can be opened. Port 0: any free port."""
    serve(application(index, about, host if is_shared(host) else None, **options), host, port, ready)
