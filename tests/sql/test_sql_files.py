"""The form of the files: one relation each, three header lines, lint."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from disent_assets.duckdb_warehouse import references
from disent_core.storage.tables import SCHEMAS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "sql").rglob("*.sql"))
RELATIVE = [str(path.relative_to(ROOT / "sql")) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=RELATIVE)
def test_every_file_opens_with_its_grain_what_it_reads_and_units(path):
    lines = path.read_text().splitlines()
    assert [line.split(": ")[0] for line in lines[:3]] == ["-- grain", "-- reads", "-- units"]
    assert all(line.split(": ")[1].strip() for line in lines[:3])


@pytest.mark.parametrize("path", FILES, ids=RELATIVE)
def test_the_header_names_just_what_the_query_reads(path):
    text = path.read_text()
    assert set(re.findall(r"\b[a-z]+\.[a-z_0-9]+\b", text.splitlines()[1])) == references(text)


@pytest.mark.parametrize("path", FILES, ids=RELATIVE)
def test_no_file_creates_anything_or_shouts(path):
    code = re.sub(r"--[^\n]*", "", path.read_text())
    code = re.sub(r"'[^']*'", "''", code)
    assert not re.search(r"\bcreate\b", code)
    assert code == code.lower()


@pytest.mark.parametrize("path", sorted((ROOT / "sql/checks").glob("*.sql")), ids=lambda path: path.stem)
def test_every_check_has_a_severity_and_argues_what_it_leaves_out(path):
    lines = path.read_text().splitlines()
    assert lines[3] in ("-- severity: error", "-- severity: warning")
    assert lines[4].startswith("-- excludes: ")


@pytest.mark.parametrize(
    "relation",
    [
        *("main.metrics", "corpora.utterances", "negatives.negative_pool", "targets.masked_utterances"),
        *("targets.template_pairs", "heads.training_curve", "evaluation.rankings"),
    ],
)
def test_loaded_tables_have_the_columns_of_their_schema_in_order(published, relation):
    described = published.ask(f"select column_name from (describe {relation})")
    assert [row["column_name"] for row in described] == SCHEMAS[relation.split(".")[1]].names


def test_published_metrics_has_the_columns_of_metrics_and_three_more(published):
    described = published.ask("select column_name from (describe main.published_metrics)")
    names = [row["column_name"] for row in described]
    assert names == [*SCHEMAS["metrics"].names, "paper", "table", "note"]


def test_sqlfluff_finds_nothing():
    program = shutil.which("sqlfluff", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("sqlfluff is not installed (extra `lint`)")
    ran = subprocess.run([program, "lint", "sql"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
