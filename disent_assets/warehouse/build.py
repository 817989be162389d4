"""Build the DuckDB warehouse without Dagster; `disent.query` reads it.

`sql_files` reads the definitions of its tables and views, which are built from the tables of a run (`INPUTS`). Rows are
copied; over the files of a large table, the warehouse has a view. `sql/checks` holds one check per file.
`publish` writes the tables for others, as Parquet and as a DuckDB file.
"""

import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from disent.query import (
    FOLDER,
    NO_EXTENSIONS,
    attach_warehouse,
    file_literal,
    files_folder,
    hide_bar,
    no_warehouse,
    one_line,
    plain_times,
    text_literal,
)
from disent_assets.warehouse.sql_files import (
    OF_STATES,
    Description,
    Relation,
    described,
    descriptions,
    in_order,
    published_tables,
    relations,
)
from disent_core.errors import DisentError, TableError, commas, located
from disent_core.storage.files import replacing_folder, storage_errors
from disent_core.storage.results import fetch, sha256_of, write_result
from disent_core.storage.schemas import SUBJECT
from disent_core.storage.tables import SCHEMAS, fingerprint, rows_table

STORAGE_VERSION = "v1.2.0"
"""Oldest DuckDB that can open the warehouse, as many programs lag behind. Views use only its functions."""

Severity = Literal["error", "warning"]


SAMPLE = 5  # most offending rows in the result of a check

INPUTS = (
    "metrics", "rankings", "comparisons", "settings_search", "mteb_results", "configured_methods", "encoders",
    "training_sets", "scored_embeddings", "utterances", "sentence_pairs", "negative_pool", "masked_utterances",
    "template_pairs", "training_template_pairs", "parallel_mates", "code_switched_pairs", "training_curve",
    "training_costs", "metric_history", "asset_state", "step_costs", "catalogue",
)  # fmt: skip
"""Names in `SCHEMAS` of the tables that the warehouse is built from."""

