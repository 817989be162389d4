"""`disent serve` with a head of a finished project."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

import disent
from disent.extras import LINEAGE, SERVE
from disent_assets.cli import main
from disent_assets.web.search_page import app

pytestmark = pytest.mark.end_to_end
WITHOUT_LINEAGE = """
import sys

sys.modules |= dict.fromkeys({names})  # None: an import of them fails, as where they are not installed
from disent_assets.cli import main

main(["serve", {index!r}, "--port", "0"])
"""


@pytest.fixture(scope="module")
def index(finished, tmp_path_factory) -> Path:
    head = disent.load(finished.workspace.head("tiny", "fmda", "en-de"), device="cpu")
    folder = tmp_path_factory.mktemp("served") / "index"
    for language in ("en-US", "de-DE"):
        texts = [row["utt"] for row in finished.utterances(language)[:20]]
        disent.Index.build(folder, head, texts, language=language[:2])
    return folder


@pytest.fixture(scope="module")
def served(index) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of the page and its process, which has only what the extra `serve` installs."""
    code = WITHOUT_LINEAGE.format(names=sorted(LINEAGE - SERVE | {"polars", "scipy"}), index=str(index))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(word for word in process.stdout.readline().split() if word.startswith("http")), process
        finally:
            process.kill()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["serve", *map(str, arguments)], catch_exceptions=False)


def test_the_page_has_the_answers_of_the_index(served, index):
    with urlopen(f"{served[0]}/api/search?q=wake+me+up&k=3&only=de") as answer:
        answers = json.load(answer)["answers"]
    opened = disent.Index.open(index, device="cpu")
    assert list(answers) == ["shape", "values", "meaning"]
    for name, hits in answers.items():
        expected = opened.search("wake me up", name, 3, only_language="de", except_same_text=True)
        assert hits == [hit._asdict() for hit in expected]


def test_the_page_names_head_and_size_and_refused_texts_are_400(served):
    with urlopen(served[0]) as answer:
        shown = answer.read().decode()
    assert "fmda on tiny, en-de, seed 0" in shown
    assert "<dd>40</dd>" in shown
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{served[0]}/api/search?q=%EE%80%80")
    assert refused.value.code == 400
    assert json.load(refused.value)["error"]


def test_an_interrupt_ends_the_server_without_error(served):
    _, process = served
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0


def test_a_missing_head_and_a_damaged_file_fail_before_serving(index, tmp_path, monkeypatch):
    monkeypatch.setattr(app, "run", lambda *_, **__: pytest.fail("it listens"))
    assert run(index, "--head", tmp_path / "no.safetensors").exit_code == 1
    copied = shutil.copytree(index, tmp_path / "index")
    vectors = next(copied.rglob("residual*.npy"))
    vectors.write_bytes(vectors.read_bytes()[:-1])
    result = run(copied, "--head", disent.Index.open(index, device="cpu").model.path)
    assert result.exit_code == 1
    assert vectors.name in result.stderr
