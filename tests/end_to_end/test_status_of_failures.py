"""What `disent status` says of partitions whose last run has failed."""

import re

import pytest

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def failed(finished, tmp_path_factory):
    """A broken line in the corpus of one language, and a run of everything."""
    project = finished.copy(tmp_path_factory.mktemp("failed"))
    lines = project.file("de-DE").read_text(encoding="utf-8").splitlines(keepends=True)
    project.file("de-DE").write_text("".join([lines[0], "{broken\n", *lines[2:]]), encoding="utf-8")
    assert project.disent("materialize").exit_code == 1
    return project, project.disent("status").stdout


def test_status_names_the_failed_partition_and_its_error(failed):
    _, status = failed
    assert re.search(r"^failed  corpora/utterances \[de\]  <- .*de-DE\.jsonl:2: ", status, re.MULTILINE)


def test_status_calls_only_the_partition_that_failed_so(failed):
    _, status = failed
    assert status.count("failed  ") == 1
    assert ", 1 failed\n" in status


def test_status_is_fresh_again_when_the_line_is_mended(failed):
    project, _ = failed
    lines = project.file("de-DE").read_text(encoding="utf-8").splitlines(keepends=True)
    project.file("de-DE").write_text("".join([lines[0], *lines[2:]]), encoding="utf-8")
    project.materialize()
    assert "failed" not in project.disent("status").stdout
