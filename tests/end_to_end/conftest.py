"""Projects that tests share: one before its first run, and one that has run twice."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from projects import Project, blank_pictures, drawn_pictures, new_project


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
    """Runs everything twice. Tests only read this project; a test that changes it takes a copy."""
    project = new_project(tmp_path_factory.mktemp("project"))
    status_before = project.disent("status").stdout
    with blank_pictures():
        first, results = project.materialize(), project.results()
        second, again = project.materialize(), project.results()
    return Story(project, status_before, first, results, second, again, project.disent("status").stdout)


@pytest.fixture(scope="session")
def finished(story: Story) -> Project:
    return story.project


@pytest.fixture
def copied(finished: Project, tmp_path: Path) -> Project:
    """A copy of the finished project, which a test may change."""
    return finished.copy(tmp_path)
