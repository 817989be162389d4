"""A release has its version and notes, workflows run commands that exist, and `make quick` what a change can break."""

import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from tools.quick import MOST_FILES, OF_SQL, selected
from tools.release import check_tag, checksums, notes, packed

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_notes_are_the_section_of_the_version():
    changelog = "# Changelog\n\n## 0.10.0 (later)\n\n- b\n\n## 0.1.0\n\n### New\n\n- a\n"
    assert notes(changelog, "0.10.0") == "- b\n"
    assert notes(changelog, "0.1.0") == "### New\n\n- a\n"
    with pytest.raises(ValueError, match=r"no section '## 0\.1'"):
        notes("## 0.10.0\n\n- b\n", "0.1")


def test_a_tag_of_another_version_is_refused():
    check_tag("v0.3.0", "0.3.0")
    with pytest.raises(ValueError, match="must agree"):
        check_tag("v0.3.1", "0.3.0")


def test_the_version_of_the_project_has_its_section_and_is_cited():
    assert notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), PROJECT["version"])
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"], "set version and date-released of CITATION.cff"


def test_checksums_are_those_that_sha256sum_checks_and_archives_of_equal_folders_are_equal(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "css").mkdir(parents=True)
        (tmp_path / name / "css" / "site.css").write_text("p {}", encoding="utf-8")
        (tmp_path / name / "index.html").write_text("<p>", encoding="utf-8")
    os.utime(tmp_path / "b" / "index.html", (0, 0))
    archive = packed(tmp_path / "a", "site-1")
    assert archive == packed(tmp_path / "b", "site-1")
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "site.tar.gz").write_bytes(archive)
    with tarfile.open(dist / "site.tar.gz") as opened:
        assert opened.getnames() == ["site-1/css/site.css", "site-1/index.html"]
    (dist / "SHA256SUMS").write_text(checksums(dist), encoding="utf-8")
    (dist / "SHA256SUMS").write_text(checksums(dist), encoding="utf-8")
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(command, cwd=dist, capture_output=True, text=True, check=True).stdout == "site.tar.gz: OK\n"


def test_workflows_call_targets_of_the_makefile_and_scripts_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = [
        step["run"]
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    called = {name for command in commands for name in re.findall(r"\bmake ([a-z-]+)", command)}
    assert {"lint", "docs", "install-test", "model-massive", "release", "release-test"} <= called <= targets
    assert all((ROOT / name).is_file() for command in commands for name in re.findall(r"bash (\S+)", command))


def test_every_python_that_the_project_allows_is_tested():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    low, high = (int(minor) for minor in re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    assert tested == [f"3.{minor}" for minor in range(low, high)]


# --- make quick ---

TESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))


def test_a_changed_module_selects_the_tests_that_import_it():
    chosen = selected([Path("disent_core/losses/contrastive.py")], TESTS)
    assert chosen[0] == Path("tests/core/losses/test_contrastive.py")
    assert len(chosen) <= MOST_FILES


def test_a_changed_test_selects_itself_and_a_page_selects_none():
    test = Path("tests/end_to_end/test_tutorials.py")
    assert selected([test], TESTS) == [test]
    assert selected([Path("docs/use.md")], TESTS) == []
    assert [test.as_posix() for test in selected([Path("sql/views/best.sql")], TESTS)] == [*OF_SQL]
