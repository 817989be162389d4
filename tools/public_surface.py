"""What a version promises to keep, as one file: `python -m tools.public_surface` rewrites docs/public.txt.

A test compares the file with the code, so that nothing public changes unnoticed. docs/promises.md says what may change.
"""

import inspect
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any, is_typeddict

import click

import disent
from disent.query import query
from disent_assets.cli import main as commands_of_disent
from disent_assets.settings.environment import SQL, VARIABLES
from disent_assets.warehouse.build import build_warehouse
from disent_assets.web.search_page.api import ENDPOINTS
from disent_core import classifier, static_folder
from disent_core.search.contents import Contents
from disent_core.storage.schemas import SCHEMAS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "public.txt"
COLUMNS = """
select schema_name || '.' || table_name as relation, column_name as name from duckdb_columns()
where database_name = 'warehouse' and not internal and schema_name in ('main', 'history')
order by relation, column_index"""


def surface() -> str:
    """Return the text of the file."""
    parts = {
        "Python": python(),
        "Commands": commands(),
        "Environment": sorted(VARIABLES),
        "JSON": answers(),
        "File formats": formats(),
        "Warehouse": warehouse(),
    }
    head = "Made by `python -m tools.public_surface`. docs/promises.md says what of it a version may change.\n"
    return head + "".join(f"\n# {title}\n\n" + "".join(f"{line}\n" for line in lines) for title, lines in parts.items())


def python() -> Iterator[str]:
    """Yield the public names in `disent` with their parameters, and the public members of classes."""
    for name in disent.__all__:
        value = getattr(disent, name)
        if is_typeddict(value):
            yield f"disent.{name}: {', '.join(sorted(value.__annotations__))}"
            continue
        yield f"disent.{name}{_parameters(value)}"
        if not inspect.isclass(value):
            continue
        of_tuples = {*dir(tuple), *getattr(value, "_fields", ())} if issubclass(value, tuple) else set[str]()
        for member in sorted({*dir(value)} - of_tuples):
            if not member.startswith("_"):
                attribute = getattr(value, member)
                yield f"disent.{name}.{member}{_parameters(attribute) if callable(attribute) else ''}"


def _parameters(value: Any) -> str:
    """Return a signature such as `(a, b=, *, c=)`, where `=` marks optional parameters."""
    if getattr(value, "_is_protocol", False):
        return ""
    shown, is_named = [], False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind == parameter.KEYWORD_ONLY and not is_named:
            shown.append("*")
            is_named = True
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        is_named |= mark == "*"
        shown.append(f"{mark}{parameter.name}{'' if parameter.default is parameter.empty else '='}")
    return f"({', '.join(shown)})"


def commands() -> Iterator[str]:
    """Yield each command with its arguments and the names of its options."""
    for name, command in sorted(commands_of_disent.commands.items()):
        if not command.hidden:
            arguments = [str(param.name).upper() for param in command.params if isinstance(param, click.Argument)]
            given = [param for param in command.params if isinstance(param, click.Option)]
            options = ["/".join((*option.opts, *option.secondary_opts)) for option in given]
            yield " ".join(["disent", name, *arguments, *sorted(options)])


def answers() -> Iterator[str]:
    """Yield the requests to `disent serve`, with the fields of requests and answers, and the keys of its status."""
    for endpoint in ENDPOINTS:
        asked = () if endpoint.asked is None else (_fields(endpoint.asked.model_fields),)
        yield " ".join([endpoint.method, endpoint.path, *asked, "->", _fields(endpoint.answered.model_fields)])
    yield f"disent status --format json -> {_fields(SCHEMAS['asset_state'].names)}"


def _fields(names: Iterable[str]) -> str:
    return f"{{{', '.join(names)}}}"


def formats() -> Iterator[str]:
    """Yield the version of each versioned file format."""
    (of_index,) = (field.default for field in fields(Contents) if field.name == "format")
    yield f"index.json: format {of_index}"
    yield f"model.json of a static model: {static_folder.FORMAT}, version {static_folder.VERSION}"
    yield f"classifier.json: format {classifier.FORMAT}"


def warehouse() -> Iterator[str]:
    """Yield the public relations of a warehouse without measurements, with their columns."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "warehouse.duckdb"
        build_warehouse({}, SQL, database)
        rows = query(database, COLUMNS).to_pylist()
    for relation, columns in groupby(rows, key=lambda row: row["relation"]):
        yield f"{relation.removeprefix('main.')}: {', '.join(row['name'] for row in columns)}"


if __name__ == "__main__":
    PAGE.write_text(surface(), encoding="utf-8")
