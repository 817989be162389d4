"""Build an asset from a step: its spec, its checks, and the function that Dagster calls.

What belongs here: what the assets of all stages have in common. What does not: what a single stage makes.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import pyarrow as pa

from disent_assets.asset_results import materialized, user_errors
from disent_assets.freed_memory import freed_memory_kept
from disent_assets.placement import Place, on_processor
from disent_assets.resources import SQL
from disent_assets.same_configuration import check_configuration
from disent_assets.sql_folder import Description, described, descriptions
from disent_assets.step_costs import Meter, is_made, record_cost, with_cost
from disent_core.experiment.result import Check, StepResult
from disent_core.experiment.workspace import Workspace
from disent_core.storage.tables import SCHEMAS, fingerprint

OWNERS = ["team:disent"]
LOST_PROCESS = dg.RetryPolicy(max_retries=4, delay=20, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""A step whose process was lost, with its machine for instance, runs again. It waits, as an executor notices a lost
machine late and may send the next attempt there too. `user_errors` keeps every other failure from being repeated."""

Result = TypeVar("Result", bound=StepResult)


# --- assets -----------------------------------------------------------------------------------------------


def table_asset(
    asset: dg.AssetSpec,
    refresh: Callable[[str], Result],
    *,
    partitions: dg.PartitionsDefinition | None = None,
    checks: Sequence[Check] = (),
    place: Place | None = None,
    show: Callable[[str, Result], Mapping[str, Any]] | None = None,
    workspace: Workspace | None = None,
) -> dg.AssetsDefinition:
    """An asset that a function of `disent_core.experiment` makes.

    Args:
        asset: spec of the asset.
        refresh: makes the partition of a key unless it is up to date.
        partitions: partitions of the asset; if None, `refresh` gets an empty key.
        checks: the checks whose outcomes `refresh` returns.
        place: where its steps run; by default where tables are made.
        show: returns metadata beside the figures of the result, such as pictures.
        workspace: whose configuration must be that of the run, and whose table of costs has what the step takes;
            None: nothing is checked, and only the metadata have the cost.
    """

    def run(partition: str) -> Iterator[dg.MaterializeResult]:
        result = refresh(partition)
        yield materialized(asset.key.path, result, show(partition, result) if show else {})

    return step_asset(
        [asset],
        run,
        partitions=partitions,
        checks=[check_spec(asset.key.path, check, partitions) for check in checks],
        place=place,
        workspace=workspace,
    )


