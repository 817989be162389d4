"""Pages made from the code: `python -m tools.generated` rewrites docs/commands.md.

Others only exist on the site: the Python API, where mkdocstrings fills in the docstrings, and the warehouse's tables
and views.
"""

import csv
import inspect
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from disent_assets.cli import main
from disent_assets.settings.environment import SQL, described_variables
from disent_assets.warehouse.sql_files import Relation, published_tables, relations

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ROOT / "docs" / "commands.md"
COMMANDS_HEAD = """\
# Commands

Made by `python -m tools.generated` from the commands themselves, which say the same with `--help`. `DISENT_CONFIG`
names the configuration, `DISENT_HOME` the folder of results. The exit code is 0 on success, 1 on a failed run, 2 on a
usage or configuration error.
"""
ENVIRONMENT_HEAD = """\
## Environment variables

`disent settings --environment` prints them. [Scale](scale.md) and [operations](operations.md) explain them.
"""
PYTHON_HEAD = """\
# {title}

`import disent` loads no heavy library: each comes when it is first needed. [What a version promises](promises.md) says
what may change. Other pages: {others}.
"""
PYTHON = {
    "docs/python.md": ("Encode and load", ("load", "models", "ModelInfo", "Model")),
    "docs/python-search.md": ("Search", ("search", "Index", "Hit", "SearchRequest")),
    "docs/python-classify.md": ("Classify, shapes of a log", ("Classifier", "shapes")),
    "docs/python-projects.md": (
        "Train, projects, mteb", ("train", "Trained", "Measured", "open", "Run", "Head", "HeadName", "mteb")
    ),
}  # fmt: skip
"""Pages of the Python API: title and names, the most used first."""
WAREHOUSE_HEAD = """\
# Tables and views

What `disent sql`, `run.sql()` and `run.table()` can ask. [Questions in SQL](sql.md) has examples, and
[the path of a text](path.md) the tables as files. The schema `main` may be left out of a name. A column that is not
described here is one of [several tables](#columns-of-several-tables).
"""
SHARED_HEAD = """\
## Columns of several tables

A column that is not described below its table is one of these.
"""
SCHEMAS = {
    "main": "asked first",
    "papers": "the papers' tables beside what was measured",
    "parts": "what the others are computed from",
}


def commands() -> str:
    """Return every command with its arguments and options, as Markdown."""
    group = click.Context(main, info_name="disent")
    shown = [(f"disent {name}", command) for name, command in sorted(main.commands.items()) if not command.hidden]
    parts = [line for name, command in shown for line in _command(name, command, group)]
    return "\n".join([COMMANDS_HEAD, *_command("disent", main, None), *parts, ENVIRONMENT_HEAD, described_variables()])


def _command(name: str, command: click.Command, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=name.rsplit(maxsplit=1)[-1], parent=parent)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"## {name}\n\n    {usage}\n\n{inspect.cleandoc(command.help or '')}\n"
    records = [option.get_help_record(context) for option in command.params]
    if records := [record for record in records if record and record[1]]:  # arguments have no descriptions
        rows = [f"| `{_cell(option)}` | {_cell(meaning)} |" for option, meaning in records]
        yield "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def python(page: str) -> str:
    """Return a page of `PYTHON`, with its names as placeholders that mkdocstrings replaces by their docstrings."""
    title, names = PYTHON[page]
    others = (f"[{title}]({Path(other).name})" for other, (title, _) in PYTHON.items() if other != page)
    return "\n".join(
        [PYTHON_HEAD.format(title=title, others=", ".join(others)), *(f"::: disent.{name}\n" for name in names)]
    )


def warehouse() -> str:
    """Return tables and views with the columns described in `sql/columns.csv`, the most queried first."""
    columns: dict[str, list[dict[str, str]]] = {}
    with (SQL / "columns.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            columns.setdefault(row["relation"], []).append(row)
    known = relations(SQL, published_tables(SQL / "published")).values()
    parts = [WAREHOUSE_HEAD]
    for schema, listed in groupby(sorted(known, key=_order), key=lambda relation: relation.name.partition(".")[0]):
        parts.append(f"## {schema}: {SCHEMAS.get(schema, 'the tables of the stage')}\n")
        parts += [_relation(relation, columns) for relation in listed]
    names = {relation.name.rpartition(".")[2] for relation in known}
    files = [name for name in columns if "*" not in name and name not in names]
    parts += ["## Tables that are files only\n", *(f"### {name}\n\n{_columns(columns[name])}" for name in files)]
    shared = [row for name, rows in columns.items() if "*" in name for row in rows]
    return "\n".join([*parts, SHARED_HEAD, _columns(shared)])


def _order(relation: Relation) -> tuple[bool, bool, str]:
    schema = relation.name.partition(".")[0]
    return schema != "main", schema in SCHEMAS, relation.name


def _relation(relation: Relation, columns: dict[str, list[dict[str, str]]]) -> str:
    described = columns.get(relation.name.rpartition(".")[2], [])
    text = relation.description or "Values of a file in `sql/published/`, or a table of a paper."
    return "\n".join(
        [
            f"### {relation.name.removeprefix('main.')}\n",
            f"A {relation.kind}. {text}\n",
            _columns(described) if described else "",
        ]
    )


def _columns(rows: list[dict[str, str]]) -> str:
    lines = [f"| `{row['column']}` | {_cell(row['description'])} |" for row in rows]
    return "\n".join(["| column | meaning |", "|---|---|", *lines]) + "\n"


if __name__ == "__main__":
    COMMANDS.write_text(commands(), encoding="utf-8")
