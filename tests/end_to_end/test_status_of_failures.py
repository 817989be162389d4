"""What `disent status` says of partitions whose last run has failed."""

import re

import pytest

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def failed(finished, tmp_path_factory):
    """A broken line more in the corpus of one language, and a run of everything."""
    project = finished.copy(tmp_path_factory.mktemp("failed"))
    first, rest = project.file("de-DE").read_text(encoding="utf-8").split("\n", 1)
    project.file("de-DE").write_text(f"{first}\n{{broken\n{rest}", encoding="utf-8")
    assert project.disent("materialize").exit_code == 1
    return project, project.disent("status").stdout


def test_status_names_the_partition_that_failed_with_its_error_and_no_other(failed):
    _, status = failed
    assert re.search(r"^failed  corpora/utterances \[de\]  <- .*de-DE\.jsonl:2: ", status, re.MULTILINE)
    assert status.count("failed  ") == 1
    assert ", 1 failed\n" in status


def test_the_error_of_a_file_that_has_been_corrected_is_not_shown(failed):
    project, before = failed
    broken = project.file("de-DE").read_text(encoding="utf-8")
    rows = [line for line in broken.splitlines(keepends=True) if line != "{broken\n"]
    project.file("de-DE").write_text("".join(rows[1:]), encoding="utf-8")
    status = project.disent("status").stdout
    project.file("de-DE").write_text(broken, encoding="utf-8")
    assert "failed" in before
    assert "failed" not in status
    assert "stale   corpora/utterances [de]  <- " in status


def test_nothing_is_called_failed_when_the_line_is_mended(failed):
    project, _ = failed
    text = project.file("de-DE").read_text(encoding="utf-8")
    project.file("de-DE").write_text(text.replace("{broken\n", ""), encoding="utf-8")
    project.materialize("group:corpora", "--partition", "de")
    assert "failed" not in project.disent("status").stdout
