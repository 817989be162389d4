"""The service that answers batches as JSON: its requests and responses, and its OpenAPI description.

Each endpoint is declared once, in `ENDPOINTS`, from which routes and `/openapi.json` are made.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from disent.index import needed_languages
from disent_assets.web.listening import MOST_WAITING, RETRY_SECONDS, Busy, Turns
from disent_core import version
from disent_core.embedding_names import plain_word
from disent_core.errors import DisentError, EncoderError, shortened

if TYPE_CHECKING:
    from disent import Classifier, Index

LONGEST = 1_000  # characters of a text; longer ones are documents, and slow to encode
MOST_ANSWERS = 100
MOST_TEXTS = 256
MOST_HITS = 5_000  # for all queries of a request together: 19 hits for each of 256 queries
MOST_BYTES = 1 << 20
"""Most bytes in the body of a request."""
_NAME = 100  # characters of an embedding or a language
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
NO_CLASSIFIER = "this service has no classifier; start it with disent serve INDEX --classifier FOLDER"


# --- what is sent -----------------------------------------------------------------------------------------


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Text = Annotated[str, Field(max_length=LONGEST)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS)]
Name = Annotated[str, Field(max_length=_NAME)]
Language = Annotated[Name | None, Field(description="Of the texts; needed by models with a map for each language.")]


class EmbedRequest(_Sent):
    texts: Texts
    embedding: Name | None = Field(None, description="shape, values, meaning or another; default: the meaning.")
    normalize: bool = Field(True, description="Return unit vectors.")
    language: Language = None


class SearchRequest(_Sent):
    queries: Texts
    by: Name | None = Field(None, description="shape, values, meaning or another; default: the meaning.")
    k: int = Field(10, ge=1, le=MOST_ANSWERS, description=f"Hits per query; at most {MOST_HITS:,} in all.")
    language: Language = None
    other_language: bool = Field(False, description="Leave out texts in the language of the queries.")
    only_language: Name | None = Field(None, description="Find only texts in this language.")
    except_same_text: bool = Field(False, description="Leave out the query itself.")

    @model_validator(mode="after")
    def _bounded(self) -> "SearchRequest":
        if (hits := len(self.queries) * self.k) > MOST_HITS:
            raise ValueError(f"{len(self.queries)} queries with k {self.k} make {hits:,} hits; at most {MOST_HITS:,}")
        return self


class ClassifyRequest(_Sent):
    texts: Texts


# --- what is answered -------------------------------------------------------------------------------------


_AS_ASKED = "The word that was sent: shape is also called template, and values residual."


class EmbedResponse(BaseModel):
    embedding: str = Field(description=_AS_ASKED)
    dim: int
    vectors: list[list[float]] = Field(description="Of each text, in order; float32.")


class Hit(BaseModel):
    text: str
    language: str | None
    score: float = Field(description="Cosine of text and query.")
    row: int
    text_key: str


class Answer(BaseModel):
    is_near: bool = Field(description="Whether the best hit is above the noise: if not, nothing matches the query.")
    hits: list[Hit] = Field(description="The nearest first, those of a query that nothing matches included.")


class SearchResponse(BaseModel):
    by: str = Field(description=_AS_ASKED)
    noise: float = Field(description="Cosine that 95 of 100 texts of random letters do not exceed in this index.")
    answers: list[Answer] = Field(description="Of each query, in order.")


class Prediction(BaseModel):
    label: str | int | None = Field(description="The likeliest label, or that for unknown texts.")
    probability: float = Field(description="Of the likeliest label.")
    likeliest: str | int
    nearness: float | None = Field(description="Probability times cosine of the nearest example; null: no threshold.")
    is_near: bool | None = Field(description="Whether the nearness reaches the threshold; null: no threshold.")


class ClassifyResponse(BaseModel):
    threshold: float | None
    predictions: list[Prediction] = Field(description="Of each text, in order.")


class HealthResponse(BaseModel):
    status: str


class ReadyResponse(BaseModel):
    texts: int
    embeddings: list[str] = Field(description="What can be searched by: shape, values, meaning or others.")
    classifier: bool


class ErrorResponse(BaseModel):
    error: str


# --- the service ------------------------------------------------------------------------------------------


class Service:
    """Answers batches about one index and, if there is one, by a classifier."""

    def __init__(self, index: "Index", turns: Turns, classifier: "Classifier | None" = None) -> None:
        self.index, self.turns, self.classifier = index, turns, classifier

    def embed(self, asked: EmbedRequest) -> dict[str, Any]:
        model: Any = self.index.model
        name = model._embedding(asked.embedding)
        options = {} if needed_languages(model) is None else {"language": asked.language}
        vectors = model.encode(asked.texts, name, normalize=asked.normalize, **options)
        return {"embedding": asked.embedding or plain_word(name), "dim": vectors.shape[1], "vectors": vectors.tolist()}

    def search(self, asked: SearchRequest) -> dict[str, Any]:
        name = self.index._embedding(asked.by)
        options = asked.model_dump(exclude={"queries", "by", "k"})
        answers = self.index.search_each(asked.queries, [name], asked.k, **options)[name]
        noise = self.index.noise[name]
        return {
            "by": asked.by or plain_word(name),
            "noise": noise,
            "answers": [
                {"is_near": bool(hits) and hits[0].score > noise, "hits": [hit._asdict() for hit in hits]}
                for hits in answers
            ],
        }

    def classify(self, asked: ClassifyRequest) -> dict[str, Any]:
        if self.classifier is None:
            raise HTTPException(404, NO_CLASSIFIER)
        return {"threshold": self.classifier.threshold_, "predictions": predictions(self.classifier, asked.texts)}

    def health(self) -> dict[str, Any]:
        """Return that the server runs, unless its last answer failed for lack of memory.

        oneDNN keeps failing for a shape of inputs for which it got no memory once, so only a new process helps.
        """
        if self.turns.shortage is not None:
            raise Busy(self.turns.shortage)
        return {"status": "ok"}

    def ready(self) -> dict[str, Any]:
        """Return what can be queried; with a full queue, the service is not ready.

        The server only starts to listen after index, model and classifier have answered once.
        """
        if self.turns.is_full:
            raise self.turns.busy()
        return {
            "texts": len(self.index),
            "embeddings": [plain_word(name) for name in self.index.embeddings],
            "classifier": self.classifier is not None,
        }

    def routes(self) -> list[Route]:
        made = [Route(end.path, self._route(end), methods=[end.method], name=end.name) for end in ENDPOINTS]
        return [*made, Route("/openapi.json", _described)]

    def _route(self, endpoint: "Endpoint") -> Callable[[Request], Awaitable[Response]]:
        answer = getattr(self, endpoint.name)

        async def asked(request: Request) -> Response:
            if endpoint.asked is None:
                return JSONResponse(answer(), headers=HEADERS)
            address = address_of(request)
            self.turns.require_place(address)
            content = await _content(request)
            return await self.turns.take(partial(_answered, endpoint.asked, answer, content), address)

        return asked


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def _answered(kind: type[_Sent], answer: Callable[[Any], dict[str, Any]], content: bytes) -> Response:
    """Parse, compute and serialise: all the slow work, in the thread of `Turns`."""
    try:
        return JSONResponse(answer(kind.model_validate_json(content)), headers=HEADERS)
    except ValidationError as error:
        return failed(400, _problems(error))
    except (ValueError, EncoderError) as error:
        return failed(400, str(error))
    except DisentError as error:
        return failed(500, str(error))


def _problems(error: ValidationError) -> str:
    """Describe the first two problems in one line, with their places and the limits that they exceed."""
    listed = error.errors(include_url=False, include_input=False, include_context=False)
    lines = []
    for problem in listed[:2]:
        place = shortened(".".join(map(str, problem["loc"])), _NAME)
        message = problem["msg"].removeprefix("Value error, ").replace(" after validation", "")
        lines.append(f"{place}: {message}" if place else message)
    return "; ".join(lines) + (f"; and {len(listed) - 2} more" if len(listed) > 2 else "")


async def _content(request: Request) -> bytes:
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > MOST_BYTES:
                raise HTTPException(413, f"the content is larger than {MOST_BYTES:,} bytes; send several requests")
    except ClientDisconnect as error:
        raise HTTPException(400, "the request ended before all of its content had arrived") from error
    return bytes(content)


def predictions(classifier: "Classifier", texts: Sequence[str]) -> list[dict[str, Any]]:
    """Classify texts; a text below the classifier's threshold is near none of its classes."""
    probabilities, nearness = classifier.judge(texts)
    labels = classifier.classes_[probabilities.argmax(axis=1)].tolist()
    judged = []
    for number, (label, probability) in enumerate(zip(labels, probabilities.max(axis=1).tolist(), strict=True)):
        near = None if nearness is None else float(nearness[number])
        is_near = None if near is None or classifier.threshold_ is None else near >= classifier.threshold_
        shown = classifier.unknown if is_near is False else label
        judged.append(
            {"label": shown, "probability": probability, "likeliest": label, "nearness": near, "is_near": is_near}
        )
    return judged