def step_asset(
    specs: Sequence[dg.AssetSpec],
    run: Callable[[str], Iterable[dg.MaterializeResult]],
    *,
    partitions: dg.PartitionsDefinition | None = None,
    checks: Sequence[dg.AssetCheckSpec] = (),
    place: Place | None = None,
    workspace: Workspace | None = None,
) -> dg.AssetsDefinition:
    """One or several assets that one step makes; the step is named after the first. Arguments as `table_asset`."""
    where = place or on_processor()

    @dg.multi_asset(
        name=step_name(specs[0].key.path),
        specs=specs,
        partitions_def=partitions,
        check_specs=checks,
        pool=where.pool,
        op_tags=where.tags,
        retry_policy=LOST_PROCESS,
    )
    def step(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        partition = context.partition_key if context.has_partition_key else ""
        with user_errors(), freed_memory_kept():
            if workspace is not None:
                check_configuration(workspace.config, context.run.tags)
            meter = Meter()
            results = list(run(partition))
            if made := [result for result in results if is_made(result)]:
                cost = meter.cost()
                results = [with_cost(result, cost) if is_made(result) else result for result in results]
                if workspace is not None:
                    made_by = made[0].metadata or {}
                    record_cost(workspace, specs[0].key.path, partition, cost, made_by, where.device)
        yield from results

    return step


# --- their specs ------------------------------------------------------------------------------------------


def spec(
    key: Sequence[str],
    description: str,
    *,
    code_version: str,
    deps: Sequence[dg.AssetDep] = (),
    kinds: set[str] | None = None,
    schema: pa.Schema | None = None,
    stored: "Stored | None" = None,
    method: str = "",
) -> dg.AssetSpec:
    """Spec of an asset; the first part of its key is its stage, and the second the encoder, if it belongs to one.

    Args:
        key: key of the asset.
        description: what the asset is and, for a table, what one row is.
        code_version: fingerprint of the code and settings that make the asset.
        deps: the assets that it is made from.
        kinds: formats and programs that the UI shows; Parquet by default.
        schema: schema of its table; the UI shows the columns.
        stored: where its files are.
        method: of a head or of metrics; the UI can filter by it, and by the encoder.
    """
    metadata = stored.metadata if stored else {}
    encoder = key[1] if len(key) > 2 else ""
    tags = {"disent/encoder": encoder, "disent/method": method, "dagster/storage_kind": stored.kind if stored else ""}
    return dg.AssetSpec(
        key=list(key),
        description=description,
        deps=list(deps),
        group_name=group_name(key),
        code_version=code_version,
        kinds=kinds or {"parquet"},
        owners=OWNERS,
        tags={name: _OTHER_IN_TAGS.sub("_", value)[:63] for name, value in tags.items() if value},
        metadata=metadata if schema is None else {**metadata, "dagster/column_schema": column_schema(schema)},
    )


@dataclass(frozen=True)
class Stored:
    """Where the files of an asset are, for the section "Storage" of its page.

    Attributes:
        path: file or folder.
        kind: format of the files.
        relation: name in the warehouse; empty if it is not there.
    """

    path: Path
    kind: str = "parquet"
    relation: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """The path as an address, and the relation."""
        named = {"dagster/uri": self.path.absolute().as_uri(), "dagster/relation_identifier": self.relation}
        return {name: value for name, value in named.items() if value}


def table_files(workspace: Workspace, key: Sequence[str]) -> Stored:
    """Files of a table of the warehouse, whose schema there is the stage."""
    return Stored(workspace.tables.joinpath(*key), relation=".".join(key))


def group_name(key: Sequence[str]) -> str:
    """The stage of an asset is its group; an encoder has a group of its own in each stage: `scratch_heads`."""
    stage, *encoder = key[:-1]
    return _OTHER_CHARACTER.sub("_", "_".join([*encoder, stage]))


def dep(key: Sequence[str], mapping: dg.PartitionMapping | None = None) -> dg.AssetDep:
    """A dependency; without a mapping, a partition depends on the partition of the same key, or else on all."""
    return dg.AssetDep(dg.AssetKey(list(key)), partition_mapping=mapping)


def check_spec(key: Sequence[str], check: Check, partitions: dg.PartitionsDefinition | None) -> dg.AssetCheckSpec:
    """Spec of a check whose outcome the step of the asset returns; it has an outcome for each partition."""
    warnings.filterwarnings("ignore", category=dg.PreviewWarning, message=".*partitions_def on an AssetCheckSpec.*")
    return dg.AssetCheckSpec(
        check.name,
        asset=list(key),
        description=check.description,
        blocking=check.blocking,
        partitions_def=partitions,
    )


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    """An Arrow schema as the UI shows it, with the descriptions of `sql/columns.csv`."""
    return _columns(next((name for name, known in SCHEMAS.items() if known is schema), "embeddings"), schema)


@cache
def _columns(table: str, schema: pa.Schema) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field.name,
                str(field.type),
                description=line.text if (line := described(_descriptions(), table, field.name)) else None,
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in schema
        ]
    )


@cache
def _descriptions() -> tuple[Description, ...]:
    return descriptions(SQL)


def step_name(key: Sequence[str]) -> str:
    """Name of the step that makes an asset: only letters, digits and _, and unique to the key."""
    plain = "__".join(key)
    if all(_PLAIN_PART.fullmatch(part) for part in key):
        return plain
    return f"{_OTHER_CHARACTER.sub('_', plain)}__{fingerprint(list(key))[:8]}"


def prefixed_name(prefix: Sequence[str], name: str) -> str:
    """Name of a group, step, job or the like of a workspace: no two workspaces of a Dagster project share one."""
    return step_name([*prefix, name]) if prefix else name


_PLAIN_PART = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")
_OTHER_IN_TAGS = re.compile(r"[^A-Za-z0-9_.-]")
_OTHER_CHARACTER = re.compile(r"[^A-Za-z0-9_]")
