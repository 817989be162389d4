"""Define everything that Dagster loads: the assets of every stage, for the configuration that the environment names."""

import dagster as dg

from disent_assets.automation import automated
from disent_assets.profiles import executor_of
from disent_assets.profiles.patience import wait_for_database
from disent_assets.resources import database, open_workspace, run_settings
from disent_assets.stages import corpora, embeddings, evaluation, heads, negatives, targets, warehouse
from disent_core.experiment.workspace import Workspace

STAGE_MODULES = (corpora, negatives, targets, embeddings, heads, evaluation, warehouse)


def build(workspace: Workspace) -> dg.Definitions:
    """The assets of a workspace, without sensors, schedules and executor."""
    return dg.Definitions(assets=[asset for stage in STAGE_MODULES for asset in stage.definitions(workspace)])


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions that `workspace.yaml` points to."""
    settings = run_settings()
    if database():
        wait_for_database()
    automatic = automated(build, open_workspace(), settings)
    return dg.Definitions.merge(automatic, dg.Definitions(executor=executor_of(settings)))
