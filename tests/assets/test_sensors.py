"""What the sensors record and report in one tick."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import dagster as dg
import pytest

from disent_assets.automation import automated
from disent_assets.corpus_versions import record_of
from disent_assets.definitions import build
from disent_core.config.load import load_config
from disent_core.experiment.workspace import Workspace

CONFIG = """
[[corpora]]
name = "sample"
format = "massive"
path = "corpus"

[[encoders]]
name = "own"
kind = "scratch"

[experiment]
pairs = ["en-de"]
methods = ["raw"]
"""


class Project:
    """Two languages, an instance, and the sensors of the loaded configuration."""

    def __init__(self, folder: Path, ui: str | None = None) -> None:
        self.folder, self.ui, self.instance = folder, ui, dg.DagsterInstance.ephemeral()
        (folder / "disent.toml").write_text(CONFIG, encoding="utf-8")
        for locale in ("en-US", "de-DE"):
            self.write(locale, "one")
        self.load()

    def write(self, locale: str, text: str) -> None:
        path = self.folder / "corpus" / "data" / f"{locale}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def load(self) -> None:
        self.workspace = Workspace(load_config(self.folder / "disent.toml"), self.folder / "home")
        self.repository = automated(build, self.workspace, self.ui).get_repository_def()

    def observe(self) -> list[str]:
        """Partitions with new content, recorded as the daemon records them."""
        result = self.tick("look_at_published_files")
        events = result.asset_events if isinstance(result, dg.SensorResult) else []
        for event in events:
            self.instance.report_runless_asset_event(event)
        return sorted(event.partition for event in events)

    def tick(self, sensor: str) -> dg.SensorResult | dg.SkipReason:
        context = dg.build_sensor_context(instance=self.instance, repository_def=self.repository)
        return self.repository.get_sensor_def(sensor)(context)

    def reload_message(self) -> str:
        result = self.tick("load_changed_configuration")
        return str((result.skip_reason if isinstance(result, dg.SensorResult) else result).skip_message)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_new_content_is_recorded_once(project):
    assert [project.observe(), project.observe()] == [["de", "en"], []]


def test_only_the_partition_with_changed_content_is_recorded(project):
    project.observe()
    project.write("de-DE", "two")
    assert project.observe() == ["de"]


def test_a_reverted_change_is_recorded(project):
    project.observe()
    project.write("de-DE", "two")
    project.observe()
    project.write("de-DE", "one")
    assert project.observe() == ["de"]


def test_an_unreadable_partition_is_named(project):
    project.observe()
    (project.folder / "corpus" / "data" / "de-DE.jsonl").unlink()
    assert str(project.tick("look_at_published_files").skip_message) == (
        "Nothing has changed. Can't be read: published_files [de]"
    )


def test_the_record_lies_in_the_cache(project):
    project.observe()
    assert record_of(project.workspace, "utterances").parent == project.workspace.home / "cache" / "observed"


def test_a_configuration_as_loaded_is_left_alone(project):
    assert project.reload_message() == "Nothing has changed."


def test_a_new_language_is_reported_if_there_is_no_web_server(project):
    project.write("ja-JP", "one")
    assert project.reload_message().startswith("The configuration has changed. Reload the code location 'disent'")
    project.load()
    assert project.reload_message() == "Nothing has changed."


def test_a_configuration_that_cannot_be_read_is_not_loaded(project):
    with (project.folder / "disent.toml").open("a", encoding="utf-8") as file:
        file.write("nonsense = 1\n")
    assert project.reload_message().startswith("The last configuration stays: ")


def test_a_configuration_whose_corpus_is_gone_is_not_loaded(project):
    (project.folder / "corpus").rename(project.folder / "elsewhere")
    assert project.reload_message().startswith("The last configuration stays: ")


@pytest.fixture
def web_server() -> Iterator[tuple[str, list[dict]]]:
    """An address, and the requests that it gets."""
    requests: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", requests
    server.shutdown()
    server.server_close()


def test_the_web_server_is_asked_to_load_a_changed_configuration(tmp_path, web_server):
    address, requests = web_server
    project = Project(tmp_path, address)
    project.reload_message()
    assert requests == []
    project.write("ja-JP", "one")
    assert project.reload_message() == "The configuration has changed and is loaded again."
    assert [request["variables"] for request in requests] == [{"name": "disent"}]


def test_a_web_server_that_does_not_answer_is_no_error(tmp_path):
    project = Project(tmp_path, "http://127.0.0.1:9")
    project.write("ja-JP", "one")
    assert project.reload_message().startswith("The configuration has changed. Reload")
