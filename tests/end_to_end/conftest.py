"""Projects that tests share: one before its first run, and one that has run twice."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import jaxtyping
import pytest
from projects import Project, blank_pictures, drawn_pictures, new_project

from disent_core.storage.locks import take


@pytest.fixture(autouse=True, scope="module")
def blank() -> Iterator[None]:
    """Steps show blank pictures, but to tests that ask for `drawn`."""
    with blank_pictures():
        yield


@pytest.fixture
def drawn() -> Iterator[None]:
    with drawn_pictures():
        yield


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    return new_project(tmp_path)


@dataclass(frozen=True)
class Story:
    """A project that has run twice: what the commands printed, and the results of each run."""

    project: Project
    status_before: str
    first: dict[str, int]
    results: dict[str, str]
    second: dict[str, int]
    results_after_second: dict[str, str]
    status_after: str


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Runs everything twice, in one of the processes of pytest; each has a copy.

    Tests only read this project; a test that changes it takes a copy.
    """
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    project, printed = Project(shared / "story"), shared / "story.json"
    with take(shared / "story.lock"):
        if not printed.exists():
            project.folder.mkdir()
            with blank_pictures(), patch.object(jaxtyping.config, "jaxtyping_disable", False):  # checks shapes
                printed.write_text(json.dumps(run_twice(new_project(project.folder))), encoding="utf-8")
    return Story(project.copy(tmp_path_factory.mktemp("project")), *json.loads(printed.read_text(encoding="utf-8")))


def run_twice(project: Project) -> list[object]:
    """Return what the commands print, in the order of `Story`."""
    before = project.disent("status").stdout
    runs = [run for _ in range(2) for run in (project.materialize(), project.results())]
    return [before, *runs, project.disent("status").stdout]


@pytest.fixture(scope="session")
def finished(story: Story) -> Project:
    return story.project


@pytest.fixture
def copied(finished: Project, tmp_path: Path) -> Project:
    """A copy of the finished project, which a test may change."""
    return finished.copy(tmp_path)