# --- errors -----------------------------------------------------------------------------------------------
# Handlers are coroutines: Starlette calls functions in a new thread, which a machine at its limits can't start.


def failed(status: int, problem: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": problem}, status_code=status, headers={**HEADERS, **(headers or {})})


def refused(status: int, reason: str) -> JSONResponse:
    """Return the guard's response to a rejected request."""
    return failed(status, f"refused: {reason}")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    remedy = "; /openapi.json lists what can be requested"
    is_bare = error.detail == HTTPStatus(error.status_code).phrase
    return failed(error.status_code, f"{error.detail}{remedy}" if is_bare else error.detail, error.headers)


async def _busy(request: Request, error: Exception) -> Response:
    return failed(503, str(error), {"Retry-After": str(RETRY_SECONDS)})


async def _fault(request: Request, error: Exception) -> Response:
    """Return the response after an internal error, which uvicorn logs."""
    return failed(500, "the service has failed; its log says why")


ERRORS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _http_error,
    Busy: _busy,
    Exception: _fault,
}


# --- OpenAPI ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Endpoint:
    """Request and response of a path; `asked` is None for a GET without content."""

    path: str
    name: str
    summary: str
    asked: type[_Sent] | None
    answered: type[BaseModel]
    errors: Mapping[int, str]

    @property
    def method(self) -> str:
        return "GET" if self.asked is None else "POST"


