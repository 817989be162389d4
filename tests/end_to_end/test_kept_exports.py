"""A head that the configuration exports is a folder that follows it: whole, checked, and shown like other assets."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from projects import Project, new_project

import disent
from disent_core.export import folder as export
from disent_core.export import step
from disent_core.lineage.steps import SAME_OUTPUT

pytestmark = pytest.mark.end_to_end
pytest.importorskip("sentence_transformers")

TEXTS = ["wake me up at nine", "spiel etwas jazz"]
ASSET = "exports/tiny/dream_export"
KILLED = """
import os
import signal
import sys

from disent_core.export import folder

folder.write_record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from disent_assets.cli import main

main(["materialize", "exports"])
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Project:
    project = new_project(tmp_path_factory.mktemp("kept"))
    project.only("raw", "dream")
    project.configure("[evaluation]", '[exports]\nheads = ["dream@tiny:en-de"]\nlicence = "CC0-1.0"\n\n[evaluation]')
    project.configure("[evaluation]", '[evaluation]\ntasks = ["crosslingual_retrieval"]')
    project.materialize()
    return project


def folder(project: Project) -> Path:
    return project.workspace.export("tiny", "dream", "en-de")


def status(project: Project) -> str:
    (row,) = [row for row in project.ask("from asset_state") if row["asset"] == ASSET]
    return row["state"]


def files(project: Project) -> dict[str, str]:
    """Hash of every file of exports, but those that a killed process was writing."""
    return {
        path: digest for path, digest in project.results().items() if path.startswith("exports/") and "/." not in path
    }


def card(project: Project) -> str:
    return (folder(project) / "README.md").read_text(encoding="utf-8")


def test_a_kept_export_gives_the_vectors_of_its_head_and_has_measurements(kept):
    assert kept.disent("status", "--check").exit_code == 0
    assert status(kept) == "fresh"
    places = folder(kept), kept.workspace.head("tiny", "dream", "en-de")
    actual, expected = (disent.load(place).encode(TEXTS, "meaning") for place in places)
    assert np.abs(actual - expected).max() <= 2e-6 * np.abs(expected).max()
    rows = kept.ask("from metrics where method = 'dream' and seed = 0 and ci_low is not null and embedding = 'meaning'")
    assert rows
    assert all(
        f"| {row['value']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}] | {row['n']} |" in card(kept) for row in rows
    )
    assert 'license: "cc0-1.0"' in card(kept)
    assert list(folder(kept).parent.glob(".*.tmp")) == []


def test_the_asset_has_its_head_and_metrics_above_it_and_its_check_passed(kept):
    graph = kept.definitions.resolve_asset_graph()
    (key,) = [key for key in graph.get_all_asset_keys() if key.to_user_string() == ASSET]
    above = {parent.to_user_string() for parent in graph.get(key).parent_keys}
    assert above == {"heads/tiny/dream_head", "evaluation/tiny/dream_metrics"}
    assert {check.name for check in graph.asset_check_keys if check.asset_key == key} == {SAME_OUTPUT.name}
    with kept.events() as events:
        ((partition, metadata),) = [of[1:] for of in events.metadata() if of[0] == ASSET]
    assert (partition, metadata["folder"]) == ("en-de", str(folder(kept)))


def test_a_kept_export_is_rewritten_only_if_its_head_changes(kept, tmp_path):
    project = kept.copy(tmp_path)
    before = files(project)
    project.configure("[methods.fmda]", "[methods.raw]\n\n[methods.fmda]")
    project.materialize()
    assert files(project) == before
    project.configure("max_epochs = 6", "max_epochs = 7")
    assert re.search(rf"stale .*{ASSET}", project.disent("status").stdout) is None  # its head comes first
    project.materialize("heads", "evaluation")
    assert re.search(rf"{ASSET} .*its content has changed", project.disent("status").stdout)
    assert (files(project), status(project)) == (before, "stale")
    project.materialize("exports")
    assert status(project) == "fresh"
    (weights,) = project.weights().values()
    assert disent.load(folder(project)).fingerprint == weights != disent.load(folder(kept)).fingerprint


def test_an_interrupted_export_keeps_the_old_folder_until_the_next_run(kept, tmp_path, monkeypatch):
    project = kept.copy(tmp_path)
    before = files(project)
    project.configure('licence = "CC0-1.0"', 'licence = "MIT"')
    with monkeypatch.context() as patch:
        patch.setattr(export, "write_record", fail)
        result = project.disent("materialize", "exports")
    assert result.exit_code == 1
    assert (files(project), status(project)) == (before, "failed")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED],
        env=os.environ | project.environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert files(project) == before
    project.materialize("exports")
    assert 'license: "mit"' in card(project)
    assert [path.name for path in folder(project).parent.iterdir() if path.suffix != ".lock"] == ["en-de"]


def fail(*_: object) -> None:
    raise RuntimeError("no more")


def test_a_folder_that_was_changed_is_set_aside_and_made_again(kept, tmp_path):
    project = kept.copy(tmp_path)
    (folder(project) / "config_sentence_transformers.json").write_text("{}", encoding="utf-8")
    project.materialize("exports")
    damaged = folder(project).with_name("en-de.damaged")
    assert damaged.is_dir()
    shutil.rmtree(damaged)
    assert files(project) == files(kept)


def test_a_folder_that_no_longer_gives_the_output_of_its_head_fails_the_check(kept, tmp_path, monkeypatch):
    project = kept.copy(tmp_path)
    monkeypatch.setattr(export.VectorProbes, "difference", lambda *_: 2e-4)
    monkeypatch.setattr(export, "TOLERANCE", 1.0)  # of the export itself
    assert project.disent("materialize", "exports").exit_code == 0  # it was loaded by these versions already
    monkeypatch.setattr(step.metadata, "version", lambda _: "another")
    result = project.disent("materialize", "exports")
    assert result.exit_code == 1
    assert SAME_OUTPUT.name in result.output


def test_without_sentence_transformers_the_step_says_how_to_install_it(kept, tmp_path, monkeypatch):
    project = kept.copy(tmp_path)
    project.configure('licence = "CC0-1.0"', "")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    result = project.disent("materialize", "exports")
    assert result.exit_code == 1
    assert "pip install 'disent-embeddings[export]'" in result.output
