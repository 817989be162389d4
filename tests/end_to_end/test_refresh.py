"""A running `disent dev` notices changes and refreshes what depends on them, without a click, and ends as a whole.

The tests take minutes, so they run only with `make dev-test`. They wait for events, not for times.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest
from projects import Project, new_project

from disent.home import PROJECT
from disent_assets.lineage.refresh import OF_JOB
from disent_assets.settings.instance import dagster_home
from disent_core.errors import DisentError

pytestmark = [pytest.mark.end_to_end, pytest.mark.daemon, pytest.mark.timeout(3600)]

PATIENCE = 900
"""Seconds; a refresh takes less than a minute on two idle cores."""


class Dev:
    """A running `disent dev` on a project, and a webhook that it tells of failures."""

    def __init__(self, project: Project, instance: dg.DagsterInstance) -> None:
        self.project, self.instance = project, instance
        self.alerts: list[dict[str, Any]] = []
        self.webhook = self._webhook()
        Thread(target=self.webhook.serve_forever, daemon=True).start()
        environment = {
            **os.environ,
            **project.environment,
            "DISENT_ALERTS": f"http://127.0.0.1:{self.webhook.server_port}",
            "DISENT_WORKERS": "2",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "disent_assets.cli", "dev", "--port", str(free_port())]
        with (project.folder / "dev.log").open("w") as log:
            self.process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log)

    def _webhook(self) -> HTTPServer:
        alerts = self.alerts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                alerts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        return HTTPServer(("127.0.0.1", 0), Handler)

    def refreshes(self, since: float) -> list[dg.RunRecord]:
        records = self.instance.get_run_records(dg.RunsFilter(tags=OF_JOB))
        return [record for record in reversed(records) if record.create_timestamp.timestamp() >= since]

    def statuses(self, since: float) -> list[str]:
        return [record.dagster_run.status.value for record in self.refreshes(since)]

    def steps(self, since: float) -> list[tuple[str, str | None]]:
        """Assets and partitions that refreshes since then have made."""
        runs = [record.dagster_run.run_id for record in self.refreshes(since)]
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION
        entries = [entry for run in runs for entry in self.instance.all_logs(run, of_type=kind)]
        made = [entry.asset_materialization for entry in entries if entry.asset_materialization]
        return [(event.asset_key.to_user_string(), event.partition) for event in made]

    def until_refreshed(self, since: float) -> float:
        """Wait until a refresh has ended and none is left; the time at which the last has ended."""
        until(lambda: (all_ := self.statuses(since)) != [] and set(all_) <= {"SUCCESS", "FAILURE", "CANCELED"})
        return max(record.end_time or 0.0 for record in self.refreshes(since))

    def edit(self, word: str) -> float:
        """Change the first word of one utterance; returns the time of the edit."""
        at = time.time()
        self.project.change_word("de-DE", word)
        return at

    def has(self, word: str) -> bool:
        """Whether the warehouse has an utterance that begins with a word."""
        try:
            return bool(self.project.ask(f"select 1 from corpora.utterances where text like '{word} %'"))
        except DisentError:  # it is not there yet
            return False

    def worker(self, run: str) -> int | None:
        """The process of a run."""
        entries = self.instance.all_logs(run, of_type=dg.DagsterEventType.ENGINE_EVENT)
        matches = [
            re.search(r"Started process for run \(pid: (\d+)\)", entry.get_dagster_event().message or "")
            for entry in entries
        ]
        return next((int(match[1]) for match in matches if match), None)

    def processes(self) -> set[int]:
        """All processes that it has started."""
        below, descendants = {self.process.pid}, set()
        while below:
            listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
            pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
            below = {process for process, parent in pairs if parent in below} - descendants
            descendants |= below
        return descendants


def until(is_so: Callable[[], bool], every: float = 0.5) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_alive(process: int) -> bool:
    """Whether a process exists; one that has ended but that nobody has asked for does not."""
    try:
        return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """Everything has been made, without a click."""
    project = new_project(tmp_path_factory.mktemp("dev"))
    with dg.DagsterInstance.from_config(str(dagster_home(project.home))) as instance:
        started, server = time.time(), Dev(project, instance)
        try:
            print(f"everything made in {server.until_refreshed(started) - started:.0f} s")
            yield server
        finally:
            server.process.terminate()
            server.process.wait()
            server.webhook.shutdown()
            server.webhook.server_close()


def test_the_first_start_makes_everything(dev):
    assert dev.statuses(0) == ["SUCCESS"]
    assert " 0 stale, 0 missing\n" in dev.project.disent("status").stdout


def test_an_edited_line_reaches_the_warehouse_in_one_run(dev):
    edited = dev.edit("unvergleichlich")
    until(lambda: dev.has("unvergleichlich"))
    print(f"in the warehouse after {time.time() - edited:.0f} s")
    dev.until_refreshed(edited)
    assert dev.statuses(edited) == ["SUCCESS"]
    steps = dev.steps(edited)
    assert {partition for _, partition in steps} == {"de", "en-de", None}
    assert len(steps) == len(set(steps))


def test_a_second_edit_during_the_refresh_is_not_lost(dev):
    first = dev.edit("erstens")
    until(lambda: ("corpora/utterances", "de") in dev.steps(first))
    dev.edit("zweitens")
    until(lambda: dev.has("zweitens"))
    dev.until_refreshed(first)
    assert dev.statuses(first) == ["SUCCESS", "SUCCESS"]


def test_a_broken_line_alerts_once_until_it_is_fixed(dev):
    whole = dev.project.file("de-DE").read_text(encoding="utf-8")
    broken = time.time()
    dev.project.file("de-DE").write_text(f"{{broken\n{whole}", encoding="utf-8")
    until(lambda: bool(dev.alerts))
    (alert,) = dev.alerts
    (failure,) = alert["failures"]
    assert (alert["job"], failure["step"], failure["partition"]) == ("refresh", "corpora/utterances [de]", "de")
    assert "de-DE.jsonl:1: " in failure["error"]
    mended = time.time()
    dev.project.file("de-DE").write_text(whole, encoding="utf-8")
    dev.until_refreshed(mended)
    assert dev.statuses(broken) == ["FAILURE", "SUCCESS"]


def test_a_killed_refresh_alerts_and_is_repeated(dev):
    before, edited = len(dev.alerts), dev.edit("drittens")
    until(lambda: ("corpora/utterances", "de") in dev.steps(edited))
    killed = dev.refreshes(edited)[0].dagster_run.run_id
    worker = dev.worker(killed)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    at = time.time()
    until(lambda: len(dev.alerts) > before)
    print(f"told after {time.time() - at:.0f} s")
    assert dev.alerts[-1]["run"] == killed
    until(lambda: dev.has("drittens"))
    dev.until_refreshed(edited)
    assert dev.statuses(edited)[:2] == ["FAILURE", "SUCCESS"]
    assert len(dev.alerts) == before + 1


def test_an_edited_configuration_adds_a_pair(dev):
    rows = [row | {"locale": "es-ES"} for row in dev.project.utterances("en-US")]
    dev.project.write("es-ES", rows)
    added = time.time()
    dev.project.configure('"ja-JP"]', '"ja-JP", "es-ES"]')
    dev.project.configure('"en-ja"]', '"en-ja", "en-es"]')
    until(lambda: ("evaluation/tiny/dream_metrics", "en-es") in dev.steps(added))
    dev.until_refreshed(added)
    assert dev.project.ask("select count(*) as n from metrics where trained_on = 'en-es'")[0]["n"] > 0


def test_sigterm_during_a_refresh_leaves_no_process(dev):
    edited = dev.edit("viertens")
    until(lambda: ("corpora/utterances", "de") in dev.steps(edited))
    processes = dev.processes()
    assert len(processes) >= 5
    dev.process.terminate()
    dev.process.wait()
    until(lambda: not any(map(is_alive, processes)))
