"""Build and query the DuckDB warehouse, without Dagster.

`sql_folder` reads the tables and views that it consists of, `warehouse_inputs` has what they are made from, and
`sql/checks` one check a file.
"""

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from disent_assets.sql_folder import (
    COMMENT,
    Description,
    Relation,
    described,
    descriptions,
    in_order,
    published_tables,
    relations,
)
from disent_assets.warehouse_inputs import (
    attach_inputs,
    file_literal,
    find_files,
    keep_files,
    missing_files,
    over_files,
    text_literal,
)
from disent_core.errors import DisentError, TableError, located
from disent_core.storage.atomic import storage_errors
from disent_core.storage.checksums import brought, checksummed_path
from disent_core.storage.schemas import ASSET_STATE, STEP_COSTS
from disent_core.storage.tables import table_path

STORAGE_VERSION = "v1.2.0"
"""The oldest DuckDB that opens the warehouse: many programs lag behind the newest. Views keep to its functions."""

Severity = Literal["error", "warning"]

ANSWER_BYTES = 256 << 20
"""Size of the largest answer of a query that has a limit."""
BATCH = 2048
"""Rows that are read at once."""

SAMPLE = 5
"""Number of offending rows that the result of a check carries."""

_NO_EXTENSIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_NO_BAR = "enable_progress_bar = false"  # commands show their own progress, and programs read answers
_QUERY_OPTIONS = (
    "timezone = 'UTC'",
    "temp_directory = ''",
    "memory_limit = '4GB'",
    _NO_BAR,
    "enable_external_access = false",
    "lock_configuration = true",
)
_RECORDED = {ASSET_STATE: "asset_state|stale_metrics", STEP_COSTS: "step_costs|costs"}
"""Tables that steps and commands write beside the warehouse, and the relations that show them."""
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

    Raises:
        TableError: if an input is missing, damaged or of another schema, or a check of severity `error` fails.
        DisentError: if a file of `sql_root` can't be run; names the file.
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
    with checksummed_path(destination) as beside:
        spill = beside.with_name(beside.name + ".tmp")
        connection = duckdb.connect(":memory:", config={**_NO_EXTENSIONS, "temp_directory": str(spill)})
        try:
            connection.execute(f"set {_NO_BAR}")
            file = text_literal(str(beside.absolute()))
            connection.execute(f"attach {file} as warehouse (storage_version '{STORAGE_VERSION}')")
            connection.execute("use warehouse")
            yield connection
        finally:
            with _one_line("the warehouse"):
                connection.execute("use memory")
                connection.execute("detach database if exists warehouse")  # merges the write-ahead log into the file
                connection.close()
            beside.with_name(beside.name + ".wal").unlink(missing_ok=True)
            shutil.rmtree(spill, ignore_errors=True)


def _create(connection: duckdb.DuckDBPyConnection, relation: Relation) -> None:
    schema, _ = relation.name.split(".")
    connection.execute(f"create schema if not exists {schema}")
    with _one_line(f"{relation.kind} {relation.name}"):
        connection.execute(f"create {relation.kind} {relation.name} as {relation.sql}")


def _comment(connection: duckdb.DuckDBPyConnection, created: Sequence[Relation], lines: Sequence[Description]) -> None:
    """Describe each relation and column where other programs look for it."""
    texts: list[tuple[str, str]] = []
    for relation in created:
        name = relation.name.split(".")[1]
        own = [line for line in lines if fnmatchcase(name, line.relation)]
        line = described(own, name)
        texts.append((f"{relation.kind} {relation.name}", relation.description or (line.text if line else "")))
        for column in connection.sql(f"from {relation.name} limit 0").columns:
            if line := described(own, name, column):
                texts.append((f'column {relation.name}."{column}"', line.text))
    comments = (f"comment on {place} is '{text.replace(chr(39), chr(39) * 2)}'" for place, text in texts)
    connection.execute(f"begin; {'; '.join(comments)}; commit")


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    with _one_line(f"relation {name}"):
        return connection.sql(f"select count(*) from {name}").fetchall()[0][0]


def _check(connection: duckdb.DuckDBPyConnection, path: Path) -> CheckResult:
    sql = path.read_text(encoding="utf-8")
    severity = _SEVERITY.search(sql)
    if severity is None:
        remedy = "Add the line `-- severity: error` or `-- severity: warning`"
        raise DisentError(located(path, None, "this check has no severity", remedy))
    level: Severity = "error" if severity[1] == "error" else "warning"
    counted = f"select count(*) over () as offending_, * from (\n{sql}\n) as found limit {SAMPLE}"
    with _one_line(f"check {path.stem}"):
        found = connection.sql(counted).to_arrow_table().to_pylist()
    offending = [row.pop("offending_") for row in found]
    total = offending[0] if offending else 0
    return CheckResult(name=path.stem, severity=level, offending=total, sample=tuple(found))


@contextmanager
def _one_line(origin: str) -> Iterator[None]:
    """Turn an error of DuckDB into one line that begins with its origin."""
    try:
        yield
    except duckdb.Error as error:
        _raise_of_disk(error)
        raise DisentError(f"{origin}: {' '.join(str(error).split())}") from error


_OF_DISK = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException)


def _raise_of_disk(error: duckdb.Error) -> None:
    """Raise what the operating system has said to DuckDB, if its disk is full or fails."""
    for number in (errno.ENOSPC, errno.EIO):
        if isinstance(error, _OF_DISK) and os.strerror(number) in str(error):
            raise OSError(number, str(error)) from error


