"""Embed the lineage in a Dagster project with other assets: under a prefix, in that project's instance.

Belongs here: what differs in such a project. Does not: what the assets are, and how they are refreshed.
"""

from collections.abc import Iterator
from functools import partial

import dagster as dg

from disent_assets.definitions import build
from disent_assets.lineage.factory import GPU_POOL, group_name, prefixed_name
from disent_assets.lineage.metadata import is_served, user_errors
from disent_assets.lineage.refresh import definitions_signature, look_sensor, nightly_schedule, refresh_job
from disent_assets.lineage.weekly import each_week, weekly_assets
from disent_assets.run.dagster_private import step_function
from disent_assets.settings.results_folder import claim, prepare
from disent_core.lineage.workspace import Key, Workspace
from disent_core.storage.tables import fingerprint


def hosted(workspace: Workspace, pool: str | None = None, workers: int = 1) -> dg.Definitions:
    """Return a workspace's assets, jobs that refresh them and sum up a week, and their sensor and schedules (off).

    Names of jobs, the sensor, schedules, steps, groups and the pool begin with the workspace's prefix. Steps that take
    the accelerator are in `pool`, by default `gpu` with the prefix; `workers` steps of a refresh run at once.
    """
    load = partial(hosted_assets, pool=pool)
    assets = load(workspace)
    pool = pool or prefixed_name(workspace.prefix, GPU_POOL)
    refresh = refresh_job(load, assets, workspace, workers=workers, pool=pool)
    loaded = fingerprint(definitions_signature(assets))
    keys = sorted(assets.resolve_asset_graph().materializable_asset_keys)
    refreshed = dg.Definitions(
        assets=assets.assets,
        asset_checks=assets.asset_checks,
        jobs=[refresh],
        schedules=[nightly_schedule(workspace, refresh, starts=False)],
        sensors=[look_sensor(workspace, refresh, loaded, keys)],
    )
    weekly = [_hosted(asset, workspace, pool) for asset in weekly_assets(workspace)]
    return dg.Definitions.merge(refreshed, each_week(workspace, weekly))


def hosted_assets(workspace: Workspace, pool: str | None = None) -> dg.Definitions:
    """Return the assets of a workspace under its prefix; arguments as `hosted`."""
    built = build(workspace)
    assets = [
        _hosted(asset, workspace, pool) if isinstance(asset, dg.AssetsDefinition) and asset.is_materializable else asset
        for asset in built.assets or ()
    ]
    return dg.Definitions(assets=assets, asset_checks=built.asset_checks)


def _hosted(asset: dg.AssetsDefinition, workspace: Workspace, pool: str | None) -> dg.AssetsDefinition:
    """Return the asset under the prefix; its step first claims the folder of results for its configuration."""
    prefix, function = workspace.prefix, step_function(asset)

    @dg.multi_asset(
        name=prefixed_name(prefix, asset.op.name),
        specs=[_spec(spec, prefix) for spec in asset.specs],
        partitions_def=asset.partitions_def,
        check_specs=[
            check.replace_key(dg.AssetCheckKey(_under(prefix, check.key.asset_key), check.name))
            for check in asset.check_specs
        ],
        pool=asset.op.pool and (pool or prefixed_name(prefix, asset.op.pool)),
        op_tags=asset.op.tags,
        retry_policy=asset.op.retry_policy,
    )
    def step(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        with user_errors():
            prepare(workspace.home)
            claim(workspace.config, workspace.home)
        made = function(context)
        for result in [made] if isinstance(made, dg.MaterializeResult) else made:
            yield _result(result, result.asset_key or asset.key, prefix)

    return step


def _spec(spec: dg.AssetSpec, prefix: Key) -> dg.AssetSpec:
    return spec.replace_attributes(
        key=_under(prefix, spec.key),
        deps=[dg.AssetDep(_under(prefix, dep.asset_key), partition_mapping=dep.partition_mapping) for dep in spec.deps],
        group_name=group_name(spec.key.path, prefix),
        freshness_policy=None,  # it would hold only with the nightly refresh on
    )


def _result(result: dg.MaterializeResult, key: dg.AssetKey, prefix: Key) -> dg.MaterializeResult:
    key = _under(prefix, key)
    return result._replace(
        asset_key=key,
        metadata={name: value for name, value in (result.metadata or {}).items() if not is_served(value)},
        check_results=[check._replace(asset_key=key) for check in result.check_results or ()],
    )


def _under(prefix: Key, key: dg.AssetKey) -> dg.AssetKey:
    return dg.AssetKey([*prefix, *key.path])
