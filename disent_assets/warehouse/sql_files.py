"""Read the folder `sql`: its tables and views by name, in an order in which they can be created.

`tables` and `views` hold one relation per file (`tables/corpora/utterances.sql` is `corpora.utterances`), `macros` one
view with parameters. Each CSV file of `published` is a table, the files of `published/figures` are papers' figures, and
`templates/paper_table.sql` makes a view for each table that `published/paper_tables.csv` lists. Queries refer to
`inputs.NAME` (in tables only) or `schema.relation`; the order of creation follows from these references.

Users query schema `main` first. The schema of a stage holds its tables, `papers` the papers' tables beside the measured
figures, and `parts` what the others are computed from. `columns.csv` describes the columns, and `column_lineage.csv`
lists what they are computed from.
"""

import csv
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.csv as pc

from disent_core.errors import DisentError, TableError, commas, located
from disent_core.storage.tables import SCHEMAS

Kind = Literal["table", "view", "macro"]
_PUBLISHED = pa.schema(
    [
        *((name, pa.string()) for name in SCHEMAS["metrics"].names[:8]),
        ("value", pa.float64()),
        ("n", pa.int64()),
        *((name, pa.string()) for name in ("settings", "paper", "table", "note")),
    ]
)
COLUMN_LINEAGE = "column_lineage.csv"
OF_STATES = "metrics_are_current"  # the check in `sql/checks` that reads the states of the assets
COMMENT = re.compile(r"--[^\n]*")
_HEADER = re.compile(r"^-- (grain|key|parameters|units): (.+)$", re.MULTILINE)
_FIRST_READ = re.compile(r"^-- reads: (\w+\.\w+)", re.MULTILINE)
_REFERENCE = re.compile(r"\b(?:from|join)\s+(\w+\.\w+)")
_PLACEHOLDER = re.compile(r'"?\$(\w+)"?')


@dataclass(frozen=True)
class Relation:
    """A table, a view or a table macro (a view with parameters), with its name `schema.relation` and its query."""

    name: str
    kind: Kind
    sql: str

    @property
    def reads(self) -> frozenset[str]:
        """Names of the relations that the query reads."""
        return references(self.sql)

    @property
    def chosen_from(self) -> str:
        """The single input whose columns the query selects, if it does nothing else; empty otherwise."""
        words = COMMENT.sub("", self.sql).replace(",", " ").split()
        if words[:1] != ["select"] or words[-2:-1] != ["from"] or not words[-1].startswith("inputs."):
            return ""
        are_columns = all(word.isidentifier() and word != "distinct" for word in words[1:-2])
        return words[-1].removeprefix("inputs.") if are_columns else ""

    @property
    def created(self) -> str:
        """The statement that creates the relation."""
        parameters = f"({self.header['parameters']}) as table" if self.kind == "macro" else "as"
        return f"create {self.kind} {self.name} {parameters} {self.sql}"

    @property
    def header(self) -> dict[str, str]:
        return dict(_HEADER.findall(self.sql))

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the unique key that the file's header declares; empty if it declares none."""
        return tuple(column.strip('" ') for column in self.header.get("key", "").split(",") if column)

    @property
    def description(self) -> str | None:
        """What a row is, its units and its key, from the file's header; None without a header."""
        header = self.header
        if "grain" not in header:
            return None
        units = header.get("units", "none").removeprefix("none").removeprefix("; ")
        texts = [f"A row is {header['grain']}.", f"Units and values: {units}." if units else ""]
        return " ".join(filter(None, [*texts, f"Key: {', '.join(self.key)}." if self.key else ""]))


def references(sql: str) -> frozenset[str]:
    """Return the relations that a query reads: each `schema.relation` after `from` or `join`."""
    return frozenset(_REFERENCE.findall(COMMENT.sub("", sql)))


