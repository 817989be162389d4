"""Query a DuckDB warehouse; a query can neither change it nor read other files."""

import errno
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from disent_core.errors import DisentError, TableError, located
from disent_core.storage.files import storage_errors
from disent_core.storage.results import fetch
from disent_core.storage.schemas import ASSET_STATE, STEP_COSTS
from disent_core.storage.tables import SCHEMAS, table_path

try:
    import duckdb
except ModuleNotFoundError as error:
    message = "the warehouse needs DuckDB: pip install 'disent-embeddings[lineage]'"
    raise ModuleNotFoundError(message, name="duckdb") from error

ANSWER_BYTES = 256 << 20  # largest answer of a query with a limit
BATCH = 2048  # rows read at once

NO_EXTENSIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_QUERY_OPTIONS = (
    "timezone = 'UTC'",
    "temp_directory = ''",
    "memory_limit = '4GB'",
    "enable_external_access = false",
    "lock_configuration = true",
)
_RECORDED = (ASSET_STATE, STEP_COSTS)
"""Tables that steps and commands write beside the warehouse, newer than those in it."""
_COMMENT = re.compile(r"--[^\n]*")
_LISTING = re.compile(r"\s*(show\b|describe\W*$)", re.IGNORECASE)
"""A statement that lists relations, which would list a shadowed table twice."""

FOLDER = "warehouse_folder"
"""DuckDB variable with the warehouse's folder, for programs that open a moved or copied warehouse."""


def files_folder(database: Path) -> Path:
    """Return the folder of the files that a warehouse's views read."""
    return database.with_name("warehouse.files")


def no_warehouse(database: Path) -> TableError:
    """Return the error to raise where there is no warehouse."""
    remedy = "Run disent materialize, or disent materialize warehouse for the results that exist"
    return TableError(located(database, None, "there is no warehouse", remedy))


def query(database: Path, sql: str, *, limit: int | None = None, seconds: float | None = None) -> pa.Table:
    """Run one query, which can neither change the warehouse nor access other files or the network.

    Only `select` (and `from`, `with`, `pivot`, `describe`) is run: even without access to files, DuckDB lets
    `attach` and `copy` write to the open database and its log. A query may use 4 GB of memory besides its answer. With
    a limit, an answer with more rows, or larger than 256 MB, is an error; a query that takes more `seconds` is stopped.
    """
    if not fetch(database).is_file():
        raise no_warehouse(database)
    # All connections of a process to a path share one open file, even after the file is replaced. A new in-memory
    # instance that attaches the path opens the file again.
    with storage_errors(database), duckdb.connect(":memory:", config=NO_EXTENSIONS) as connection:
        attach_warehouse(connection, database)
        # What steps and commands have recorded since shadows the tables in the file, and for its views too.
        for key in () if _LISTING.match(_COMMENT.sub("", sql)) else _RECORDED:
            path = table_path(database.parent, *key)
            if fetch(path).is_file():
                with one_line(f"{path}: can't be read. Delete it, and the next run records it again"):
                    rows = plain_times(SCHEMAS[key[1]], f"read_parquet({file_literal(path)})")
                    connection.execute(f"create temp table {key[1]} as {rows}")
        if (folder := files_folder(database)).is_dir():
            connection.execute(f"set variable {FOLDER} = {text_literal(str(database.parent.absolute()))}")
            connection.execute(f"set allowed_directories = [{text_literal(str(folder.absolute()))}]")
        # `main` comes first among the schemas, so that a query can name a relation without its schema.
        listed = (
            "select schema_name from duckdb_schemas() where database_name = 'warehouse' and not internal order by all"
        )
        others = [name for (name,) in connection.sql(listed).fetchall() if name != "main"]
        schemas = ",".join(f"warehouse.{name}" for name in ("main", *others))
        hide_bar(connection)
        for option in (f"search_path = '{schemas}'", *_QUERY_OPTIONS):
            connection.execute(f"set {option}")
        with one_line("query"), _missing_files(database):
            _require_select(connection, sql)
            answer = _interruptible(connection, sql, limit, seconds)
        if answer is not None:
            return answer
    raise DisentError("query: this statement returns no rows. Use select")