_INVALID = {
    400: "The request is malformed or exceeds a limit.",
    401: "The token is missing or wrong.",
    403: "The request comes from another web page or machine.",
    413: f"The content is larger than {MOST_BYTES:,} bytes.",
    415: "The content is not application/json.",
    503: f"{MOST_WAITING} requests are already waiting: try again after the seconds in Retry-After.",
}
ENDPOINTS = (
    Endpoint("/v1/embed", "embed", "Embed texts.", EmbedRequest, EmbedResponse, _INVALID),
    Endpoint("/v1/search", "search", "Find the nearest texts of the index.", SearchRequest, SearchResponse, _INVALID),
    Endpoint(
        "/v1/classify", "classify", "Classify texts.", ClassifyRequest, ClassifyResponse,
        {**_INVALID, 404: "There is no classifier."},
    ),
    Endpoint("/v1/health", "health", "Whether the service runs.", None, HealthResponse, {}),
    Endpoint(
        "/v1/ready", "ready", "Whether the service takes requests.", None, ReadyResponse,
        {503: "Too many requests are waiting to take another."},
    ),
)  # fmt: skip
PUBLIC = ("/v1/health", "/v1/ready")
"""Paths that need no token."""


@cache
def openapi() -> str:
    """Return the OpenAPI 3.1 description of the service as JSON."""
    models: list[type[BaseModel]] = [ErrorResponse]
    for endpoint in ENDPOINTS:
        models += [model for model in (endpoint.asked, endpoint.answered) if model is not None]
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    paths = {endpoint.path: {endpoint.method.lower(): _operation(endpoint)} for endpoint in ENDPOINTS}
    about = {"title": "disent", "version": version()}
    described = {
        "openapi": "3.1.0",
        "info": about | {"description": "Embed, search and classify texts."},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(described)


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    answers = {"200": ("Answered.", endpoint.answered)}
    answers |= {str(status): (why, ErrorResponse) for status, why in endpoint.errors.items()}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "security": [] if endpoint.path in PUBLIC else [{}, {"token": []}],
        "responses": {
            status: {"description": why, "content": _json_of(model)} for status, (why, model) in answers.items()
        },
    }
    if endpoint.asked is not None:
        operation["requestBody"] = {"required": True, "content": _json_of(endpoint.asked)}
    return operation


def _json_of(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}


async def _described(request: Request) -> Response:
    return Response(openapi(), media_type="application/json", headers=HEADERS)