def column_sources(sql_root: Path) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return relation -> column -> source columns, as pairs of `schema.relation` and column.

    A column has no sources if it is a constant, counts rows or comes from a file in `published`.
    """
    sources: dict[str, dict[str, list[tuple[str, str]]]] = {}
    with (sql_root / COLUMN_LINEAGE).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for pair in row["columns"].split():
                column, _, there = pair.partition("=")
                sources.setdefault(row["relation"], {}).setdefault(column, []).append((row["source"], there or column))
    return sources


def subjects_of_checks(sql_root: Path) -> dict[str, str]:
    """Return check -> the relation it is about: the first one that its header names."""
    paths = sorted((sql_root / "checks").glob("*.sql"))
    return {path.stem: match[1] for path in paths if (match := _FIRST_READ.search(path.read_text(encoding="utf-8")))}


def published_tables(folder: Path) -> dict[str, pa.Table]:
    """Read each CSV file of `sql/published` as a table of its name, and the papers' figures as `published_metrics`.

    Figures keep the order of their files and lines. Empty fields of the other tables are null.
    """
    figures = pc.ConvertOptions(column_types=_PUBLISHED, include_columns=_PUBLISHED.names, strings_can_be_null=False)
    values = pc.ConvertOptions(null_values=[""], strings_can_be_null=True)
    papers = [_PUBLISHED.empty_table(), *(_read_csv(path, figures) for path in sorted(folder.glob("figures/*.csv")))]
    tables = {path.stem: _read_csv(path, values) for path in sorted(folder.glob("*.csv"))}
    return {"published_metrics": pa.concat_tables(papers), **tables}


def _read_csv(path: Path, options: pc.ConvertOptions) -> pa.Table:
    try:
        table = pc.read_csv(path, parse_options=pc.ParseOptions(newlines_in_values=True), convert_options=options)
    except (pa.ArrowException, OSError) as error:
        raise TableError(located(path, None, f"not as expected: {error}", "Correct the file")) from error
    # Without rows, columns would have no type, and views could not compare them with text.
    return table if table.num_rows else pa.table({name: pa.array([], pa.string()) for name in table.column_names})


def relations(sql_root: Path, published: Mapping[str, pa.Table]) -> dict[str, Relation]:
    """Return every table and view by name; the schema of a file outside subfolders is `main`."""
    by_name: dict[str, Relation] = {}
    # A table for each CSV file of `sql/published`, except the papers' figures, whose query is in `sql/tables`.
    values = [
        (sql_root / "published" / f"{name}.csv", Relation(f"parts.{name}", "table", f"from inputs.{name}"))
        for name in published
        if name != "published_metrics"
    ]
    for path, relation in (*_of_files(sql_root), *values, *_of_papers(sql_root, published)):
        if relation.name in by_name:
            raise DisentError(located(path, None, f"{relation.name} is defined twice", "Rename one of the files"))
        by_name[relation.name] = relation
    if not by_name:
        raise DisentError(located(sql_root, None, "no table or view is defined here", "Name the sql folder"))
    return by_name


def _of_files(sql_root: Path) -> Iterator[tuple[Path, Relation]]:
    for kind in get_args(Kind):
        folder = sql_root / f"{kind}s"
        for path in sorted(folder.rglob("*.sql")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join(parts if len(parts) > 1 else ("main", *parts))
            yield path, Relation(name, kind, path.read_text(encoding="utf-8"))


def _of_papers(sql_root: Path, published: Mapping[str, pa.Table]) -> Iterator[tuple[Path, Relation]]:
    """Yield a view such as `fmda_table2` for each paper table with labels; the panels `T2a` and `T2b` share one."""
    path, listing = sql_root / "templates" / "paper_table.sql", sql_root / "published" / "paper_tables.csv"
    rows: list[dict[str, str]] = published["paper_tables"].to_pylist() if "paper_tables" in published else []
    for line, row in enumerate(rows, start=2):
        if row["labels"] is not None:
            if missing := [name for name, value in row.items() if value is None]:
                raise TableError(located(listing, line, f"labels without {commas(missing)}", "Give these too"))
            paper, number = row["paper"], re.sub(r"\D", "", row["table"])
            labels = ", ".join(f"'{label}'" for label in row["labels"].split())
            values = {**row, "number": number, "labels": labels}
            # Replace each `$name` or `"$name"`; thanks to the quotes, linters read the template as SQL.
            sql = _PLACEHOLDER.sub(lambda match, values=values: values[match[1]], path.read_text(encoding="utf-8"))
            yield path, Relation(f"papers.{paper}_table{number}", "view", sql)


def in_order(named: Mapping[str, Relation]) -> list[Relation]:
    """Sort tables before views and macros, each after the relations that it reads."""
    for view in named.values():
        if view.kind != "table" and (inputs := [name for name in view.reads if name.startswith("inputs.")]):
            raise DisentError(f"view {view.name} reads {commas(inputs)}; only tables may. Read the table of that name")
    graph = {name: relation.reads & named.keys() for name, relation in named.items()}
    try:
        names = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise DisentError(f"relations read each other in a circle: {' -> '.join(error.args[1])}") from error
    return sorted((named[name] for name in names), key=lambda relation: relation.kind != "table")


# --- descriptions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Description:
    """A line of `columns.csv`; the relation (without schema) and the column may contain `*`.

    Without a column, the line describes the relation itself.
    """

    relation: str
    column: str
    text: str

    def fits(self, relation: str, column: str) -> bool:
        is_of_column = self.column == column or ("*" in self.column and fnmatchcase(column, self.column))
        return is_of_column and fnmatchcase(relation, self.relation)  # slower, so tested last

    @property
    def generality(self) -> tuple[bool, bool, bool]:
        """Sort key, smaller for a more specific line: by relation, then by column."""
        return self.relation == "*", "*" in self.relation, "*" in self.column


def descriptions(sql_root: Path) -> tuple[Description, ...]:
    path = sql_root / "columns.csv"
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))[1:]
    for number, line in enumerate(lines, start=2):
        if len(line) != 3 or not line[2]:
            remedy = "Give relation, column and description, and quote a description with commas"
            raise TableError(located(path, number, f"expected three fields with a description, got {line}", remedy))
    return tuple(Description(*line) for line in lines)


def described(lines: Sequence[Description], relation: str, column: str = "") -> Description | None:
    """Return the most specific line for a column, or for the relation if `column` is empty; None if none fits."""
    return min((line for line in lines if line.fits(relation, column)), key=lambda line: line.generality, default=None)


def sql_hash(sql_root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in sql_root.rglob("*") if path.suffix in {".sql", ".csv"}):
        digest.update(path.relative_to(sql_root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def require_same_sql(database: Path, sql_root: Path) -> None:
    """Reject a warehouse built from another version of the folder, as its views may have other columns."""
    record = database.with_suffix(".json")
    if record.is_file() and json.loads(record.read_text(encoding="utf-8")).get("sql") != sql_hash(sql_root):
        problem = "this warehouse was built by another version of disent"
        raise TableError(located(database, None, problem, "Run disent materialize warehouse"))