def attach_warehouse(connection: duckdb.DuckDBPyConnection, database: Path) -> None:
    """Attach a warehouse read-only as `warehouse`.

    DuckDB opens the path twice, for the header and for the blocks. A rebuild that replaces the file in between would
    mix the header of one file with the blocks of another, so attach again until the file stayed the same throughout.
    """
    path = text_literal(str(database.absolute()))
    while True:
        before = database.stat()
        try:
            connection.execute(f"attach {path} as warehouse (read_only)")
        except duckdb.Error as error:
            if not os.path.samestat(before, database.stat()):
                continue
            _raise_disk_error(error)
            remedy = "Delete the file and materialise it again"
            raise TableError(located(database, None, f"can't be opened ({error})", remedy)) from error
        if os.path.samestat(before, database.stat()):
            return
        connection.execute("detach warehouse")


def hide_bar(connection: duckdb.DuckDBPyConnection) -> None:
    """Disable DuckDB's progress bar: commands show their own progress, and programs read answers."""
    with suppress(duckdb.InvalidInputException):  # Jupyter without ipywidgets, where DuckDB has no bar
        connection.execute("set enable_progress_bar = false")


def _interruptible(
    connection: duckdb.DuckDBPyConnection, sql: str, limit: int | None, seconds: float | None
) -> pa.Table | None:
    """Run a query in a thread, so that Ctrl-C ends it: DuckDB ignores Ctrl-C while its workers run."""

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
            while not running.done():  # repeated, because an interrupt before the query starts is lost
                connection.interrupt()
                wait([running], timeout=0.1)


def _collected(batches: pa.RecordBatchReader, limit: int | None) -> pa.Table:
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
    """Reject every statement that is not a query. A pivot parses as several statements, so its first word decides."""
    kinds = {duckdb.StatementType.SELECT: "", duckdb.StatementType.MULTI: r"\s*(pivot|from|\(|select|with)\b"}
    statements = connection.extract_statements(sql)
    if not statements:
        raise DisentError("query: it is empty. Write a select statement")
    if len(statements) > 1:
        raise DisentError(f"query: it has {len(statements)} statements, and only one can run at a time. Run each alone")
    for statement in statements:
        if re.match(kinds.get(statement.type, "(?!)"), _COMMENT.sub("", statement.query), re.IGNORECASE) is None:
            raise DisentError(f"query: {statement.type.name.lower()} is not allowed here. Use select")


@contextmanager
def _missing_files(database: Path) -> Iterator[None]:
    """Raise a TableError with the remedy, instead of DuckDB's error, if a file of a view is missing."""
    try:
        yield
    except (duckdb.IOException, duckdb.PermissionException) as error:
        folder = files_folder(database)
        if f"{folder.name}/" not in str(error):
            raise
        problem = "a file of a large table, which a view of the warehouse reads, is missing"
        remedy = "Copy this folder together with the warehouse, or run disent materialize warehouse"
        raise TableError(located(folder, None, problem, remedy)) from error


# --- SQL and errors ---


def plain_times(schema: pa.Schema, source: str) -> str:
    """Return a query for all rows of a source, with times as TIMESTAMP in UTC.

    Python reads DuckDB's TIMESTAMPTZ only if pytz is installed, and casting it depends on the session's time zone.
    """
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    plain = ", ".join(f"make_timestamp(epoch_us({time})) as {time}" for time in times)
    return f"select * replace ({plain}) from {source}" if times else f"from {source}"


def file_literal(path: Path) -> str:
    """Return a path as a SQL literal, with quotes doubled and `*`, `?` and `[` escaped."""
    return text_literal(re.sub(r"[*?[]", r"[\g<0>]", str(path.absolute())))


def text_literal(text: str) -> str:
    """Return a text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def one_line(origin: str) -> Iterator[None]:
    """Turn a DuckDB error into one line that begins with its origin."""
    try:
        yield
    except duckdb.Error as error:
        _raise_disk_error(error)
        raise DisentError(f"{origin}: {' '.join(str(error).split())}") from error


_OF_DISK = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException)


def _raise_disk_error(error: duckdb.Error) -> None:
    """Raise an OSError if DuckDB failed because the disk is full or broken."""
    for number in (errno.ENOSPC, errno.EIO):
        if isinstance(error, _OF_DISK) and os.strerror(number) in str(error):
            raise OSError(number, str(error)) from error