# --- querying ---------------------------------------------------------------------------------------------


def query(database: Path, sql: str, *, limit: int | None = None, seconds: float | None = None) -> pa.Table:
    """The answer of one query, which can't change the warehouse, nor reach another file or the network.

    Only `select` (and `from`, `with`, `pivot`, `describe`) is run: even without access to files, DuckDB lets
    `attach` and `copy` write to the open database and its log. A query may use 4 GB of memory beside its answer.

    Args:
        database: the warehouse.
        sql: the query.
        limit: an answer with more rows, or of more than 256 MB, is an error; None: it may have any size.
        seconds: a query that takes longer is stopped; None: it may take any time.

    Raises:
        TableError: if the warehouse is missing or damaged.
        DisentError: if the query can't be run, is another statement, or exceeds a limit.
    """
    if not brought(database).is_file():
        raise TableError(located(database, None, "there is no warehouse", "Run disent materialize"))
    # All connections of a process to a path share one open file, even after the file was replaced. A new in-memory
    # instance that attaches the path opens the file again.
    with storage_errors(database), duckdb.connect(":memory:", config=_NO_EXTENSIONS) as connection:
        try:
            path = text_literal(str(database.absolute()))
            connection.execute(f"attach {path} as warehouse (read_only)")
        except duckdb.Error as error:
            _raise_of_disk(error)
            remedy = "Delete the file and materialise it again"
            raise TableError(located(database, None, f"can't be opened ({error})", remedy)) from error
        _load_newest(connection, database, sql)
        find_files(connection, database)
        connection.execute(f"set search_path = '{_search_path(connection)}'")
        for option in _QUERY_OPTIONS:
            connection.execute(f"set {option}")
        with _one_line("query"), missing_files(database):
            _require_select(connection, sql)
            answer = _interruptible(connection, sql, limit, seconds)
        if answer is not None:
            return answer
    raise DisentError("query: this statement returns no rows. Use select")


def _load_newest(connection: duckdb.DuckDBPyConnection, database: Path, sql: str) -> None:
    """Put what was recorded last before what is in the file, which is older, if a query names it."""
    for key, shown_in in _RECORDED.items():
        path = table_path(database.parent, *key)
        if re.search(rf"\b({shown_in})\b", sql, re.IGNORECASE) and brought(path).is_file():
            with _one_line(f"{path}: can't be read. Delete it, and the next run records it again"):
                connection.execute(f"create temp table {key[1]} as from read_parquet({file_literal(path)})")


def _search_path(connection: duckdb.DuckDBPyConnection) -> str:
    """All schemas of the warehouse, `main` first, so that a query may name a relation without its schema."""
    listed = "select schema_name from duckdb_schemas() where database_name = 'warehouse' and not internal order by all"
    others = [name for (name,) in connection.sql(listed).fetchall() if name != "main"]
    return ",".join(f"warehouse.{name}" for name in ("main", *others))


def _interruptible(
    connection: duckdb.DuckDBPyConnection, sql: str, limit: int | None, seconds: float | None
) -> pa.Table | None:
    """The answer of a query that Ctrl-C can end: DuckDB ignores Ctrl-C while its worker threads run."""

    def run() -> pa.Table | None:
        answer = connection.sql(sql)
        return None if answer is None else _collected(answer.to_arrow_reader(BATCH), limit)

    with ThreadPoolExecutor(max_workers=1) as thread:
        running = thread.submit(run)
        try:
            return running.result(seconds)
        except TimeoutError as error:
            remedy = "Ask for less, or allow it more time (--timeout)"
            raise DisentError(f"query: it took more than {seconds:g} s and was stopped. {remedy}") from error
        finally:
            while not running.done():  # an interrupt before the query starts is lost, so it is repeated
                connection.interrupt()
                wait([running], timeout=0.1)


def _collected(batches: pa.RecordBatchReader, limit: int | None) -> pa.Table:
    """The rows of a stream; it is read no further than the limits."""
    read, rows, size = [], 0, 0
    try:
        for batch in batches:
            read.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if limit is not None and rows > limit:
                remedy = "Select fewer (where, limit), or allow more (--limit)"
                raise DisentError(f"query: the answer has more than {limit:,} rows. {remedy}")
            if limit is not None and size > ANSWER_BYTES:
                remedy = "Select fewer rows or columns"
                raise DisentError(f"query: the answer has more than {ANSWER_BYTES >> 20} MB. {remedy}")
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise DisentError(f"query: {' '.join(str(error).split()) or 'out of memory'}") from error
    return pa.Table.from_batches(read, batches.schema)


def _require_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse every statement but queries. A pivot is several statements, so its first word decides."""
    kinds = {duckdb.StatementType.SELECT: "", duckdb.StatementType.MULTI: r"\s*(pivot|from|\(|select|with)\b"}
    statements = connection.extract_statements(sql)
    if len(statements) > 1:
        raise DisentError(
            f"query: there are {len(statements)} statements, and one gives one answer. Ask for each alone"
        )
    for statement in statements:
        if re.match(kinds.get(statement.type, "(?!)"), COMMENT.sub("", statement.query), re.IGNORECASE) is None:
            raise DisentError(f"query: {statement.type.name.lower()} is not allowed here. Use select")
