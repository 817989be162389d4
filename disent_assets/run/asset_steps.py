"""Pair the steps of the lineage with the assets of Dagster that compute them."""

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import dagster as dg

from disent_assets.settings.instance import BEGAN
from disent_assets.warehouse.refresh import CODE_VERSION, refresh_warehouse, warehouse_checks
from disent_core.lineage.step import Node, Partition, Step
from disent_core.lineage.steps import Warehouse, steps
from disent_core.lineage.workspace import Key, Workspace

command: ContextVar[tuple[str, datetime | None]] = ContextVar("command", default=("", None))
"""Dagster's id of the run that this process works for, and when its command began."""


@dataclass(frozen=True, eq=False)
class AssetStep:
    """A step, and the asset that makes it.

    Attributes:
        step: as it is declared.
        asset: that Dagster materialises; its keys may begin with a prefix.
    """

    step: Step
    asset: dg.AssetsDefinition

    @cached_property
    def asset_keys(self) -> tuple[tuple[str, ...], ...]:
        """Keys of the assets, with the prefix of the workspace."""
        return tuple(tuple(spec.key.path) for spec in self.asset.specs)

    @property
    def key(self) -> Key:
        """Key of its first output."""
        return self.step.key

    @property
    def outputs(self) -> tuple[Key, ...]:
        """Keys of all outputs, without prefix."""
        return self.step.outputs

    @property
    def partitions(self) -> Sequence[str] | None:
        """Its partitions, if it has any."""
        return self.step.partitions

    @property
    def names(self) -> Sequence[Partition]:
        """Its partitions, or None as the only one."""
        return self.step.names

    @property
    def version(self) -> str:
        """Fingerprint of its code and settings."""
        return self.step.version

    @property
    def uses_device(self) -> bool:
        """Whether it takes the whole accelerator, if there is one."""
        return self.asset.op.pool is not None

    def parents(self, partition: Partition) -> Sequence[Node]:
        """Return what a partition is made from."""
        return self.step.parents(partition)

    def files(self, partition: Partition) -> list[Path]:
        """Return the files of a partition that must exist."""
        return self.step.files(partition)


_STEPS: dict[int, tuple[Workspace, tuple[Step, ...]]] = {}
"""The steps of the workspaces of this process; each holds its workspace, so that no other gets its id."""


def steps_in(workspace: Workspace) -> tuple[Step, ...]:
    """Return the steps of a workspace, upstream first; they are listed once."""
    if id(workspace) not in _STEPS:
        checks = tuple(warehouse_checks().values())
        warehouse = Warehouse(CODE_VERSION, checks, lambda of: refresh_warehouse(of, *_run()))
        _STEPS[id(workspace)] = workspace, steps(workspace, warehouse)
    return _STEPS[id(workspace)][1]


def _run() -> tuple[str, datetime | None]:
    """Return Dagster's id of the run, and when its command began, if that is known."""
    if (of_command := command.get())[0]:
        return of_command
    try:
        run = dg.AssetExecutionContext.get().run
    except dg.DagsterInvariantViolationError:
        return "", None
    return run.run_id, datetime.fromisoformat(run.tags[BEGAN]) if BEGAN in run.tags else None


def steps_of(
    workspace: Workspace, definitions: dg.Definitions, declared: Iterable[Step] | None = None
) -> list[AssetStep]:
    """Return the steps with their assets, upstream first.

    Args:
        workspace: of the lineage.
        definitions: with its assets.
        declared: the steps of the assets; by default those of the workspace.
    """
    assets = (asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition))
    by_key = {tuple(key.path[len(workspace.prefix) :]): asset for asset in assets for key in asset.keys}
    return [AssetStep(step, by_key[step.key]) for step in (steps_in(workspace) if declared is None else declared)]
