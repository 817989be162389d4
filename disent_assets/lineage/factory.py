"""Build an asset from a step: its place, spec and checks, and the function that Dagster calls."""

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from disent_assets.lineage.metadata import check_result, check_spec, code_references, materialized, user_errors
from disent_assets.run.corpus_versions import read_source
from disent_assets.run.error_messages import failed_checks, failure_of_steps
from disent_assets.run.resources import requests
from disent_assets.run.step import (
    Event,
    check_configuration,
    events_of,
    freed_memory_kept,
    log_news,
    make_recorded,
    partitions_of,
)
from disent_assets.settings.environment import SQL, is_local, step_share
from disent_assets.warehouse.sql_files import Description, described, descriptions
from disent_core.config.model import Config
from disent_core.lineage.result import StepResult
from disent_core.lineage.step import Node, Output, Read, Source, Step
from disent_core.lineage.workspace import Workspace
from disent_core.storage.tables import SCHEMAS, fingerprint

GPU_POOL = "gpu"  # pool of steps that use the accelerator; `dagster.yaml` limits how many run at once
GPU_DRIVERS = ("nvidia*", "nvhost-gpu", "kfd", "dxg")
"""Device files of GPUs on Linux: CUDA, CUDA on Jetson, ROCm, and both under Windows."""


@dataclass(frozen=True)
class Place:
    device: str  # `cpu`, or `cuda` if it takes the accelerator of this machine
    pool: str | None  # limits how many of its kind run at once on one machine; a cluster counts GPUs itself
    tags: Mapping[str, Any]  # requests to Ray and Kubernetes


def on_device(config: Config, memory: float) -> Place:
    """Return the place of a step that uses the accelerator, if there is one, and needs `memory` GB."""
    gpus, factor = step_share()
    may_use, has = config.experiment.device != "cpu", device_pool(config) is not None
    pool = GPU_POOL if has and is_local() else None
    return Place("cuda" if has else "cpu", pool, requests(gpus * may_use, memory * factor))


def device_pool(config: Config) -> str | None:
    """Return the pool of steps that take the whole accelerator; None on a CPU, where steps can run in parallel."""
    return GPU_POOL if config.experiment.device != "cpu" and _has_gpu() else None


@cache
def _has_gpu() -> bool:
    """Return whether torch can use a GPU; torch takes a second to load, so ask it only if Linux has a driver."""
    if sys.platform == "linux" and not any(any(Path("/dev").glob(pattern)) for pattern in GPU_DRIVERS):
        return False
    import torch

    return torch.cuda.is_available()


# --- assets -----------------------------------------------------------------------------------------------------------

