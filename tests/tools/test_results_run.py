"""`python -m tools.results` names corpora that are missing before anything is run, and records how long a run takes."""

from pathlib import Path

import pytest
from worlds import corpus, encoder, experiment

from disent_core.config.checks import absent_corpora
from disent_core.config.load import load_config
from tools import results, results_run
from tools.results_run import ship_seconds, shipped_seconds

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ["en-US", "de-DE"]
CONFIG = (
    corpus("sample", path="{corpora}/sample", languages=LANGUAGES)
    + corpus("fetched", path="f.tar.gz", url="https://example.org/f.tar.gz", sha256="{sha256}", languages=LANGUAGES)
    + corpus("tatoeba", "tatoeba", path="nowhere", pairs=["de-en"])
    + encoder("tiny")
    + experiment()
)


@pytest.fixture
def project(tmp_path):
    """A configuration with three corpora: one is there, one would be downloaded, one is missing."""
    text = CONFIG.format(corpora=ROOT / "data" / "corpora", sha256="0" * 64)
    (tmp_path / "disent.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_plan_names_missing_corpora_without_download(project, capsys):
    assert absent_corpora(load_config(project / "disent.toml")) == {"tatoeba": project / "nowhere"}
    results.run(project, {"disent.toml": project / "home"}, is_plan=True)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("disent.toml in ")
    assert [line.strip() for line in others] == [
        "these corpora are missing (docs/corpora.md says where to get them):",
        f"tatoeba: {project / 'nowhere'}",
    ]


def test_a_run_without_a_corpus_is_refused_before_anything_is_made(project, monkeypatch):
    started = []
    monkeypatch.setattr(results, "materialize", lambda *of_run: started.append(of_run))
    with pytest.raises(ValueError, match=r"disent\.toml: put the missing corpora there first\. Nothing was run"):
        results.run(project, {"disent.toml": project / "home"}, is_plan=False)
    assert started == []


def test_a_home_with_some_steps_keeps_the_recorded_seconds_of_the_others(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(results_run, "load_config", lambda path: path)
    monkeypatch.setattr(results_run, "Workspace", lambda config, home: home)
    for name, seconds in (("whole", {"dream": 60.0, "facet": 90.0, "raw": 5.0}), ("part", {"facet": 80.0, "raw": 0.4})):
        monkeypatch.setattr(results_run, "recorded_seconds", lambda *_, seconds=seconds: seconds)
        (tmp_path / name).mkdir()
        ship_seconds(tmp_path, {"a.toml": tmp_path / name})
    assert shipped_seconds(tmp_path) == {"a.toml": {"dream": 60, "facet": 80}}
