"""Export the warehouse's tables and views for others: as Parquet files, and as tables of one DuckDB file."""

from collections.abc import Mapping
from pathlib import Path

import duckdb

from disent.query import (
    FOLDER,
    NO_EXTENSIONS,
    attach_warehouse,
    file_literal,
    hide_bar,
    no_warehouse,
    one_line,
    text_literal,
)
from disent_assets.warehouse.build import CATALOGUE, STORAGE_VERSION
from disent_core.storage.files import replacing_folder
from disent_core.storage.results import fetch

FILE = "disent.duckdb"
SCHEMAS = ("main", "papers")
"""Schemas that users query first; the others hold what these are computed from."""
_TEXTS = "%_text"  # columns with texts of corpora, which not everybody may read
_LISTED = f"""
    select relation, bool_or(column_name like '{_TEXTS}') as has_texts
    from {CATALOGUE} where split_part(relation, '.', 1) in {SCHEMAS} group by relation order by relation"""
_OF = "database_name = 'warehouse' and not internal and comment is not null"


def publish(warehouse: Path, folder: Path, *, texts: bool = False) -> Mapping[str, int]:
    """Write the tables and views of `SCHEMAS` into a folder; return name -> number of rows.

    The folder appears complete, or the old one stays. `texts` includes the texts of corpora.
    """
    if not fetch(warehouse).is_file():
        raise no_warehouse(warehouse)
    if folder.exists() and not (folder / FILE).is_file() and any(folder.iterdir()):
        remedy = "Choose a new folder, or one that disent publish has written"
        raise ValueError(f"{folder} has other files, which would be removed. {remedy}")
    with replacing_folder(folder) as new, duckdb.connect(":memory:", config=NO_EXTENSIONS) as connection:
        new.mkdir()
        hide_bar(connection)
        with one_line(f"{warehouse}"):
            connection.execute(f"set variable {FOLDER} = {text_literal(str(warehouse.parent.absolute()))}")
            attach_warehouse(connection, fetch(warehouse))
            copy = text_literal(str((new / FILE).absolute()))
            connection.execute(f"attach {copy} as published (storage_version '{STORAGE_VERSION}')")
            connection.execute("use warehouse")
            names = [name for name, has_texts in connection.sql(_LISTED).fetchall() if texts or not has_texts]
            rows = {name: _copy(connection, name, new) for name in names}
            _comment(connection, names)
            connection.execute("use memory; detach published")
    return rows


def _copy(connection: duckdb.DuckDBPyConnection, name: str, folder: Path) -> int:
    """Copy a relation as a table and as a Parquet file; return its number of rows."""
    schema, _, table = name.partition(".")
    path = folder / ("" if schema == "main" else schema) / f"{table}.parquet"
    path.parent.mkdir(exist_ok=True)
    connection.execute(f"create schema if not exists published.{schema}")
    connection.execute(f"create table published.{name} as from warehouse.{name}")
    connection.execute(f"copy published.{name} to {file_literal(path)} (format parquet, compression zstd)")
    return connection.sql(f"select count(*) from published.{name}").fetchall()[0][0]


def _comment(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    """Copy the comments of the originals to the copies."""
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
