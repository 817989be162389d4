"""Programs with an older DuckDB than ours read the whole warehouse."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from disent_assets.warehouse.build import STORAGE_VERSION

OLDEST = Path(sys.prefix) / f"duckdb-{STORAGE_VERSION.removeprefix('v')}"
READ = """
import json, sys
sys.path.insert(0, sys.argv[1])
import duckdb
warehouse = duckdb.connect(sys.argv[2], read_only=True)
listed = "select schema_name, {kind}_name from duckdb_{kind}s() where not internal"
found = warehouse.execute(" union all ".join(listed.format(kind=kind) for kind in ("table", "view"))).fetchall()
rows = {}
for schema, name in found:
    warehouse.execute(f'create or replace temp table answer as select * from {schema}."{name}"')
    rows[f"{schema}.{name}"] = warehouse.execute("select count(*) from answer").fetchone()[0]
json.dump([duckdb.__version__, rows], sys.stdout)
"""


@pytest.fixture
def oldest() -> Path:
    """The folder of the oldest DuckDB. Without it the test fails: skipped, nobody would miss it."""
    if not (OLDEST / "duckdb").is_dir():
        pytest.fail(f"there is no old DuckDB in {OLDEST}; `make test` installs it")
    return OLDEST


def test_the_oldest_duckdb_reads_every_relation_with_all_its_rows_also_a_view_over_files(warehouse, oldest):
    tables = {"metrics": [{}, {"seed": 0}], "rankings": [{}], "template_pairs": [{}]}
    report = warehouse.build(large=["utterances"], utterances=[{}], **tables)
    assert len(report.files) == 1
    ran = subprocess.run(
        [sys.executable, "-c", READ, oldest, warehouse.path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    version, rows = json.loads(ran.stdout)
    assert f"v{version}" == STORAGE_VERSION
    assert rows == report.rows
