"""Every relation and column says what it is, to programs that read the warehouse and in the UI."""

from pathlib import Path

import pytest

from disent_assets.lineage.factory import column_schema
from disent_assets.warehouse.sql_files import Description, described, descriptions
from disent_core.errors import TableError
from disent_core.lineage import steps
from disent_core.storage.tables import SCHEMAS

SQL = Path(__file__).parents[2] / "sql"
RELATIONS = ("metrics",)
LINES = descriptions(SQL)
NAMES = """
    select schema_name || '.' || {kind}_name as name, comment from duckdb_{kind}s()
    where not internal and database_name = 'warehouse'"""
COLUMNS = """
    select table_name as relation, column_name as name, comment from duckdb_columns()
    where not internal and database_name = 'warehouse'"""


def test_every_relation_and_column_of_the_warehouse_is_described(published):
    relations = published.ask(f"{NAMES.format(kind='table')} union all {NAMES.format(kind='view')}")
    columns = published.ask(COLUMNS)
    assert (len(relations) > 60, len(columns) > 1000) == (True, True)
    assert [row["name"] for row in (*relations, *columns) if not row["comment"]] == []


def test_every_column_of_a_stored_table_is_described():
    columns = [(table, name) for table, schema in SCHEMAS.items() for name in schema.names]
    assert [column for column in columns if described(LINES, *column) is None] == []


def test_the_ui_shows_the_column_description_of_its_table():
    columns = {table: column_schema(SCHEMAS[table]).columns for table in ("rankings", "comparisons")}
    of_rank = next(column.description for column in columns["rankings"] if column.name == "rank")
    assert of_rank.startswith("Place of the candidate in the ranking of the query")
    of_embeddings = [column for schema in steps.COLUMNS.values() for column in column_schema(schema).columns]
    assert all(column.description for column in (*columns["rankings"], *columns["comparisons"], *of_embeddings))


def test_every_description_line_is_used(published):
    described_columns = [(row["relation"], row["name"]) for row in published.ask(COLUMNS)]
    of_stages = [(table, name) for table, schema in SCHEMAS.items() for name in schema.names]
    of_stages += [("embeddings", name) for schema in steps.COLUMNS.values() for name in schema.names]
    themselves = [(relation, "") for relation, _ in described_columns]
    used = {described(LINES, *place) for place in (*described_columns, *of_stages, *themselves)}
    assert [line for line in LINES if line not in used] == []


def test_the_most_specific_description_is_preferred():
    lines = [Description(*line, text="") for line in (("*", "n"), ("m*", "n"), ("mine", "*"), ("mine", "n"))]
    for place in range(len(lines)):
        assert described(lines[: place + 1], "mine", "n") == lines[place]
        assert described(lines[place::-1], "mine", "n") == lines[place]


def test_a_description_may_have_quotes_and_a_line_with_too_many_fields_is_refused(warehouse, sql_copy):
    path = sql_copy / "columns.csv"
    path.write_text(path.read_text() + """metrics,value,"the user's ""value\"\""\n""")
    warehouse.build(sql_copy)
    where = "schema_name = 'main' and table_name = 'metrics' and column_name = 'value'"
    assert warehouse.rows(f"select comment from duckdb_columns() where {where}") == [('the user\'s "value"',)]
    path.write_text(path.read_text() + "metrics,value,in units, that vary\n")
    with pytest.raises(
        TableError, match=r"columns\.csv:\d+: expected three fields with a description, got .*\. Give relation, column"
    ):
        warehouse.build(sql_copy)
