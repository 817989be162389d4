"""Compare the results of two projects to the bit.

The comparison leaves out times, and results that nothing refers to any more: files of removed partitions, texts in no
corpus. It ignores how embeddings are divided into parts, which depends on when texts were added. Of the history of
metrics, which a rebuild lacks, it compares the last row of every number.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from projects import Project
from safetensors import safe_open

from disent_core.storage.tables import content_fingerprint

OF_TIME = {("warehouse", "history"), ("warehouse", "asset_state"), ("warehouse", "step_costs")}
"""Folders of tables that depend on earlier runs."""
RELATIONS_OF_TIME = {
    "history.metrics",
    "history.events",
    "main.changes",
    "main.regressions",
    "main.runs",
    "main.asset_state",
    "main.step_costs",
    "main.costs",
    "parts.readings",  # covers everything ever measured
    "heads.training_costs",
}
_OF_TIME = {"main.metric_catalogue": " where numbers > 0"}  # lists everything ever measured too
_LAST = """
from history.metrics
select * exclude (
    refresh, recorded_at, event, run_id, difference_low, difference_high, p_value, p_holm, test
)
qualify row_number() over (
    partition by task, dataset, method, encoder, trained_on, evaluated_on, embedding, metric, seed, problem
    order by refresh desc
) = 1 and event != 'ended'
"""
_ALL = "from history.metrics select * exclude (recorded_at, run_id)"

Results = Mapping[str, object]
"""Name -> result; equal values mean results equal to the bit."""


def tables(home: Path) -> Results:
    """Fingerprint the inputs and the rows of every table but the embeddings."""
    folder, results = home / "tables", {}
    for path in sorted(folder.rglob("*.parquet")):
        name = path.relative_to(folder)
        if name.parts[0] != "embeddings" and name.parts[:2] not in OF_TIME:
            table = pq.read_table(path)
            footer = table.schema.metadata or {}
            results[name.as_posix()] = (footer[b"disent.inputs"], timeless(table), table.num_rows)
    return results


def timeless(table: pa.Table) -> str:
    """Fingerprint the rows, in their order, without times."""
    times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    return content_fingerprint(table.drop_columns(times))


def heads(home: Path) -> Results:
    """Return every weight, and the metadata of the files."""
    results = {}
    for path in sorted((home / "heads").rglob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            weights = {key: (file.get_tensor(key).shape, file.get_tensor(key).tobytes()) for key in sorted(file.keys())}
            metadata = sorted((file.metadata() or {}).items())  # their order in the file is arbitrary
        name = path.relative_to(home).as_posix()
        results |= {name: (hashlib.sha256(repr(weights).encode()).hexdigest(), metadata)}
        results |= {f"{name}, settings": path.with_suffix(".json").read_text(encoding="utf-8")}
    return results


def embeddings(home: Path) -> Results:
    """Return the bytes of each text's vector and states, by table, encoder, language and key."""
    folder, results = home / "tables" / "embeddings", {}
    for part in sorted(folder.rglob("part-*.parquet")):
        table, place = pq.read_table(part), part.parent.relative_to(folder).as_posix()
        keys, values = table["text_key"].to_pylist(), table.column(1).combine_chunks()
        for row, key in enumerate(keys):
            results[f"{place}/{key}"] = repr(values[row].as_py())
    return results


def warehouse(home: Path, *, with_views: bool = True) -> Results:
    """Return the rows of every table and view, or only tables, in any order, without times and refresh numbers."""
    kinds = "'BASE TABLE', 'VIEW'" if with_views else "'BASE TABLE'"
    listed = f"select table_schema || '.' || table_name from information_schema.tables where table_type in ({kinds})"
    with duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) as connection:
        names = {name for (name,) in connection.sql(listed).fetchall()} - RELATIONS_OF_TIME
        asked = {name: f"from {name}{_OF_TIME.get(name, '')}" for name in names} | {"last rows of the history": _LAST}
        return {name: sorted(_rows(connection.sql(sql).to_arrow_table(), "refresh")) for name, sql in asked.items()}


def history(home: Path) -> list[str]:
    """Return the rows of the whole history, in any order, without times and runs."""
    with duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) as connection:
        return sorted(_rows(connection.sql(_ALL).to_arrow_table()))


def fingerprint(result: object) -> str:
    """Return a short text that is equal for equal results."""
    return hashlib.sha256(repr(result).encode()).hexdigest()


def _rows(table: pa.Table, *without: str) -> Iterator[str]:
    kept = [field.name for field in table.schema if not pa.types.is_timestamp(field.type) and field.name not in without]
    for row in table.select(kept).to_pylist():
        yield json.dumps(row, default=repr, ensure_ascii=False)


def differences(refreshed: Project, rebuilt: Project) -> list[str]:
    """Describe the rebuild's results that differ in the refreshed project; in the warehouse, differences either way."""
    lines = []
    for read in (tables, heads, embeddings):
        old, new = read(refreshed.home), read(rebuilt.home)
        assert new, read.__name__
        lines += [
            f"{name}: {_difference(old.get(name), value)}" for name, value in new.items() if old.get(name) != value
        ]
    old, new = warehouse(refreshed.home), warehouse(rebuilt.home)
    lines += [f"{name}: {_first(old.get(name), new.get(name))}" for name in old | new if old.get(name) != new.get(name)]
    return lines


def _difference(old: object, new: object) -> str:
    return "absent" if old is None else f"{str(old)[:200]} is not {str(new)[:200]}"


def _first(old: object, new: object) -> str:
    """Describe a row that only one of the two has."""
    only = [sorted(set(a or ()) - set(b or ()))[:1] for a, b in ((old, new), (new, old))]
    return f"only refreshed {only[0]}, only rebuilt {only[1]}"
