"""The answers of `disent serve` to programs, and what the page shows of the classifier and the shapes."""

import asyncio
import json
import re
import threading
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

import disent
from disent_assets.web.listening import Busy, Turns
from disent_assets.web.search_page import app as app_module
from disent_assets.web.search_page.api import (
    ENDPOINTS,
    LONGEST,
    MOST_ANSWERS,
    MOST_BYTES,
    MOST_HITS,
    MOST_TEXTS,
    PUBLIC,
)
from disent_assets.web.search_page.app import application, index_shapes
from disent_core.search.noise import MADE_UP, made_up

TIMES = ("six", "seven", "eight", "nine", "ten")
MUSIC = ("jazz", "rock", "blues", "soul", "funk")
TEXTS = [f"wake me up at {time}" for time in TIMES] + [f"play some {music}" for music in MUSIC]
LABELS = ["alarm"] * 5 + ["music"] * 5
NONSENSE = "qwrtz pfxq kjhg"
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def index() -> disent.Index:
    return disent.Index.of(TEXTS, language=["en"] * 9 + ["de"])


@pytest.fixture(scope="module")
def classifier() -> disent.Classifier:
    return disent.Classifier(disent.load(), unknown="neither").fit(TEXTS, LABELS)


def client(index: disent.Index, **options: Any) -> TestClient:
    app = application(index, {}, **options)
    return TestClient(app, base_url="http://127.0.0.1:8900", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def service(index, classifier) -> TestClient:
    return client(index, classifier=classifier)


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
def test_embedded_texts_have_the_vectors_of_the_model_to_the_bit(service, normalize):
    sent = {"texts": TEXTS[:3], "embedding": "shape", "normalize": normalize}
    answer = service.post("/v1/embed", json=sent).json()
    expected = disent.load().encode(TEXTS[:3], "shape", normalize=normalize)
    assert np.array_equal(np.array(answer["vectors"], dtype=np.float32), expected)
    assert answer["dim"] == expected.shape[1]
    default = service.post("/v1/embed", json={"texts": TEXTS[:1]}).json()
    assert default["embedding"] == "meaning"
    assert np.linalg.norm(default["vectors"][0]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("shape", "shape"), ("template", "template"), ("values", "values"), ("meaning", "meaning"), (None, "meaning")],
)
def test_an_answer_names_the_embedding_as_requested(service, asked, answered):
    assert service.post("/v1/search", json={"queries": ["jazz"], "by": asked}).json()["by"] == answered
    assert service.post("/v1/embed", json={"texts": ["jazz"], "embedding": asked}).json()["embedding"] == answered


def test_queries_of_a_batch_have_the_hits_of_the_index(service, index):
    sent = {"queries": ["wake me at noon", "some blues"], "by": "values", "k": 3}
    for options in (
        {},
        {"only_language": "de"},
        {"language": "de", "other_language": True},
        {"except_same_text": True},
    ):
        answers = service.post("/v1/search", json={**sent, **options}).json()["answers"]
        expected = index.search(sent["queries"], "values", 3, **options)
        assert [answer["hits"] for answer in answers] == [[hit._asdict() for hit in hits] for hits in expected]


def test_only_the_unmatched_query_of_a_batch_is_marked(service):
    answer = service.post("/v1/search", json={"queries": ["wake me up at noon", NONSENSE]}).json()
    assert [each["is_near"] for each in answer["answers"]] == [True, False]
    assert answer["answers"][1]["hits"][0]["score"] <= answer["noise"] < answer["answers"][0]["hits"][0]["score"]


def test_the_noise_level_is_exceeded_by_few_made_up_texts(index):
    levels = index.noise
    hits = index.search(made_up(), "template", 1)
    above = sum(hit.score > levels["template"] for (hit,) in hits)
    assert above == 5
    assert len(hits) == MADE_UP
    assert set(disent.Index.of([]).noise.values()) == {0.0}


def test_the_service_returns_labels_and_probabilities_of_the_classifier(service, classifier):
    texts = ["wake me up at noon", "play some folk", NONSENSE]
    answer = service.post("/v1/classify", json={"texts": texts}).json()
    assert [each["label"] for each in answer["predictions"]] == classifier.predict(texts).tolist()
    assert [each["is_near"] for each in answer["predictions"]] == [True, True, False]
    assert answer["predictions"][2]["likeliest"] in classifier.classes_
    highest = classifier.predict_proba(texts).max(axis=1)
    assert [each["probability"] for each in answer["predictions"]] == highest.tolist()
    assert answer["threshold"] == classifier.threshold_


