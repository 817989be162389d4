"""What the sensors record and report in one tick."""

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from toy_steps import listening
from worlds import corpus, encoder, experiment

from disent_assets.lineage.refresh import OF_JOB, OF_STEPS, automated, load_error
from disent_assets.run.corpus_versions import record_of
from disent_assets.settings.environment import RunSettings
from disent_assets.settings.instance import open_instance
from disent_core.config.load import load_config
from disent_core.lineage.steps import FILES
from disent_core.lineage.workspace import Workspace

WARN = dg.AssetCheckSeverity.WARN
CONFIG = corpus("sample", path="corpus") + encoder("own") + experiment()


def load(workspace: Workspace) -> dg.Definitions:
    """Two assets stand for a hundred: as these, they have a partition for each language and each training set."""
    config = workspace.config
    names = {"utterances": config.utterance_languages, "metrics": config.experiment.pairs}
    return dg.Definitions(
        assets=[
            dg.AssetSpec(name, partitions_def=dg.StaticPartitionsDefinition([*of_name]))
            for name, of_name in names.items()
        ]
    )


class Project:
    """Two languages, an instance, and the sensors of the loaded configuration."""

    def __init__(self, folder: Path, ui: str | None = None) -> None:
        self.folder, self.ui, self.instance = folder, ui, dg.DagsterInstance.ephemeral()
        self.cursor: str | None = None
        self.cursor_of_reload: str | None = None
        (folder / "disent.toml").write_text(CONFIG, encoding="utf-8")
        for locale in ("en-US", "de-DE"):
            self.write(locale, "one")
        self.load()

    def write(self, locale: str, text: str) -> None:
        path = self.folder / "corpus" / "data" / f"{locale}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def load(self, started: str = "") -> None:
        self.workspace = Workspace(load_config(self.folder / "disent.toml"), self.folder / "home")
        settings = RunSettings("in_process", self.ui, started=started)
        self.repository = automated(load, self.workspace, settings).get_repository_def()

    def look(self) -> tuple[list[str], int]:
        """One tick: partitions with new content, recorded as the daemon records them, and the requested runs."""
        result = self.tick("start_refresh", self.cursor)
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursor = result.cursor or self.cursor
        observed = [event.partition for event in result.asset_events if isinstance(event, dg.AssetObservation)]
        return sorted(observed), len(result.run_requests or ())

    def reason(self) -> str:
        return str(self.tick("start_refresh", self.cursor).skip_reason.skip_message)

    def tick(self, sensor: str, cursor: str | None) -> dg.SensorResult:
        context = dg.build_sensor_context(self.instance, cursor=cursor, repository_def=self.repository)
        return self.repository.get_sensor_def(sensor)(context)

    def add_run(self, status: str, tags: dict[str, str]) -> None:
        self.instance.add_run(dg.DagsterRun("refresh", status=dg.DagsterRunStatus[status], tags=tags))

    def make_by_hand(self, tags: dict[str, str]) -> None:
        """A run makes a result."""

        @dg.asset
        def something() -> None: ...

        job = dg.Definitions(assets=[something]).resolve_implicit_global_asset_job_def()
        job.execute_in_process(instance=self.instance, tags=tags)

    def reload_message(self) -> str:
        result = self.tick("load_changed_configuration", self.cursor_of_reload)
        self.cursor_of_reload = result.cursor if isinstance(result, dg.SensorResult) else self.cursor_of_reload
        return str((result.skip_reason if isinstance(result, dg.SensorResult) else result).skip_message)


@pytest.fixture(autouse=True)
def old_code(monkeypatch) -> None:
    """The code of disent counts as older than its process: a checkout may have been written a moment ago."""
    monkeypatch.setattr("disent_assets.lineage.refresh.LOADED_AT", time.time_ns() + 10**12)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_new_content_is_recorded_once_and_each_change_requests_a_refresh(project):
    assert [project.look(), project.look()] == [(["de", "en"], 1), ([], 0)]
    project.look()
    for text in ("two", "one"):
        project.write("de-DE", text)
        assert project.look() == (["de"], 1)


@pytest.mark.parametrize(
    ("status", "text", "looked", "reason"),
    [
        ("FAILURE", "one", ([], 0), "Nothing has changed."),
        ("STARTING", "two", (["de"], 0), "A refresh is about to start."),
        ("STARTED", "two", (["de"], 1), "Nothing has changed."),
    ],
    ids=["it failed", "it is about to start", "it was killed"],
)
def test_a_change_requests_one_refresh_whatever_the_last_outcome(project, status, text, looked, reason):
    project.look()
    project.add_run(status, OF_JOB)
    project.write("de-DE", text)
    assert project.look() == looked
    assert project.reason() == reason


def test_a_change_during_a_run_requests_a_refresh_after_it(project):
    project.look()
    with open_instance(project.workspace.home):  # as a refresh or a command does
        project.write("de-DE", "two")
        assert project.look() == (["de"], 0)
        assert "waiting for the running refresh or command" in project.reason()
    assert project.look() == ([], 1)


