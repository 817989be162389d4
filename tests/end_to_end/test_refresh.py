"""A running `make dev` notices changed files and refreshes what depends on them, without a click.

The tests take minutes, so they run only with `make dev-test`.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from conftest import Project, new_project

from disent_assets.instance import dagster_home
from disent_assets.resources import PROJECT

pytestmark = [pytest.mark.end_to_end, pytest.mark.daemon, pytest.mark.timeout(3600)]

PATIENCE = 1500
"""Seconds; a refresh takes one or two minutes on two idle cores."""
RUNNING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
           dg.DagsterRunStatus.STARTED]  # fmt: skip


class Dev:
    """A running `dagster dev` on a project."""

    def __init__(self, project: Project, port: int, instance: dg.DagsterInstance) -> None:
        self.project, self.port, self.instance = project, port, instance

    def runs(self, since: float) -> list[dg.RunRecord]:
        records = self.instance.get_run_records(dg.RunsFilter(tags={"dagster/from_automation_condition": "true"}))
        return [record for record in reversed(records) if record.create_timestamp.timestamp() >= since]

    def steps(self, since: float) -> list[tuple[str, str | None]]:
        """Assets and partitions that runs since then have made."""
        return [
            (key.to_user_string(), record.dagster_run.tags.get("dagster/partition"))
            for record in self.runs(since)
            for key in sorted(record.dagster_run.asset_selection or ())
        ]

    def encoded(self, since: float) -> int:
        """Number of encoded texts; vectors and states of a step come from one forward pass."""
        counts: dict[tuple[str, str], int] = {}
        for record in self.runs(since):
            for entry in self.instance.all_logs(
                record.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
            ):
                event = entry.get_dagster_event()
                if (count := event.step_materialization_data.materialization.metadata.get("encoded")) is not None:
                    counts[record.dagster_run.run_id, event.step_key] = int(count.value)
        return sum(counts.values())

    def is_quiet(self) -> bool:
        return not self.instance.get_runs(dg.RunsFilter(statuses=RUNNING))

    def until_fresh(self) -> float:
        """Wait until nothing runs and nothing is left to do; the time at which the last run ended."""
        until(lambda: self.is_quiet() and " 0 stale, 0 missing\n" in self.project.disent("status").stdout, every=5)
        return max(record.end_time or 0.0 for record in self.instance.get_run_records(limit=50))

    def edit(self, word: str, split: str = "train") -> float:
        """Change the first word of one utterance; returns the time of the edit."""
        rows = self.project.utterances("de-DE")
        row = next(row for row in rows if row["partition"] == split and not row["annot_utt"].startswith("["))
        for name in ("utt", "annot_utt"):
            row[name] = " ".join([word, *row[name].split(" ")[1:]])
        at = time.time()
        self.project.write("de-DE", rows)
        return at

    def texts(self) -> set[str]:
        return {row["text"] for row in self.project.ask("select text from corpora.utterances where language = 'de'")}


def until(is_so: Callable[[], bool], every: float = 1.0) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """Everything has been made, without a click."""
    project, port = new_project(tmp_path_factory.mktemp("dev")), free_port()
    home = dagster_home(project.home)
    environment = os.environ | project.environment | {
        "DAGSTER_HOME": str(home), "DISENT_UI": f"http://127.0.0.1:{port}", "OMP_NUM_THREADS": "1"
    }  # fmt: skip
    dagster = Path(sys.executable).with_name("dagster")
    command = [str(dagster), "dev", "--workspace", "workspace.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with (
        (project.folder / "dev.log").open("w") as log,
        subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log) as process,
        dg.DagsterInstance.from_config(str(home)) as instance,
    ):
        try:
            started, server = time.time(), Dev(project, port, instance)
            print(f"everything made in {server.until_fresh() - started:.0f} s, {len(server.runs(started))} runs")
            yield server
        finally:
            process.terminate()


def test_an_edited_line_is_picked_up_without_a_click(dev):
    edited = dev.edit("unvergleichlich")
    until(lambda: bool(dev.runs(edited)))
    launched = dev.runs(edited)[0].create_timestamp.timestamp()
    ended = dev.until_fresh()
    steps, texts = dev.steps(edited), dev.encoded(edited)
    print(f"first run after {launched - edited:.0f} s, all fresh after {ended - edited:.0f} s, "
          f"{len(dev.runs(edited))} runs, {len(steps)} steps, {texts} texts encoded")  # fmt: skip
    assert {partition for _, partition in steps} == {"de", "en-de", None}
    assert len(steps) == len(set(steps))
    assert 1 <= texts <= 3
    assert any(text.startswith("unvergleichlich") for text in dev.texts())


def test_a_second_edit_during_the_run_of_the_first_is_not_lost(dev):
    first = dev.edit("erstens")
    until(lambda: any(run.dagster_run.status == dg.DagsterRunStatus.STARTED for run in dev.runs(first)), every=0.2)
    dev.edit("zweitens")
    dev.until_fresh()
    assert any(text.startswith("zweitens") for text in dev.texts())


def test_a_broken_line_fails_once_and_the_mended_one_is_made(dev):
    whole = dev.project.file("de-DE").read_text(encoding="utf-8")
    broken = time.time()
    dev.project.file("de-DE").write_text(f"{{broken\n{whole}", encoding="utf-8")
    until(lambda: any(run.dagster_run.status == dg.DagsterRunStatus.FAILURE for run in dev.runs(broken)))
    time.sleep(30)
    assert len(dev.runs(broken)) == 1
    assert "failed  corpora/utterances [de]" in dev.project.disent("status").stdout
    dev.project.file("de-DE").write_text(whole, encoding="utf-8")
    dev.until_fresh()


def test_a_new_language_becomes_a_partition_without_a_click(dev):
    rows = [row | {"locale": "es-ES"} for row in dev.project.utterances("en-US")]
    dev.project.write("es-ES", rows)
    added = time.time()
    dev.project.configure('"ja-JP"]', '"ja-JP", "es-ES"]')
    until(lambda: ("corpora/utterances", "es") in dev.steps(added))
    dev.until_fresh()
    assert {partition for _, partition in dev.steps(added)} >= {"es"}