_NUMBERS = ("DOUBLE", "FLOAT", "BIGINT", "INTEGER", "HUGEINT", "UBIGINT")
_SEVERITY = re.compile(r"^-- severity: (error|warning)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """Outcome of one check of `sql/checks`: the number of offending rows, and the first of them."""

    name: str
    severity: Severity  # `error` keeps the old warehouse in place, `warning` is only reported
    offending: int
    sample: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.offending} rows, e.g. {dict(self.sample[0]) if self.sample else None}"


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Contents of a relation."""

    rows: int
    version: str  # order-independent hash of the rows, or hash of the names of the files that a view reads
    copies: int  # rows whose key occurs in another row
    columns: Mapping[str, str]  # name -> type


@dataclass(frozen=True, kw_only=True)
class WarehouseReport:
    contents: Mapping[str, Contents]  # by table and view, tables first
    checks: tuple[CheckResult, ...]
    files: tuple[str, ...]  # names of the files beside the warehouse that views read
    seconds: float

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows of each table and view."""
        return {name: of.rows for name, of in self.contents.items()}


# --- building ---------------------------------------------------------------------------------------------


def build_warehouse(
    inputs: Mapping[str, Sequence[Path] | pa.Table],
    sql_root: Path,
    destination: Path,
    before_swap: Callable[[], None] = lambda: None,
    large: Collection[str] = (),
) -> WarehouseReport:
    """Build the warehouse beside `destination` and swap it in, so that readers see either the old or the new one.

    `inputs` has Parquet files or rows by name in `INPUTS`; a missing name stands for an empty table. `sql_root` has
    `tables`, `views`, `checks` and `published`. `destination`, a DuckDB file, changes only if every check of severity
    `error` passes; `before_swap` is called before. The rows of `large` inputs are not copied: a table that only selects
    their columns becomes a view over the files.
    """
    started = time.monotonic()
    published = published_tables(sql_root / "published")
    ordered = in_order(relations(sql_root, published))
    chosen = {relation.chosen_from for relation in ordered}
    with _new_database(destination) as connection:
        attach_inputs(connection, {**inputs, **published}, published)
        keep = partial(_keep, folder=files_folder(destination))
        files = {name: tuple(map(keep, inputs[name])) for name in large if name in chosen}
        linked = {relation.name: files[relation.chosen_from] for relation in ordered if relation.chosen_from in files}
        ordered = [over_files(relation, files, destination) for relation in ordered]
        for relation in ordered:
            connection.execute(f"create schema if not exists {relation.name.partition('.')[0]}")
            with one_line(f"{relation.kind} {relation.name}"):
                connection.execute(relation.created)
                if relation.kind == "table" and len(relation.key) == 1:
                    connection.execute(f"alter table {relation.name} add primary key ({relation.key[0]})")
        connection.execute("detach inputs")
        columns = {each.name: _columns(connection, each.name) for each in ordered if each.kind != "macro"}
        texts = _described(ordered, columns, descriptions(sql_root))
        _comment(connection, ordered, texts)
        _fill_catalogue(connection, ordered, columns, texts)
        contents = {
            relation.name: _contents(connection, relation, columns[relation.name], linked.get(relation.name))
            for relation in ordered
            if relation.name in columns
        }
        checks = tuple(_check(connection, path) for path in sorted((sql_root / "checks").glob("*.sql")))
        if failed := [str(check) for check in checks if check.offending and check.severity == "error"]:
            problem = f"{len(failed)} of {len(checks)} checks of the warehouse failed: {'; '.join(failed)}"
            raise TableError(f"{problem}. Correct the rows that these checks find; the last warehouse is kept")
        before_swap()
    names = tuple(dict.fromkeys(name for of_table in files.values() for name in of_table))
    return WarehouseReport(contents=contents, checks=checks, files=names, seconds=time.monotonic() - started)


def replace_states(states: pa.Table, sql_root: Path, destination: Path) -> CheckResult:
    """Swap in a copy of the warehouse with these states of the assets; return the check that reads them."""
    with _new_database(destination, copied=True) as connection:
        connection.execute(f"set variable {FOLDER} = {text_literal(str(destination.parent.absolute()))}")
        connection.register("rows", states)
        with one_line("asset_state"):
            connection.execute("delete from main.asset_state")
            connection.execute(f"insert into main.asset_state by name {_rows('asset_state', 'rows')}")
        return _check(connection, sql_root / "checks" / f"{OF_STATES}.sql")


@contextmanager
def _new_database(destination: Path, *, copied: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a new or copied database beside `destination`, and swap it in if nothing is raised."""
    with write_result(destination) as beside:
        if copied:
            shutil.copyfile(fetch(destination), beside)
        spill = beside.with_name(beside.name + ".tmp")
        connection = duckdb.connect(":memory:", config={**NO_EXTENSIONS, "temp_directory": str(spill)})
        try:
            hide_bar(connection)
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


def _columns(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    with one_line(f"relation {name}"):
        rows = connection.sql(f"from {name} limit 0")
    return dict(zip(rows.columns, map(str, rows.types), strict=True))


def _described(
    created: Sequence[Relation], columns: Mapping[str, Mapping[str, str]], lines: Sequence[Description]
) -> dict[tuple[str, str], str]:
    """Return the descriptions of relations (column empty) and their columns; empty where there is none."""
    texts: dict[tuple[str, str], str] = {}
    for relation in created:
        name = relation.name.split(".")[1]
        of_relation = [line for line in lines if fnmatchcase(name, line.relation)]
        for column in ("", *columns.get(relation.name, ())):
            line = described(of_relation, name, column)
            texts[relation.name, column] = line.text if line else ""
        texts[relation.name, ""] = relation.description or texts[relation.name, ""]
    return texts


def _comment(
    connection: duckdb.DuckDBPyConnection, created: Sequence[Relation], texts: Mapping[tuple[str, str], str]
) -> None:
    """Store the descriptions of relations and columns as comments, where other programs look for them."""
    kinds = {relation.name: "macro table" if relation.kind == "macro" else relation.kind for relation in created}
    items = {
        f'column {name}."{column}"' if column else f"{kinds[name]} {name}": text
        for (name, column), text in texts.items()
        if text or not column
    }
    comments = (f"comment on {item} is {text_literal(text)}" for item, text in items.items())
    connection.execute(f"begin; {'; '.join(comments)}; commit")


CATALOGUE = "main.catalogue"


def _fill_catalogue(
    connection: duckdb.DuckDBPyConnection,
    created: Sequence[Relation],
    columns: Mapping[str, Mapping[str, str]],
    texts: Mapping[tuple[str, str], str],
) -> None:
    """Fill the table that describes each column and its use, for programs that write queries."""
    if CATALOGUE not in columns:
        return
    rows = [
        {
            "relation": relation.name,
            "kind": relation.kind,
            "grain": relation.header.get("grain"),
            "column_name": column,
            "place": place,
            "data_type": kind,
            "role": _role(relation, column, kind),
            "is_key": column in relation.key,
            "description": texts[relation.name, column] or None,
        }
        for relation in created
        for place, (column, kind) in enumerate(columns.get(relation.name, {}).items(), start=1)
    ]
    connection.register("rows", rows_table(rows, "catalogue"))
    connection.execute(f"insert into {CATALOGUE} by name from rows")
    connection.unregister("rows")


def _role(relation: Relation, column: str, kind: str) -> str:
    """Return how a column is used: `dimension`, `measure`, `time` or `attribute`."""
    if column in (*SUBJECT, "seed", "refresh", *relation.key):
        return "dimension"
    if kind.startswith("TIMESTAMP"):
        return "time"
    return "measure" if kind in _NUMBERS else "attribute"


def _contents(
    connection: duckdb.DuckDBPyConnection, relation: Relation, columns: Mapping[str, str], files: Sequence[str] | None
) -> Contents:
    """Return the contents of a relation; the rows of a large table, given by its `files`, are not hashed."""
    name, key = relation.name, ", ".join(f'"{column}"' for column in relation.key)
    copies = f"count(*) - count(distinct hash({key}))" if key else "0"  # faster than counting the columns themselves
    hashed = "'' || sum(hash(relation)::hugeint)" if files is None else "null"
    with one_line(f"relation {name}"):
        ((rows, repeated, version),) = connection.sql(
            f"select count(*), {copies}, {hashed} from {name} as relation"
        ).fetchall()
    version = fingerprint(columns, rows, version, *([] if files is None else [list(files)]))
    return Contents(rows=rows, version=version, copies=repeated, columns=columns)


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


# --- what it is built from --------------------------------------------------------------------------------


def attach_inputs(
    connection: duckdb.DuckDBPyConnection, inputs: Mapping[str, Sequence[Path] | pa.Table], published: Iterable[str]
) -> None:
    """Create `inputs.NAME` for each name of `INPUTS` and `published`, in memory instead of the file.

    A name without rows becomes an empty table, a name with files a view over exactly these.
    """
    if unknown := sorted(set(inputs) - {*INPUTS, *published}):
        raise TableError(f"not inputs of the warehouse: {commas(unknown)}; choose from {commas(INPUTS)}")
    connection.execute("attach ':memory:' as inputs")
    for name in (*INPUTS, *published):
        rows = inputs.get(name, ())
        if isinstance(rows, pa.Table):
            _input_table(connection, name, rows)
        elif rows:
            for path in rows:
                _require_schema(fetch(path), name)
            scan = _scan(map(file_literal, rows))
            connection.execute(f"create view inputs.{name} as {_rows(name, scan)}")
        else:
            _input_table(connection, name, SCHEMAS[name].empty_table())


def _input_table(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    connection.register("rows", rows)
    connection.execute(f"create table inputs.{name} as {_rows(name, 'rows')}")
    connection.unregister("rows")


def _rows(name: str, source: str) -> str:
    return plain_times(SCHEMAS.get(name, pa.schema([])), source)


def _require_schema(path: Path, name: str) -> None:
    try:
        schema = pq.read_schema(path)  # noqa: TID251 - a fetched file
    except FileNotFoundError as error:
        raise TableError(located(path, None, "this table does not exist", "Materialise its asset")) from error
    except (pa.ArrowInvalid, OSError) as error:
        remedy = "Delete the file and materialise its asset again"
        raise TableError(located(path, None, f"this table is damaged ({error})", remedy)) from error
    if not schema.equals(SCHEMAS[name]):
        odd = sorted(str(field) for field in {*schema} ^ {*SCHEMAS[name]})
        remedy = "Materialise its asset again"
        raise TableError(located(path, None, f"the schema is not that of {name}, see {commas(odd[:4])}", remedy))


def _scan(files: Iterable[str]) -> str:
    return f"read_parquet([{', '.join(files)}], hive_partitioning = false)"


# --- views over files -------------------------------------------------------------------------------------
# A view reads its files at each query, so they must stay as they were when the warehouse was built. They are hard
# links in a folder beside it (`warehouse.files`), named by their SHA-256. Links take no space and keep the rows when
# the table is replaced.


def over_files(relation: Relation, files: Mapping[str, Sequence[str]], database: Path) -> Relation:
    """Return the relation, turned into a view if it is a table that only selects columns of one of these inputs.

    The view finds the files beside the database; if both were moved, the program must set the variable `FOLDER`.
    """
    name = relation.chosen_from
    if name not in files:
        return relation
    folder = f"coalesce(getvariable('{FOLDER}'), {file_literal(database.parent)})"
    below = (text_literal(f"/{files_folder(database).name}/{file}") for file in files[name])
    before, _, _ = relation.sql.rpartition(f"inputs.{name}")
    scan = _scan(f"{folder} || {path}" for path in below)
    return replace(relation, kind="view", sql=f"{before}({_rows(name, scan)})")


def _keep(path: Path, folder: Path) -> str:
    """Hard-link a file under its SHA-256, or copy it if the file system has no links; return the name."""
    kept = folder / f"{sha256_of(path)}.parquet"
    with storage_errors(kept):
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_whole(kept):
            kept.unlink(missing_ok=True)
            try:
                kept.hardlink_to(path)
            except OSError:
                shutil.copyfile(path, kept)
    return kept.name


def _is_whole(kept: Path) -> bool:
    return kept.is_file() and sha256_of(kept) == kept.stem


def are_whole(database: Path, files: Iterable[str]) -> bool:
    """Return whether the files that the views read exist unchanged."""
    return all(_is_whole(files_folder(database) / name) for name in files)


def remove_others(database: Path, files: Collection[str]) -> None:
    """Remove all files but `files`, those that the warehouse and its predecessor read."""
    for path in files_folder(database).glob("*"):
        if path.name not in files:
            path.unlink(missing_ok=True)


# --- for others -------------------------------------------------------------------------------------------

PUBLISHED_FILE = "disent.duckdb"
PUBLISHED_SCHEMAS = ("main", "papers")
"""Schemas that users query first; the others hold what these are computed from."""
_TEXTS = "%_text"  # columns with texts of corpora, which not everybody may read
_LISTED = f"""
    select relation, bool_or(column_name like '{_TEXTS}') as has_texts
    from {CATALOGUE} where split_part(relation, '.', 1) in {PUBLISHED_SCHEMAS} group by relation order by relation"""
_OF = "database_name = 'warehouse' and not internal and comment is not null"


def publish(warehouse: Path, folder: Path, *, texts: bool = False) -> Mapping[str, int]:
    """Write the tables and views of `PUBLISHED_SCHEMAS` into a folder; return name -> number of rows.

    The folder appears complete, or the old one stays. `texts` includes the texts of corpora.
    """
    if not fetch(warehouse).is_file():
        raise no_warehouse(warehouse)
    if folder.exists() and not (folder / PUBLISHED_FILE).is_file() and any(folder.iterdir()):
        remedy = "Choose a new folder, or one that disent publish has written"
        raise ValueError(f"{folder} has other files, which would be removed. {remedy}")
    with replacing_folder(folder) as new, duckdb.connect(":memory:", config=NO_EXTENSIONS) as connection:
        new.mkdir()
        hide_bar(connection)
        with one_line(f"{warehouse}"):
            connection.execute(f"set variable {FOLDER} = {text_literal(str(warehouse.parent.absolute()))}")
            attach_warehouse(connection, fetch(warehouse))
            copy = text_literal(str((new / PUBLISHED_FILE).absolute()))
            connection.execute(f"attach {copy} as published (storage_version '{STORAGE_VERSION}')")
            connection.execute("use warehouse")
            names = [name for name, has_texts in connection.sql(_LISTED).fetchall() if texts or not has_texts]
            rows = {name: _copy(connection, name, new) for name in names}
            _copy_comments(connection, names)
            connection.execute("use memory; detach published")
    return rows


def _copy(connection: duckdb.DuckDBPyConnection, name: str, folder: Path) -> int:
    schema, _, table = name.partition(".")
    path = folder / ("" if schema == "main" else schema) / f"{table}.parquet"
    path.parent.mkdir(exist_ok=True)
    connection.execute(f"create schema if not exists published.{schema}")
    connection.execute(f"create table published.{name} as from warehouse.{name}")
    connection.execute(f"copy published.{name} to {file_literal(path)} (format parquet, compression zstd)")
    return connection.sql(f"select count(*) from published.{name}").fetchall()[0][0]


def _copy_comments(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    columns = f"""select 'column ' || schema_name || '.' || table_name || '."' || column_name || '"', comment,
        schema_name || '.' || table_name from duckdb_columns() where {_OF}"""
    relations = " union all ".join(
        f"select 'table ' || schema_name || '.' || {kind}_name, comment, schema_name || '.' || {kind}_name "
        f"from duckdb_{kind}s() where {_OF}"
        for kind in ("table", "view")
    )
    for item, comment, name in connection.sql(f"{relations} union all {columns}").fetchall():
        if name in names:
            what, _, place = item.partition(" ")
            connection.execute(f"comment on {what} published.{place} is {text_literal(comment)}")
