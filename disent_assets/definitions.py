"""Define everything that Dagster loads: an asset for each output of each step, sensors, a schedule and the executor."""

from datetime import timedelta
from functools import partial
from typing import Any

import dagster as dg

from disent_assets.lineage.factory import source_asset, source_checks, step_asset, step_name
from disent_assets.lineage.refresh import automated
from disent_assets.lineage.relations import relation_checks, relation_events, relation_specs
from disent_assets.lineage.shown import show_of
from disent_assets.lineage.weekly import each_week, weekly_assets
from disent_assets.run.resources import Launch
from disent_assets.run.steps import steps_in
from disent_assets.settings.environment import database, open_workspace, run_settings
from disent_assets.settings.profiles import executor_of, wait_for_database
from disent_core.lineage.steps import sources
from disent_core.lineage.workspace import Workspace

FRESHNESS = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=25))
"""Freshness of the warehouse: a refresh without failures checks everything each night."""


def build(workspace: Workspace) -> dg.Definitions:
    """Return the assets of a workspace, without sensors, schedules and executor."""
    read = sources(workspace.config)
    published = [source_asset(workspace, source) for source in read]
    *steps, database = steps_in(workspace)
    made = [step_asset(step, workspace, show_of(workspace, step)) for step in steps]
    made.append(step_asset(database, workspace, show_of(workspace, database), partial(relation_events, workspace)))
    made[-1] = made[-1].map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=FRESHNESS))
    relations = relation_specs(workspace, database)
    checks = [*(source_checks(workspace, source) for source in read), relation_checks(workspace)]
    return dg.Definitions(assets=[*published, *made, *relations], asset_checks=checks)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions; `workspace.yaml` points here."""
    settings = run_settings()
    if database():
        wait_for_database()
    workspace = open_workspace()
    weekly = each_week(workspace, weekly_assets(workspace))

    def launch(context: Any) -> Launch:
        return Launch(workspace, {step_name(step.key): step.key for step in steps_in(workspace)}, context)

    executor = executor_of(settings, launch)
    return dg.Definitions.merge(automated(build, workspace, settings), weekly, dg.Definitions(executor=executor))
