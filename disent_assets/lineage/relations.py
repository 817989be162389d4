"""Show each table and view of the warehouse as an asset: its description, columns, column lineage and checks.

The warehouse step makes all of them at once and reports them; to Dagster they are external assets. Belongs here: what
Dagster shows of a relation. Does not: how it is built.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from typing import Any

import dagster as dg

from disent_assets.lineage.factory import OWNERS, group_name, prefixed_name, sql_descriptions, table_column
from disent_assets.lineage.metadata import check_result, check_spec, file_reference
from disent_assets.run.step import Event, evaluation
from disent_assets.run.steps import steps_in
from disent_assets.settings.environment import SQL
from disent_assets.warehouse.refresh import newest_refresh, read_build, warehouse_checks
from disent_assets.warehouse.sql_files import (
    OF_STATES,
    Relation,
    column_sources,
    described,
    in_order,
    published_tables,
    relations,
    subjects_of_checks,
)
from disent_core.lineage.result import Check, CheckResult
from disent_core.lineage.step import Step
from disent_core.lineage.steps import DATABASE
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.tables import fingerprint

KEY_IS_UNIQUE = Check("key_is_unique", "No two rows have the same key.", blocking=False)
HAS_ROWS = Check("has_rows", "It has rows.", blocking=False)
_INPUTS = "inputs."
_FIGURES = ("main.headline", "main.leaderboard", "main.best")
"""Relations, besides `main.metrics`, that mark stale figures."""


def relation_key(name: str) -> Key:
    """Return the key of the asset of `schema.relation`."""
    return (DATABASE[0], *name.split("."))


@cache
def shown_relations() -> tuple[Relation, ...]:
    """Return the tables and views, each after those that it reads."""
    ordered = in_order(relations(SQL, published_tables(SQL / "published")))
    return tuple(relation for relation in ordered if relation.kind != "macro")


@cache
def _checks() -> Mapping[str, tuple[Check, ...]]:
    """Return the checks of each relation: of its key or rows, and those in `sql/checks` that name it first.

    Relations with figures also have the check that these are current.
    """
    of_database = warehouse_checks()
    checks = {relation.name: [KEY_IS_UNIQUE if relation.key else HAS_ROWS] for relation in shown_relations()}
    for check, relation in subjects_of_checks(SQL).items():
        checks[relation].append(of_database[check])
    for relation in _FIGURES:
        checks[relation].append(of_database[OF_STATES])
    return {name: tuple(of) for name, of in checks.items()}


# --- before they are made ---------------------------------------------------------------------------------------------


def relation_specs(workspace: Workspace, database: Step) -> list[dg.AssetSpec]:
    """Return the spec of each relation in the database made by a step."""
    names = {relation.name for relation in shown_relations()}
    return [
        dg.AssetSpec(
            key=_under(workspace, relation_key(relation.name)),
            description=_description(relation),
            deps=[_under(workspace, key) for key in _deps(relation, names, database)],
            group_name=group_name(relation_key(relation.name), workspace.prefix),
            code_version=fingerprint(relation.sql),
            owners=OWNERS,
            kinds={"duckdb", relation.kind},
            tags={"dagster/storage_kind": "duckdb"},
            metadata={
                "dagster/uri": workspace.warehouse.absolute().as_uri(),
                "dagster/relation_identifier": relation.name,
                **_code_reference(relation),
            },
        )
        for relation in shown_relations()
    ]


def _code_reference(relation: Relation) -> dict[str, dg.CodeReferencesMetadataValue]:
    """Return a reference to the file of its query; tables of `sql/published` have none."""
    schema, name = relation.name.split(".")
    path = SQL / f"{relation.kind}s" / ("" if schema == "main" else schema) / f"{name}.sql"
    return {"dagster/code_references": file_reference(path)} if path.is_file() else {}


def _description(relation: Relation) -> str:
    name = relation.name.split(".")[1]
    line = described(sql_descriptions(), name)
    return relation.description or (line.text if line else f"The rows of sql/published/{name}.csv.")


def _deps(relation: Relation, names: Set[str], database: Step) -> list[Key]:
    """Return the relations that it reads or, if none, the database and the assets that it is loaded from."""
    read = sorted(relation.reads & names)
    loaded = {read.key for read in database.reads if f"{_INPUTS}{read.key[-1]}" in relation.reads}
    return [relation_key(name) for name in read] if read else [DATABASE, *sorted(loaded)]


def relation_checks(workspace: Workspace) -> dg.AssetChecksDefinition:
    """Return the checks of all relations; when run on their own, they repeat the outcomes of the last build."""

    @dg.multi_asset_check(
        name=prefixed_name(workspace.prefix, "check_relations"),
        specs=[
            check_spec(_under(workspace, relation_key(name)).path, check)
            for name, checks in _checks().items()
            for check in checks
        ],
    )
    def check_relations() -> Iterator[dg.AssetCheckResult]:
        last = read_build(workspace)
        for relation in shown_relations():
            for outcome in _outcomes(relation, last):
                yield check_result(_under(workspace, relation_key(relation.name)).path, outcome)

    return check_relations


def _under(workspace: Workspace, key: Key) -> dg.AssetKey:
    return dg.AssetKey([*workspace.prefix, *key])


# --- when they are made -----------------------------------------------------------------------------------------------


def relation_events(workspace: Workspace) -> Iterator[Event]:
    """Yield the last build's result for each relation, and the outcomes of its checks.

    A relation's data version is a hash of its rows, so its dependents are not stale when another relation changes.
    """
    last, sources = read_build(workspace), column_sources(SQL)
    stages = {f"{_INPUTS}{output.key[-1]}": output.key for step in steps_in(workspace) for output in step.made}
    for relation in shown_relations():
        key, of = _under(workspace, relation_key(relation.name)), last["relations"][relation.name]
        yield dg.AssetMaterialization(
            key,
            metadata={
                "dagster/row_count": of["rows"],
                "refresh": newest_refresh(last),
                "dagster/column_schema": dg.TableSchema(
                    [table_column(relation.name.split(".")[1], *column) for column in of["columns"].items()]
                ),
                "dagster/column_lineage": _column_lineage(workspace, sources.get(relation.name, {}), stages),
            },
            tags={"dagster/data_version": of["version"]},
        )
        yield from (evaluation(key, check_result(key.path, outcome)) for outcome in _outcomes(relation, last))


def state_events(workspace: Workspace) -> Iterator[Event]:
    """Yield checks of whether the warehouse's figures are current, after its states were replaced without a build."""
    if (outcome := read_build(workspace).get("checks", {}).get(OF_STATES)) is None:
        return
    check = warehouse_checks()[OF_STATES]
    of_relations = [relation_key(name) for name, checks in _checks().items() if check in checks]
    for key in (_under(workspace, key) for key in (DATABASE, *of_relations)):
        yield evaluation(key, check_result(key.path, check.result_of_rows(outcome)))


def _outcomes(relation: Relation, last: Mapping[str, Any]) -> Iterator[CheckResult]:
    of = last["relations"][relation.name]
    for check in _checks()[relation.name]:
        if check == HAS_ROWS:
            yield check.result(of["rows"] > 0)
        else:
            figures = {"rows": of["copies"]} if check == KEY_IS_UNIQUE else last["checks"][check.name]
            yield check.result_of_rows(figures)


def _column_lineage(
    workspace: Workspace, columns: Mapping[str, Sequence[tuple[str, str]]], stages: Mapping[str, Key]
) -> dg.TableColumnLineage:
    """Return the sources of a relation's columns; `stages` has the keys of the inputs that are assets."""
    key_of = cache(lambda relation: _under(workspace, stages.get(relation) or relation_key(relation)))
    deps = {
        column: [
            dg.TableColumnDep(key_of(relation), source)
            for relation, source in sources
            if relation in stages or not relation.startswith(_INPUTS)
        ]
        for column, sources in columns.items()
    }
    return dg.TableColumnLineage(deps)
