"""Build the DuckDB warehouse, without Dagster; `disent.query` reads it.

`sql_folder` reads the tables and views that it consists of, `warehouse_inputs` has what they are made from, and
`sql/checks` one check a file.
"""

import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from disent.query import NO_BAR, NO_EXTENSIONS, one_line, text_literal
from disent_assets.warehouse.inputs import attach_inputs, keep_files, over_files
from disent_assets.warehouse.sql_files import (
    Description,
    Relation,
    described,
    descriptions,
    in_order,
    published_tables,
    relations,
)
from disent_core.errors import DisentError, TableError, located
from disent_core.storage.results import write_result

STORAGE_VERSION = "v1.2.0"
"""The oldest DuckDB that opens the warehouse: many programs lag behind the newest. Views keep to its functions."""

Severity = Literal["error", "warning"]

SAMPLE = 5
"""Number of offending rows that the result of a check carries."""

_SEVERITY = re.compile(r"^-- severity: (error|warning)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The outcome of one check of `sql/checks`.

    Attributes:
        name: name of its file.
        severity: `error` keeps the old warehouse in place, `warning` is only reported.
        offending: number of rows that the check returned.
        sample: the first of these rows.
    """

    name: str
    severity: Severity
    offending: int
    sample: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.offending} rows, e.g. {dict(self.sample[0]) if self.sample else None}"


@dataclass(frozen=True, kw_only=True)
class WarehouseReport:
    """Outcome of a build.

    Attributes:
        rows: number of rows of each relation, tables first.
        checks: their results.
        files: names of the files beside the warehouse that its views read.
        seconds: time of the build.
    """

    rows: Mapping[str, int]
    checks: tuple[CheckResult, ...]
    files: tuple[str, ...]
    seconds: float


# --- building ---------------------------------------------------------------------------------------------


def build_warehouse(
    inputs: Mapping[str, Sequence[Path] | pa.Table],
    sql_root: Path,
    destination: Path,
    before_swap: Callable[[], None] = lambda: None,
    large: Collection[str] = (),
) -> WarehouseReport:
    """Build the warehouse beside `destination` and swap it in, so that a reader sees either the old or the new one.

    Args:
        inputs: the Parquet files or rows to load, by name from `INPUTS`; a name that is left out is an empty table.
        sql_root: folder with `tables`, `views`, `checks` and `published`.
        destination: the DuckDB file. It changes only if every check of severity `error` passes.
        before_swap: is called when the checks have passed, before `destination` changes.
        large: names of inputs whose rows are not copied: a table that only chooses columns of one is a view over its
            files.
    """
    started = time.monotonic()
    published = published_tables(sql_root / "published")
    ordered = in_order(relations(sql_root, published))
    chosen = {relation.chosen_from for relation in ordered}
    with _new_database(destination) as connection:
        attach_inputs(connection, {**inputs, **published}, published)
        files = {name: keep_files(inputs[name], destination) for name in large if name in chosen}
        ordered = [over_files(relation, files, destination) for relation in ordered]
        for relation in ordered:
            _create(connection, relation)
        connection.execute("detach inputs")
        _comment(connection, ordered, descriptions(sql_root))
        counts = {relation.name: _count(connection, relation.name) for relation in ordered}
        checks = tuple(_check(connection, path) for path in sorted((sql_root / "checks").glob("*.sql")))
        if failed := [str(check) for check in checks if check.offending and check.severity == "error"]:
            problem = f"{len(failed)} of {len(checks)} checks of the warehouse failed: {'; '.join(failed)}"
            raise TableError(f"{problem}. Correct the rows that sql/checks/ names; the last warehouse stays")
        before_swap()
    names = tuple(dict.fromkeys(name for of_table in files.values() for name in of_table))
    return WarehouseReport(rows=counts, checks=checks, files=names, seconds=time.monotonic() - started)


@contextmanager
def _new_database(destination: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a new file beside `destination`, which replaces it if nothing is raised."""
    with write_result(destination) as beside:
        spill = beside.with_name(beside.name + ".tmp")
        connection = duckdb.connect(":memory:", config={**NO_EXTENSIONS, "temp_directory": str(spill)})
        try:
            connection.execute(f"set {NO_BAR}")
            file = text_literal(str(beside.absolute()))
            connection.execute(f"attach {file} as warehouse (storage_version '{STORAGE_VERSION}')")
            connection.execute("use warehouse")
            yield connection
        finally:
            with one_line("the warehouse"):
                connection.execute("use memory")
                connection.execute("detach database if exists warehouse")  # merges the write-ahead log into the file
                connection.close()
            beside.with_name(beside.name + ".wal").unlink(missing_ok=True)
            shutil.rmtree(spill, ignore_errors=True)


def _create(connection: duckdb.DuckDBPyConnection, relation: Relation) -> None:
    schema, _ = relation.name.split(".")
    connection.execute(f"create schema if not exists {schema}")
    with one_line(f"{relation.kind} {relation.name}"):
        connection.execute(f"create {relation.kind} {relation.name} as {relation.sql}")


def _comment(connection: duckdb.DuckDBPyConnection, created: Sequence[Relation], lines: Sequence[Description]) -> None:
    """Describe each relation and column where other programs look for it."""
    texts: list[tuple[str, str]] = []
    for relation in created:
        name = relation.name.split(".")[1]
        of_relation = [line for line in lines if fnmatchcase(name, line.relation)]
        line = described(of_relation, name)
        texts.append((f"{relation.kind} {relation.name}", relation.description or (line.text if line else "")))
        for column in connection.sql(f"from {relation.name} limit 0").columns:
            if line := described(of_relation, name, column):
                texts.append((f'column {relation.name}."{column}"', line.text))
    comments = (f"comment on {item} is '{text.replace(chr(39), chr(39) * 2)}'" for item, text in texts)
    connection.execute(f"begin; {'; '.join(comments)}; commit")


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    with one_line(f"relation {name}"):
        return connection.sql(f"select count(*) from {name}").fetchall()[0][0]


def _check(connection: duckdb.DuckDBPyConnection, path: Path) -> CheckResult:
    sql = path.read_text(encoding="utf-8")
    severity = _SEVERITY.search(sql)
    if severity is None:
        remedy = "Add the line `-- severity: error` or `-- severity: warning`"
        raise DisentError(located(path, None, "this check has no severity", remedy))
    level: Severity = "error" if severity[1] == "error" else "warning"
    counted = f"select count(*) over () as offending_, * from (\n{sql}\n) as found limit {SAMPLE}"
    with one_line(f"check {path.stem}"):
        rows = connection.sql(counted).to_arrow_table().to_pylist()
    offending = [row.pop("offending_") for row in rows]
    total = offending[0] if offending else 0
    return CheckResult(name=path.stem, severity=level, offending=total, sample=tuple(rows))