OWNERS = ["team:disent"]
LOST_PROCESS = dg.RetryPolicy(max_retries=4, delay=20, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""A step whose process or store was lost, for instance with its machine, runs again. It waits first, since an executor
notices a lost machine late and may send the next attempt there too. `user_errors` prevents retries of any other
failure."""

Show = Callable[[str, StepResult], Mapping[str, Any]]
"""Returns metadata of a result in addition to its figures, such as pictures."""


def step_asset(
    step: Step,
    workspace: Workspace | None = None,
    show: Show | None = None,
    inside: Callable[[], Iterable[Event]] = tuple,
) -> dg.AssetsDefinition:
    """Return the assets that a step makes.

    The workspace must have the run's configuration, and its records get the step's inputs, outputs and cost; without a
    workspace, nothing is checked or recorded. `inside` returns the events of external assets that are parts of the
    step's output.
    """
    on_processor = Place("cpu", None, requests(0.0, step.memory * step_share()[1]))
    place = on_device(workspace.config, step.memory) if step.on_device and workspace else on_processor
    names = None if step.partitions is None else dg.StaticPartitionsDefinition(list(step.partitions))
    warnings.filterwarnings("ignore", category=dg.PreviewWarning, message=".*partitions_def on an AssetCheckSpec.*")

    def make(partition: str) -> list[dg.MaterializeResult]:
        results = zip(step.outputs, step.make(partition), strict=True)
        return [materialized(key, result, show(partition, result) if show else {}) for key, result in results]

    def run(partition: str) -> list[dg.MaterializeResult]:
        with user_errors():
            if workspace is not None:
                return make_recorded(workspace, step.key, partition, make, place.device)
            with freed_memory_kept():
                return make(partition)

    @dg.multi_asset(
        name=step_name(step.key),
        specs=[_spec(step, output) for output in step.made],
        partitions_def=names,
        check_specs=[check_spec(key, check, names) for key in step.outputs for check in step.checks],
        pool=place.pool,
        op_tags=place.tags,
        retry_policy=LOST_PROCESS,
    )
    def asset(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        partition = context.partition_key if context.has_partition_key else ""
        if workspace is not None:
            with user_errors():
                check_configuration(workspace.config, context.run.tags)
        asked = partitions_of(context.run.tags) or [partition]
        failed: dict[Node, str] = {}
        for name in asked:
            try:
                results = run(name)
            except dg.Failure as failure:
                if len(asked) == 1 or failure.allow_retries:
                    raise
                failed[step.key, name] = failure.description or ""
                continue
            if name == partition:
                log_news(context, list(inside()))  # first: who knows the step's result looks no further
                yield from results  # Dagster reports them, for this partition only
                continue
            for event in events_of(results, name):
                context.log_event(event)  # pyright: ignore[reportArgumentType] - it takes evaluations too
            if errors := failed_checks(results, dg.AssetCheckSeverity.ERROR):
                failed[step.key, name] = "; ".join(errors)
        if failed:
            raise failure_of_steps(failed)

    return asset


def source_asset(workspace: Workspace, source: Source) -> dg.AssetsDefinition:
    """Return an observed asset of published files; a partition's data version is the hash of its content."""
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*observable_source_asset.*")
    key = dg.AssetKey([*workspace.prefix, *source.key])

    @dg.observable_source_asset(  # pyright: ignore[reportCallIssue, reportArgumentType] - tags is not in its overloads
        key=key,
        group_name=group_name(source.key, workspace.prefix),
        partitions_def=dg.StaticPartitionsDefinition(list(source.partitions)),
        description=source.description,
        tags={"dagster/kind/file": ""},
    )
    def published() -> dg.DataVersionsByPartition:
        return dg.DataVersionsByPartition(read_source(workspace, source).versions)

    # The decorator takes no owners.
    asset = dg.Definitions(assets=[published]).resolve_assets_def(key)  # pyright: ignore[reportArgumentType]
    return asset.map_asset_specs(lambda spec: spec.replace_attributes(owners=OWNERS))


def source_checks(workspace: Workspace, source: Source) -> dg.AssetChecksDefinition:
    """Return the checks of published files; when run on their own, they read the files."""
    key = dg.AssetKey([*workspace.prefix, *source.key])

    @dg.multi_asset_check(
        name=prefixed_name(workspace.prefix, f"check_{source.key[-1]}"),
        specs=[check_spec(key.path, check) for check in source.checks],
    )
    def check_files() -> Iterator[dg.AssetCheckResult]:
        yield check_result(key.path, read_source(workspace, source).check)

    return check_files


def _spec(step: Step, output: Output) -> dg.AssetSpec:
    tags = {
        "disent/encoder": step.encoder,
        "disent/method": step.method.name if step.method else "",
        "dagster/storage_kind": output.format if output.path else "",
    }
    metadata = {
        "dagster/uri": output.path.absolute().as_uri() if output.path else "",
        "dagster/relation_identifier": output.relation,
        "dagster/column_schema": "" if output.schema is None else column_schema(output.schema),
        "dagster/code_references": code_references(step.code) if step.code else "",
    }
    return dg.AssetSpec(
        key=list(output.key),
        description=output.description,
        deps=[_dep(read) for read in step.reads],
        group_name=group_name(output.key),
        code_version=step.version,
        kinds=set(step.kinds),
        owners=OWNERS,
        tags={name: _OTHER_IN_TAGS.sub("_", value)[:63] for name, value in tags.items() if value},
        metadata={name: value for name, value in metadata.items() if value},
    )


def _dep(read: Read) -> dg.AssetDep:
    """Return a dependency; without a mapping, a partition depends on the one with the same key, or else on all."""
    if read.dependents is None:
        return dg.AssetDep(list(read.key))
    mapping = {name: set(dependents) for name, dependents in read.dependents.items()}
    return dg.AssetDep(list(read.key), partition_mapping=dg.StaticPartitionMapping(mapping))


# --- columns and names ------------------------------------------------------------------------------------


def group_name(key: Sequence[str], prefix: Sequence[str] = ()) -> str:
    """Return the group of an asset: its stage or, for each encoder's assets, stage and encoder: `heads_scratch`.

    The graph cuts the middle of long names after six characters, so the stage comes first and the workspace's prefix
    last, and `wh` is the stage of warehouse tables and views: `wh_main`.
    """
    stage, *others = key[:-1]
    return _OTHER_CHARACTER.sub("_", "_".join(["wh" if stage == "warehouse" and others else stage, *others, *prefix]))


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    """Return an Arrow schema as the UI shows it, with the descriptions of `sql/columns.csv`."""
    table = next((name for name, known in SCHEMAS.items() if known is schema), "embeddings")
    return dg.TableSchema(
        [table_column(table, field.name, str(field.type), is_nullable=field.nullable) for field in schema]
    )


@cache
def table_column(relation: str, name: str, kind: str, *, is_nullable: bool = True) -> dg.TableColumn:
    """Return a column as the UI shows it, with its description in `sql/columns.csv`."""
    line = described(sql_descriptions(), relation, name)
    constraints = dg.TableColumnConstraints(nullable=is_nullable)
    return dg.TableColumn(name, kind, line.text if line else None, constraints=constraints)


@cache
def sql_descriptions() -> tuple[Description, ...]:
    """Return the lines of `sql/columns.csv`."""
    return descriptions(SQL)


def step_name(key: Sequence[str]) -> str:
    """Return the name of the step that makes an asset: only letters, digits and _, and unique to the key."""
    plain = "__".join(key)
    if all(_PLAIN_PART.fullmatch(part) for part in key):
        return plain
    return f"{_OTHER_CHARACTER.sub('_', plain)}__{fingerprint(list(key))[:8]}"


def prefixed_name(prefix: Sequence[str], name: str) -> str:
    """Return the name of a group, step, job or the like, unique among the workspaces of a Dagster project."""
    return step_name([*prefix, name]) if prefix else name


_PLAIN_PART = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")
_OTHER_IN_TAGS = re.compile(r"[^A-Za-z0-9_.-]")
_OTHER_CHARACTER = re.compile(r"[^A-Za-z0-9_]")