def test_an_unreadable_partition_requests_one_refresh_and_fails_its_check(project):
    project.look()
    (project.folder / "corpus" / "data" / "de-DE.jsonl").unlink()
    assert [project.look(), project.look()] == [([], 1), ([], 0)]
    assert project.reason() == "Nothing has changed. Can't be read: published_files [de]"
    key = dg.AssetCheckKey(dg.AssetKey(FILES), "files_can_be_read")
    latest = project.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key].evaluation
    assert (latest.passed, latest.severity, latest.metadata["unreadable"].value) == (False, WARN, ["de"])


def test_only_a_manual_materialisation_requests_a_refresh(project):
    project.look()
    project.make_by_hand({})
    assert [project.look(), project.look()] == [([], 1), ([], 0)]
    project.make_by_hand(OF_STEPS)
    assert project.look() == ([], 0)


def test_a_change_during_a_backfill_requests_a_refresh_after_it(project):
    project.look()
    project.write("de-DE", "two")
    project.add_run("STARTED", {"dagster/backfill": "abc"})
    assert project.look() == (["de"], 0)
    assert project.reason() == "Something has changed; waiting for the running backfill."
    (run,) = project.instance.get_runs()
    project.instance.report_run_canceled(run)
    assert project.look() == ([], 1)


def test_new_partitions_and_restarts_request_a_refresh_but_reloads_do_not(project):
    project.look()
    config = project.folder / "disent.toml"
    config.write_text(config.read_text(encoding="utf-8").replace('"en-de"', '"de-en"'), encoding="utf-8")
    project.load()
    assert project.look() == ([], 1)
    project.look()
    project.load("second")
    assert project.look() == ([], 1)
    project.load("second")
    assert project.look() == ([], 0)


def test_the_record_is_in_the_cache_folder(project):
    project.look()
    assert record_of(project.workspace, FILES).parent == project.workspace.home / "cache" / "observed"


@pytest.mark.parametrize("ui", [None, "http://127.0.0.1:9"])
def test_without_a_web_server_a_new_language_is_only_reported(tmp_path, ui):
    project = Project(tmp_path, ui)
    assert project.reload_message() == "Nothing has changed."
    project.write("ja-JP", "one")
    assert project.reload_message().startswith("The configuration has changed. Reload the code location 'disent'")
    project.load()
    assert project.reload_message() == "Nothing has changed."


@pytest.mark.parametrize("what", ["a key that does not exist", "a corpus that is gone"])
def test_an_unreadable_configuration_or_missing_corpus_keeps_the_previous_configuration(project, what):
    if what == "a corpus that is gone":
        (project.folder / "corpus").rename(project.folder / "elsewhere")
    else:
        (project.folder / "disent.toml").write_text(f"{CONFIG}nonsense = 1\n", encoding="utf-8")
    assert project.reload_message().startswith("The previous configuration stays in use: ")


def test_a_changed_configuration_reloads_the_web_server(tmp_path):
    with listening() as server:
        project = Project(tmp_path, server.address)
        project.reload_message()
        assert server.messages == []
        project.write("ja-JP", "one")
        assert project.reload_message() == "The configuration has changed and is loaded again."
    assert [request["variables"] for request in server.messages] == [{"name": "disent"}]


# --- code -------------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path, monkeypatch) -> Iterator[Path]:
    """A loaded module, as old as if nobody had just written it."""
    path = tmp_path / "of_a_user.py"
    path.write_text("VERSION = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("disent_assets.lineage.refresh.are_settled", lambda *_: True)
    monkeypatch.setattr("disent_assets.lineage.refresh.LOADED_AT", time.time_ns())
    monkeypatch.setattr("disent_assets.lineage.refresh.load_error", lambda: None)
    importlib.import_module("of_a_user")
    yield path
    del sys.modules["of_a_user"]


def edit(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "VERSION = 2\n", encoding="utf-8")


def test_edited_code_requests_one_reload(module, tmp_path):
    with listening() as server:
        project = Project(tmp_path, server.address)
        assert project.reload_message() == "Nothing has changed."
        edit(module)
        assert project.reload_message() == "The code has changed and is loaded again."
        assert project.reload_message() == "Nothing has changed."  # also if the process were still the old one
    assert len(server.messages) == 1


def test_an_edit_while_the_code_is_loaded_is_not_lost(module, tmp_path):
    with listening() as server:
        edit(module)  # it was imported before, and its stats are taken after
        project = Project(tmp_path, server.address)
        assert project.reload_message() == "The code has changed and is loaded again."


def test_broken_code_is_tried_once_per_edit(module, tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr("disent_assets.lineage.refresh.load_error", lambda: tried.append(1) or "SyntaxError: no")
    with listening() as server:
        project = Project(tmp_path, server.address)
        edit(module)
        assert project.reload_message() == "The previous code stays in use: SyntaxError: no"
        assert project.reload_message() == "Nothing has changed."
        edit(module)
        assert project.reload_message() == "The previous code stays in use: SyntaxError: no"
    assert (len(tried), server.messages) == (2, [])


def test_the_load_error_comes_from_a_fresh_process(tmp_path, monkeypatch):
    (tmp_path / "disent_assets.py").write_text("no python\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert load_error() == "SyntaxError: invalid syntax"
