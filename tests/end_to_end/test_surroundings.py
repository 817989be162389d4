"""What surrounds a run changes: the locale, the configuration, the corpora, the clock, the disk, other readers."""

import errno
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from projects import Project, rows

from disent_assets.definitions import build
from disent_assets.run import runner
from disent_assets.run.corpus_versions import read_sources
from disent_assets.run.plan import StepRun, plan, steps_of
from disent_assets.run.steps import find_states, observed_contents
from disent_assets.run.workers import Work, how_ended
from disent_core.corpora import reader
from disent_core.corpora.formats.massive import data_files
from disent_core.errors import ConfigError, CorpusError
from disent_core.lineage import corpora
from disent_core.lineage.corpora import refresh_utterances
from disent_core.lineage.state import write_published

pytestmark = pytest.mark.end_to_end

# --- locale -----------------------------------------------------------------------------------------------

ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ANSWER = "select text from utterances where text = 'wetter in köln' or language = 'ja' order by text limit 3"


def run(project: Project, *arguments: str, locale: dict[str, str]) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "disent_assets.cli", *arguments]
    return subprocess.run(command, env=os.environ | project.environment | locale, capture_output=True, check=False)


@pytest.mark.parametrize("locale", [ASCII, {"PYTHONIOENCODING": "latin-1"}], ids=["C", "latin-1"])
def test_texts_are_printed_as_utf_8_whatever_the_locale(finished, locale):
    shown = run(finished, "sql", ANSWER, locale=locale)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.decode("utf-8") == finished.disent("sql", ANSWER).stdout
    assert any(ord(letter) > 0x3000 for letter in shown.stdout.decode("utf-8"))


def test_paths_may_have_letters_that_the_locale_lacks(fresh, tmp_path):
    project = Project(tmp_path / "日本 köln")
    project.folder.mkdir()
    (fresh.folder / "corpus").rename(project.folder / "corpus")
    fresh.config.rename(project.config)
    made = run(project, "materialize", "corpora", locale=ASCII)
    assert made.returncode == 0, made.stderr.decode()
    assert "3 fresh" in project.disent("status").stdout


# --- configuration ----------------------------------------------------------------------------------------


def test_a_configuration_that_was_edited_after_it_was_loaded_starts_no_worker(fresh):
    workspace = fresh.workspace
    fresh.configure("max_epochs = 6", "max_epochs = 7")
    with pytest.raises(ConfigError, match=r"was changed while the command was running\. Start the command again"):
        Work.of(build, workspace)


def test_a_worker_refuses_a_configuration_that_was_half_written_or_deleted_after_the_run_began(fresh):
    work = Work.of(build, fresh.workspace)
    fresh.config.write_text("half a configura", encoding="utf-8")
    with pytest.raises(ConfigError, match="was changed while the command was running"):
        work.workspace()
    fresh.config.unlink()
    with pytest.raises(ConfigError, match="was changed while the command was running"):
        work.workspace()


# --- corpora ----------------------------------------------------------------------------------------------


class Disturbed:
    """A reader of a corpus that calls a function before it reads for the first time, and after that another."""

    def __init__(self, before: Callable[[], object], after: Callable[[], object] = lambda: None) -> None:
        self.reader, self.calls = reader("massive"), [before, after]
        self.content_hash = self.reader.content_hash

    def read_utterances(self, *arguments: Any, **named: Any) -> pa.Table:
        """As the reader does."""
        calls, self.calls = self.calls, []
        for call in calls[:1]:
            call()
        table = self.reader.read_utterances(*arguments, **named)
        for call in calls[1:]:
            call()
        return table


def disturb(monkeypatch: pytest.MonkeyPatch, *calls: Callable[[], object]) -> None:
    disturbed = Disturbed(*calls)
    monkeypatch.setattr(corpora, "reader", lambda _: disturbed)


def stored(project: Project) -> int:
    return len(rows(project.workspace.table("corpora", "utterances", "sample", "de")))


def test_a_corpus_that_shrinks_while_it_is_read_makes_no_table(fresh, monkeypatch):
    disturb(monkeypatch, lambda: fresh.write("de-DE", fresh.utterances("de-DE")[:-1]))
    with pytest.raises(CorpusError, match=r"corpus: this corpus was changed while it was read\. Start the same run"):
        refresh_utterances(fresh.workspace, "de")
    assert not fresh.workspace.table("corpora", "utterances", "sample", "de").exists()


