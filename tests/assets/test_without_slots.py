"""A model whose training texts had no slots has a meaning alone; whatever is asked for shape or values says why."""

import re

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient
from static_models import static_model

import disent
from disent_assets.cli import main
from disent_assets.web.search_page.app import application

TEXTS = ["wake me up at nine", "play some jazz"]
WHY = "this model has no {}: the texts that it was trained on have no slots in which they differ. Train it on a"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with such a `model`, an `index` by it and its texts, `log.txt`."""
    place = tmp_path_factory.mktemp("place")
    static_model("plain", slots=False).save(place / "model")
    disent.Index.build(place / "index", disent.load(place / "model"), TEXTS, language="en")
    (place / "log.txt").write_text("\n".join(TEXTS))
    return place


IN_PYTHON = {
    "encode": lambda model, index, name: model.encode(TEXTS, name),
    "similarity": lambda model, index, name: model.similarity(TEXTS, TEXTS, name),
    "making an index": lambda model, index, name: disent.Index.of(TEXTS, model, embeddings=[name]),
    "an index in memory": lambda model, index, name: disent.Index.of(TEXTS, model).search("play jazz", name),
    "an index on disk": lambda model, index, name: index.search("play jazz", name),
    "vectors of an index": lambda model, index, name: index.vectors(name, [0]),
    "search": lambda model, index, name: disent.search("play jazz", TEXTS, name, model=model),
}


@pytest.mark.parametrize(("name", "word"), [("shape", "shape"), ("template", "shape"), ("residual", "values")])
@pytest.mark.parametrize("ask", IN_PYTHON.values(), ids=IN_PYTHON)
def test_the_python_api_explains_missing_shapes(place, ask, name, word):
    with pytest.raises(ValueError, match=re.escape(WHY.format(word))):
        ask(disent.load(place / "model"), disent.Index.open(place / "index"), name)


def test_shapes_of_a_log_explain_missing_slots(place):
    with pytest.raises(ValueError, match=re.escape(WHY.format("shape"))):
        disent.shapes(TEXTS, place / "model")


@pytest.mark.parametrize("command", [
    ["search", "index", "play jazz", "--by", "shape"],
    ["shapes", "log.txt", "--head", "model"],
    ["export", "model", "out", "--embeddings", "shape"],
    ["embed", "log.txt", "out.npy", "--head", "model", "--embedding", "shape"],
    ["index", "log.txt", "new", "--head", "model", "--embedding", "shape"],
], ids=lambda command: command[0])  # fmt: skip
def test_commands_explain_missing_shapes(place, monkeypatch, command):
    monkeypatch.chdir(place)
    done = CliRunner().invoke(main, command)
    assert WHY.format("shape") in (done.stderr or str(done.exception))
    assert done.exit_code
    assert {path.name for path in place.iterdir()} == {"model", "index", "log.txt"}


@pytest.fixture(scope="module")
def client(place) -> TestClient:
    app = application(disent.Index.open(place / "index"), {})
    return TestClient(app, base_url="http://127.0.0.1:8900", raise_server_exceptions=False)


@pytest.mark.parametrize(("path", "asked"), [
    ("/v1/embed", {"texts": TEXTS, "embedding": "values"}),
    ("/v1/search", {"queries": TEXTS, "by": "values"}),
])  # fmt: skip
def test_the_service_explains_missing_values(client, path, asked):
    answer = client.post(path, json=asked)
    assert answer.status_code == 400
    assert WHY.format("values") in answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/?q=play+jazz", "/shapes"])
def test_the_page_explains_missing_columns(client, path):
    page = client.get(path).text
    assert "has no shape" in page
    assert "Train it on a table with slots, [time : nine]" in page


def test_the_page_of_a_model_with_slots_has_no_explanation():
    app = application(disent.Index.of(TEXTS, static_model(), embeddings=["meaning"]), {})
    assert "no slots" not in TestClient(app, base_url="http://127.0.0.1:8900").get("/?q=play+jazz").text
