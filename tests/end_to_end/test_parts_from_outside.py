"""A user's package has a method, a task and a corpus format; the configuration names them, and the library stays."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from disent_core.config.load import load_config
from disent_core.errors import ConfigError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL))
"""The files of the page by their names."""
MODULES = {name: text for name, text in FILES.items() if name.startswith("my_package/")}
SECTION = """
[[corpora]]
name = "tsv"
format = "my_package.reader"
path = "tsv"

[[encoders]]"""


def write_package(folder: Path, *others: str) -> Path:
    """Write the package of the page into a folder, and other files of the page."""
    for name, text in {"my_package/__init__.py": "", **MODULES, **{name: FILES[name] for name in others}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def project(fresh, tmp_path, monkeypatch):
    """A project whose configuration names a method, a task and a format of a package that is not the library's."""
    site = write_package(tmp_path / "site")
    for locale, language in (("en-US", "en"), ("de-DE", "de")):
        rows = [(row["id"], row["partition"], row["utt"]) for row in fresh.utterances(locale)]
        fresh.write_lines(f"tsv/{language}.tsv", ["\t".join(row) for row in rows])
    fresh.only("raw", "turned")
    fresh.configure("\n[[encoders]]", SECTION)
    fresh.configure("[evaluation]", '[evaluation]\ntasks = ["crosslingual_retrieval", "my_package.task"]')
    fresh.configure("[methods.dream]", '[methods.turned]\nmethod = "my_package.rotation:METHOD"\n[methods.dream]')
    monkeypatch.syspath_prepend(site)
    yield fresh
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


def test_the_error_of_a_missing_plugin_module_has_file_and_line(project):
    project.configure("my_package.task", "my_package.tasks")
    with pytest.raises(ConfigError, match=r"disent.toml:\d+: evaluation.tasks: .*no module 'my_package.tasks'"):
        load_config(project.config)


def test_an_installed_plugin_has_the_modules_of_the_page(tmp_path):
    source = write_package(tmp_path / "ours", "pyproject.toml", "tests/test_parts.py")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {"my_package/__init__.py", *MODULES}


@pytest.mark.usefixtures("project")
def test_the_tests_of_the_page_pass(tmp_path):
    names: dict[str, Any] = {}
    exec(FILES["tests/test_parts.py"], names)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test(*[tmp_path] * test.__code__.co_argcount)


def test_a_method_from_outside_has_assets_that_are_described_by_its_module(project):
    specs = {spec.key.to_user_string(): spec for spec in project.definitions.resolve_all_asset_specs()}
    assert "evaluation/tiny/turned_metrics" in specs
    assert "One linear map that brings translations together" in specs["heads/tiny/turned_head"].description


def test_method_task_and_format_from_outside_reach_the_leaderboard_of_a_run(project):
    project.materialize()
    assert "turned" in project.disent("leaderboard", "self_retrieval").stdout
    rows = project.ask(
        """select distinct task, dataset, method, seeds, embedding from leaderboard
        where rank is not null and dataset = 'tsv' and method = 'turned' order by all"""
    )
    assert [(row["task"], row["seeds"], row["embedding"]) for row in rows] == [
        ("crosslingual_retrieval", 1, "meaning"),
        ("self_retrieval", 1, "meaning"),
    ]
    ranked = project.ask("select distinct method from leaderboard where task = 'self_retrieval' and rank is not null")
    assert [row["method"] for row in ranked] == ["turned"]  # the task does not rank by what `raw` has