def test_without_a_threshold_nearness_is_null(index):
    always = disent.Classifier(disent.load()).fit(TEXTS, LABELS)
    answer = client(index, classifier=always).post("/v1/classify", json={"texts": [NONSENSE]}).json()
    (prediction,) = answer["predictions"]
    assert (answer["threshold"], prediction["nearness"], prediction["is_near"]) == (None, None, None)
    assert prediction["label"] == prediction["likeliest"]


def test_a_misspelt_key_is_named_beside_the_one_that_is_missing(service):
    problem = service.post("/v1/search", json={"query": ["x"]}).json()["error"]
    assert problem.startswith("queries: ")
    assert "; query: " in problem


def test_without_a_classifier_the_answer_names_the_option(index):
    answer = client(index).post("/v1/classify", json={"texts": ["a"]})
    assert answer.status_code == 404
    assert "--classifier" in answer.json()["error"]


def test_health_and_readiness_describe_the_service(service):
    assert service.get("/v1/health").json() == {"status": "ok"}
    names = ["meaning", "shape", "values"]
    assert service.get("/v1/ready").json() == {"texts": 10, "embeddings": names, "classifier": True}


# --- what is refused --------------------------------------------------------------------------------------

REFUSED = {
    "too many texts": ("embed", {"texts": ["a"] * (MOST_TEXTS + 1)}, f"{MOST_TEXTS}"),
    "a document": ("embed", {"texts": ["a", "b" * (LONGEST + 1)]}, f"{LONGEST}"),
    "no texts": ("classify", {"texts": []}, "texts"),
    "one text in place of a list": ("embed", {"texts": "a"}, "texts"),
    "a number as text": ("embed", {"texts": [1]}, "texts.0"),
    "another key": ("embed", {"texts": ["a"], "colour": 1}, "colour"),
    "no such embedding": ("embed", {"texts": ["a"], "embedding": "colour"}, "meaning, shape, values"),
    "too many hits of a query": ("search", {"queries": ["a"], "k": MOST_ANSWERS + 1}, f"{MOST_ANSWERS}"),
    "too many hits": ("search", {"queries": ["a"] * MOST_TEXTS, "k": MOST_ANSWERS}, f"{MOST_HITS:,}"),
    "no hits": ("search", {"queries": ["a"], "k": 0}, "k"),
    "a blank query": ("search", {"queries": [" "]}, "query is empty"),
    "no such language": ("search", {"queries": ["a"], "only_language": "xx"}, "de, en"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_beyond_a_limit_is_400_with_the_limit_in_one_line(service, case):
    name, sent, message = REFUSED[case]
    answer = service.post(f"/v1/{name}", json=sent)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    "content", ["", "[" * 100_000, '{"texts": ["\\ud800"]}', b"\xff", "null", '{"texts": [1e999]}']
)
def test_malformed_json_is_400(service, content):
    answer = service.post("/v1/embed", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_an_oversized_request_is_413(service):
    content = b" " * (MOST_BYTES + 1)
    answer = service.post("/v1/embed", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert f"{MOST_BYTES:,}" in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/embed", 405), ("POST", "/v1/ready", 405), ("GET", "/v2", 404)]
)
def test_an_unknown_route_is_a_json_error(service, method, path, status):
    answer = service.request(method, path, json=None if method == "GET" else {})
    assert answer.status_code == status
    assert "/openapi.json" in answer.json()["error"]


@pytest.mark.parametrize(("headers", "status"), [({"Host": "evil.example:8900"}, 403),
                         ({"Origin": "https://evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
                         ({"Origin": "https://evil.example", "Content-Type": "text/plain"}, 403),
                         ({"Content-Type": "text/plain"}, 415)])  # fmt: skip
def test_a_cross_site_or_non_json_request_gets_a_json_error(service, headers, status):
    content, right = json.dumps({"texts": ["a"]}), {"Content-Type": "application/json"}
    assert service.post("/v1/embed", content=content, headers=right).status_code == 200
    for path in ("/v1/embed", "/v1/search", "/v1/classify"):
        answer = service.post(path, content=content, headers=right | headers)
        assert answer.status_code == status
        assert answer.json()["error"].startswith("refused: ")


def test_an_internal_error_is_json_without_its_message(index, monkeypatch):
    failing = client(index)
    monkeypatch.setattr(disent.Index, "search_each", lambda *_, **__: 1 / 0)
    answer = failing.post("/v1/search", json={"queries": ["a"]})
    assert answer.status_code == 500
    assert "division" not in answer.json()["error"]


# --- OpenAPI ----------------------------------------------------------------------------------------------


def test_openapi_has_every_route_for_programs_and_no_other(service):
    described = service.get("/openapi.json").json()
    routes = {
        (route.path, method)
        for route in service.app.routes
        if isinstance(route, Route) and route.path.startswith("/v1/")
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert {(path, method.upper()) for path, methods in described["paths"].items() for method in methods} == routes
    assert described["openapi"].startswith("3.1")


def test_every_reference_of_openapi_leads_to_a_schema_that_has_the_limits(service):
    described = service.get("/openapi.json").json()
    schemas = described["components"]["schemas"]
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)):
        assert name in schemas
    texts = schemas["EmbedRequest"]["properties"]["texts"]
    assert (texts["minItems"], texts["maxItems"], texts["items"]["maxLength"]) == (1, MOST_TEXTS, LONGEST)


def test_answers_match_the_openapi_schema_exactly(service):
    sent = {"embed": {"texts": ["a"]}, "search": {"queries": ["nine"]}, "classify": {"texts": ["a"]}}
    for endpoint in ENDPOINTS:
        answer = service.request(endpoint.method, endpoint.path, json=sent.get(endpoint.name))
        assert endpoint.answered.model_validate(answer.json()).model_dump() == answer.json()


# --- login ------------------------------------------------------------------------------------------------


def test_with_a_token_set_only_public_routes_answer_without_it(index):
    guarded = client(index, token=TOKEN)
    paths = [route.path for route in guarded.app.routes if isinstance(route, Route)]
    assert {path for path in paths if guarded.get(path).status_code != 401} == set(PUBLIC)
    for headers in ({"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}, {"Authorization": "Basic %%%"},
                    {"Authorization": "Bearer "}):  # fmt: skip
        assert guarded.get("/", headers=headers).status_code == 401


def test_the_token_is_accepted_as_bearer_or_basic_password(index):
    guarded = client(index, token=TOKEN)
    assert guarded.get("/").headers["WWW-Authenticate"].startswith("Basic")
    sent = {"texts": ["a"]}
    assert guarded.post("/v1/embed", json=sent, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get("/", auth=("anybody", TOKEN)).status_code == 200
    assert guarded.get("/", auth=("anybody", "another")).status_code == 401


def test_a_cross_site_request_is_refused_even_with_a_valid_token(index):
    headers = {"Authorization": f"Bearer {TOKEN}", "Sec-Fetch-Site": "cross-site"}
    assert client(index, token=TOKEN).get("/api/search?q=a", headers=headers).status_code == 403


# --- many requests ----------------------------------------------------------------------------------------


def test_a_full_queue_is_503_with_retry_after_and_health_stays_ok(index):
    full = client(index, turns=Turns(most=0))
    for answer in (full.post("/v1/embed", json={"texts": ["a"]}), full.get("/"), full.get("/v1/ready")):
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["error"]
    assert full.get("/v1/health").status_code == 200


def test_requests_are_answered_in_their_order_and_those_beyond_the_bound_are_refused():
    async def asked() -> list[Any]:
        turns, free, done = Turns(most=5), threading.Event(), []

        def work(number: int) -> int:
            free.wait(60)
            done.append(number)
            return number

        waiting = [asyncio.ensure_future(turns.take(lambda number=number: work(number))) for number in range(7)]
        await asyncio.sleep(0)
        free.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert done == [0, 1, 2, 3, 4]
        assert turns.waiting == 0
        return answers

    answers = asyncio.run(asked())
    assert answers[:5] == [0, 1, 2, 3, 4]
    assert {type(answer) for answer in answers[5:]} == {Busy}


def test_lack_of_memory_is_a_refusal_with_its_remedy_and_no_good_health_until_an_answer_succeeds(index, monkeypatch):
    service, sent = client(index), {"queries": ["jazz"]}
    with monkeypatch.context() as context:
        context.setattr(disent.Index, "search_each", Mock(side_effect=RuntimeError("could not create a primitive")))
        for answer in (service.post("/v1/search", json=sent), service.get("/v1/health")):
            assert (answer.status_code, answer.json()["error"][:14]) == (503, "out of memory.")
            assert int(answer.headers["Retry-After"]) >= 1
    assert service.post("/v1/search", json=sent).status_code == service.get("/v1/health").status_code == 200


def test_a_service_on_a_machine_without_a_free_thread_does_not_start_to_listen(index, monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    with pytest.raises(RuntimeError, match="new thread"):
        client(index)


# --- the page ---------------------------------------------------------------------------------------------


def test_the_page_says_that_nothing_matches_and_shows_no_answer(service):
    shown = service.get("/", params={"q": NONSENSE}).text
    assert shown.count("Nothing matches.") == 3
    assert "<ol>" not in shown
    assert "Nothing matches" not in service.get("/", params={"q": "wake me up at noon"}).text
    assert service.get("/api/search", params={"q": NONSENSE}).json()["is_near"] == dict.fromkeys(
        ("shape", "values", "meaning"), False
    )


def test_the_page_shows_the_predicted_class_or_nothing_near(service, index, classifier):
    shown = service.get("/", params={"q": "wake me up at noon"}).text
    probability = classifier.predict_proba(["wake me up at noon"]).max()
    assert f"<strong>alarm</strong>, probability {probability:.2f}" in shown
    assert "<strong>nothing near</strong>" in service.get("/", params={"q": NONSENSE}).text
    assert 'class="prediction"' not in client(index).get("/", params={"q": "wake me up at noon"}).text


def test_the_shapes_of_the_texts_are_shown_with_slots_counts_and_examples(service):
    answer = service.get("/shapes")
    assert answer.status_code == 200
    assert "wake me up at {1}" in answer.text
    assert "play some {1}" in answer.text
    assert all(value in answer.text for value in (*TIMES, *MUSIC))
    assert "5 texts" in answer.text
    assert 'href="/shapes"' in service.get("/").text


def test_hostile_texts_are_shown_as_text_among_the_shapes():
    attack = "<script>alert('%s')</script> {{ 7 * 7 }} <img src=x onerror=alert(1)>"
    hostile = [attack % number for number in range(3)]
    page = client(disent.Index.of(hostile))
    shown = page.get("/shapes").text
    assert "&lt;script&gt;" in shown
    assert [tag for tag in ("<script", "<img") if tag in shown] == []
    assert page.get("/shapes").headers.get_list("Content-Security-Policy")[0].startswith("default-src 'none'")


def test_the_shapes_are_computed_once_and_only_when_somebody_asks(index, monkeypatch):
    computed = []
    monkeypatch.setattr(app_module, "index_shapes", lambda index: computed.append(1) or index_shapes(index))
    page = client(index)
    page.get("/")
    assert computed == []
    assert [page.get("/shapes").status_code for _ in range(3)] == [200] * 3
    assert computed == [1]


def test_a_self_refreshing_page_is_shown_while_shapes_are_computed(index, monkeypatch):
    ready = threading.Event()
    monkeypatch.setattr(app_module, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(app_module, "index_shapes", lambda index: ready.wait(60) and index_shapes(index))
    page = client(index)
    answer = page.get("/shapes")
    assert (answer.status_code, "Refresh" in answer.headers) == (202, True)
    assert page.get("/", params={"q": "nine"}).status_code == 200  # searches go on
    ready.set()
    monkeypatch.setattr(app_module, "PATIENCE_SECONDS", 60)
    assert page.get("/shapes").status_code == 200


def test_shapes_of_a_large_index_use_an_even_sample_without_long_texts(monkeypatch):
    monkeypatch.setattr(app_module, "MOST_GROUPED", 6)
    monkeypatch.setattr(app_module, "MOST_SHAPES", 1)
    long = "wake me up at " + "very " * 100 + "late"
    summary = index_shapes(disent.Index.of([*TEXTS[:8], long, *TEXTS[8:], "play  some rock"]))
    assert summary.texts == 5  # each second text but the long one
    assert [shape.count for shape in summary.shapes] == [3]
    assert summary.more == 1


def test_an_index_without_shapes_says_so():
    page = client(disent.Index.of(TEXTS, embeddings=["meaning"]))
    assert 'href="/shapes"' not in page.get("/").text
    answer = page.get("/shapes")
    assert answer.status_code == 404
    assert "no embedding &#39;shape&#39;; choose one of meaning" in answer.text
