"""`python -m tools.column_lineage` writes sql/column_lineage.csv: the sources of each column of the warehouse.

sqlglot parses the queries here rather than when the warehouse is built, where it would take two seconds each time.
"""

import csv
import io
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from sqlglot import exp, parse_one
from sqlglot.lineage import Node, lineage

from disent_assets.settings.environment import SQL
from disent_assets.warehouse.sql_files import COLUMN_LINEAGE, Relation, in_order, published_tables, relations
from disent_core.storage.tables import SCHEMAS

Columns = dict[str, str]  # name -> type; types do not matter here, so all are text


def column_lineage(sql_root: Path) -> str:
    """Return the lines of the file: a relation, a relation that it reads, and the columns that it takes from it.

    `a=b` means that column `a` is computed from column `b` and those in other pairs of `a`; `a` alone is `a=a`.
    """
    published = published_tables(sql_root / "published")
    inputs = {name: schema.names for name, schema in SCHEMAS.items()}
    inputs |= {name: table.column_names for name, table in published.items()}
    known = {"inputs": {name: dict.fromkeys(columns, "text") for name, columns in inputs.items()}}
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(("relation", "source", "columns"))
    for relation in in_order(relations(sql_root, published)):
        if relation.kind == "macro":
            continue
        columns = _columns(relation, known)
        schema, name = relation.name.split(".")
        known.setdefault(schema, {})[name] = dict.fromkeys(columns, "text")
        writer.writerows(_lines(relation, columns))
    return written.getvalue()


def _columns(relation: Relation, known: dict[str, dict[str, Columns]]) -> dict[str, Node]:
    """Return how each column of a relation is computed from columns of the relations before it."""
    query = parse_one(relation.sql, dialect="duckdb")
    if any(operation.args.get("by_name") for operation in query.find_all(exp.SetOperation)):
        raise ValueError(f"{relation.name}: sqlglot matches a union by place. Write it without `by name`")
    return lineage(None, query, known, dialect="duckdb", trim_selects=False)


def _lines(relation: Relation, columns: dict[str, Node]) -> Iterator[tuple[str, str, str]]:
    pairs = {
        (f"{leaf.expression.db}.{leaf.expression.name}", column, leaf.name.rpartition(".")[2])
        for column, node in columns.items()
        for leaf in node.walk()
        if isinstance(leaf.expression, exp.Table)
    }
    for source, of_source in groupby(sorted(pairs), key=itemgetter(0)):
        taken = (column if column == there else f"{column}={there}" for _, column, there in of_source)
        yield relation.name, source, " ".join(taken)


if __name__ == "__main__":
    (SQL / COLUMN_LINEAGE).write_text(column_lineage(SQL), encoding="utf-8")