def test_a_corpus_that_vanishes_while_it_is_read_is_named(fresh, monkeypatch):
    disturb(monkeypatch, lambda: fresh.file("de-DE").unlink())
    with pytest.raises(CorpusError, match=r"corpus: it has no file de-DE\.jsonl"):
        refresh_utterances(fresh.workspace, "de")


def test_a_corpus_that_was_half_copied_when_it_was_read_is_read_again_whole(fresh, monkeypatch):
    whole = fresh.utterances("de-DE")
    disturb(monkeypatch, lambda: fresh.write("de-DE", whole[:-1]), lambda: fresh.write("de-DE", whole))
    refresh_utterances(fresh.workspace, "de")
    assert stored(fresh) == len(whole)


def test_an_edit_of_another_language_disturbs_no_reading(fresh, monkeypatch):
    disturb(monkeypatch, lambda: fresh.write("ja-JP", fresh.utterances("ja-JP")[:-1]))
    refresh_utterances(fresh.workspace, "de")
    assert stored(fresh) == len(fresh.utterances("de-DE"))


# --- clock ------------------------------------------------------------------------------------------------


def test_a_clock_set_back_during_a_run_makes_nothing_stale(copied, monkeypatch):
    utterances = copied.utterances("de-DE")
    for name in ("utt", "annot_utt"):
        utterances[3][name] = f"unvergleichlich {utterances[3][name]}"
    copied.write("de-DE", utterances)
    now, now_ns, begun = time.time, time.time_ns, runner.Report.begin

    def begin(report: runner.Report, step: StepRun) -> None:
        monkeypatch.setattr(time, "time", lambda: now() - 400 * 86_400)
        monkeypatch.setattr(time, "time_ns", lambda: now_ns() - 400 * 86_400_000_000_000)
        begun(report, step)

    workspace, report = copied.workspace, runner.Report()
    steps = steps_of(workspace, build(workspace))
    write_published(workspace, observed_contents(read_sources(workspace)))
    report.begin = partial(begin, report)
    runs = plan(steps, ["corpora", "negatives", "targets"], "de")
    result = runner.run_steps(build, workspace, steps, runs, find_states(workspace), report=report)
    assert not result.failed
    assert sum(outcome.made for outcome in result.outcomes.values()) > 0
    monkeypatch.undo()
    assert copied.materialize("corpora", "negatives", "targets", "--partition", "de")["made"] == 0


# --- disk -------------------------------------------------------------------------------------------------


def fail(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let the disk fail to read a file."""
    opened = io.open

    def open_(file: Any, *arguments: Any, **named: Any) -> Any:
        if file == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(file, *arguments, **named)

    monkeypatch.setattr(io, "open", open_)


def test_an_unreadable_result_file_is_named_and_kept(copied, monkeypatch):
    before, table = copied.computed(), "tables/corpora/utterances/sample/de.parquet"
    for file in (table, f"{table}.manifest", "encoders/tiny/files.manifest", "encoders/tiny/tokenizer.json"):
        path = copied.home / file
        fail(monkeypatch, path)
        result = copied.disent("materialize")
        monkeypatch.undo()
        assert result.exit_code == 1
        assert f"disent: {path}: the disk failed to read or write this file. No complete file" in result.stderr
        assert copied.computed() == before


def test_a_configuration_that_the_disk_fails_to_read_is_named(fresh, monkeypatch):
    fail(monkeypatch, fresh.config)
    result = fresh.disent("status")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"disent: {fresh.config}: can't be read (")
    assert "the disk" in result.stderr


def test_an_archive_that_the_disk_fails_to_read_is_not_called_damaged(tmp_path, monkeypatch):
    archive = tmp_path / "corpus.tar"
    archive.write_bytes(b"")
    fail(monkeypatch, archive)
    with pytest.raises(CorpusError, match="Check the disk"):
        data_files(archive)


def test_sigbus_is_reported_as_an_unreadable_mapped_file():
    assert "could not read a mapped file" in how_ended(-signal.SIGBUS)
