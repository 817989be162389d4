"""Others read what `disent publish` writes as docs/sql.md says; `make scale-test` installs ibis and dbt."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from made_warehouses import Warehouse

from disent_assets.warehouse.build import publish

SECTION = re.compile(r"## For others\n(.*?)\n## ", re.DOTALL)
WINS = {"dream": 1}
RELATIONS = ("best", "catalogue")


@pytest.fixture
def folder(warehouse: Warehouse, tmp_path: Path) -> Path:
    warehouse.build(metrics=[{}])
    publish(warehouse.path, tmp_path / "shared")
    return tmp_path / "shared"


@pytest.fixture
def block(root: Path, folder: Path) -> Callable[[str], str]:
    """Returns the block of the page that begins with a text; it names the published folder."""
    (section,) = SECTION.findall((root / "docs" / "sql.md").read_text(encoding="utf-8"))

    def named(beginning: str) -> str:
        (text,) = re.findall(rf"^```\w+\n({re.escape(beginning)}.*?)^```", section, re.MULTILINE | re.DOTALL)
        return text.replace("FOLDER", str(folder))

    return named


def test_polars_pandas_and_duckdb_read_the_files(block):
    exec(block("import polars"), {})


def test_ibis_reads_the_file(block):
    pytest.importorskip("ibis")
    names: dict[str, Any] = {}
    exec(block("import ibis"), names)
    assert dict(zip(names["wins"]["method"], names["wins"]["wins"], strict=True)) == WINS


def test_a_project_of_dbt_builds_a_model_from_the_file(block, tmp_path):
    pytest.importorskip("dbt.adapters.duckdb")
    project = tmp_path / "readers"
    for part in block("# dbt_project.yml").split("---\n"):
        name, _, text = part.partition("\n")
        path = project / name.removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environment = os.environ | {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", "run", "--profiles-dir", "."]
    run = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    with duckdb.connect(str(project / "readers.duckdb"), read_only=True) as connection:
        assert dict(connection.sql("select method, wins from wins").fetchall()) == WINS
