"""The options and the environment of `disent serve`, with the model that disent comes with."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import disent
from disent_assets.cli import main
from disent_assets.web.search_page import app

TEXTS = [f"wake me up at {time}" for time in ("six", "seven", "eight")] + ["play jazz", "play rock", "play soul"]
LABELS = ["alarm"] * 3 + ["music"] * 3
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "index"
    disent.Index.build(folder, disent.load(), TEXTS, language="en")
    return folder


@pytest.fixture
def served(monkeypatch) -> SimpleNamespace:
    """What would be served, if anything."""
    given = SimpleNamespace(host=None)

    def keep(index: object, about: object, host: str, *_: object, **options: object) -> None:
        vars(given).update(index=index, about=about, host=host, **options)

    monkeypatch.setattr(app, "run", keep)
    return given


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(main, ["serve", *map(str, arguments)], env=environment)


@pytest.mark.parametrize(("host", "token", "is_warned"), [
    ("127.0.0.1", None, False), ("::1", None, False), ("localhost", None, False),
    ("0.0.0.0", None, True), ("::", None, True), ("wall.example", None, True), ("0.0.0.0", TOKEN, False),
])  # fmt: skip
def test_sharing_without_a_login_warns(index, served, host, token, is_warned):
    result = run(index, "--host", host, **({} if token is None else {"DISENT_SERVE_TOKEN": token}))
    assert (served.host, served.token) == (host, token)
    assert bool(result.stderr) is is_warned


def test_the_default_host_is_localhost(index, served):
    run(index)
    assert (served.host, served.token, served.classifier) == ("127.0.0.1", None, None)


@pytest.mark.parametrize("token", ["", "short"])
def test_a_weak_token_is_refused_and_not_printed(index, served, token):
    result = run(index, DISENT_SERVE_TOKEN=token)
    assert result.exit_code == 2
    assert served.host is None
    assert "DISENT_SERVE_TOKEN" in result.stderr
    assert "16 characters" in result.stderr
    assert "'short'" not in result.stderr


def test_a_classifier_with_the_model_of_the_index_shares_that_model(index, served, tmp_path):
    disent.Classifier(disent.load(), unknown="neither").fit(TEXTS, LABELS).save(tmp_path / "made")
    result = run(index, "--classifier", tmp_path / "made")
    assert result.exit_code == 0, result.stderr
    assert served.classifier.predict(["play jazz"]).tolist() == ["music"]
    assert served.classifier.model_ is served.index.model
    assert served.about["classifier"].endswith("made")


def test_a_classifier_with_another_model_loads_that_model(index, served, static_model, tmp_path):
    disent.Classifier(str(static_model)).fit(TEXTS, LABELS).save(tmp_path / "made")
    assert run(index, "--classifier", tmp_path / "made").exit_code == 0
    assert served.classifier.model_.fingerprint == disent.load(static_model).fingerprint


@pytest.fixture
def static_model(tmp_path) -> Path:
    """Another model than that of the index."""
    import numpy as np

    from disent_core.static_model import StaticModel

    parts = {"template": 8, "residual": 8}
    StaticModel.of_table([], np.zeros((0, 16)), parts=parts, seed=3).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_without_a_classifier_is_one_error_line_before_serving(index, served, tmp_path):
    result = run(index, "--classifier", tmp_path)
    assert result.exit_code == 1
    assert served.host is None
    assert "no classifier here" in result.stderr
    assert result.stderr.count("\n") == 1
