"""Everything that Dagster loads: the assets of every stage, from the configuration that the environment names."""

import dagster as dg

from disent_assets import corpora, embeddings, evaluation, heads, negatives, targets, warehouse
from disent_assets.resources import Workspace, open_workspace

STAGE_MODULES = (corpora, negatives, targets, embeddings, heads, evaluation, warehouse)


def build(workspace: Workspace) -> dg.Definitions:
    """Definitions of a workspace."""
    return dg.Definitions(assets=[asset for stage in STAGE_MODULES for asset in stage.definitions(workspace)])


@dg.definitions
def defs() -> dg.Definitions:
    """What `workspace.yaml` points to."""
    return build(open_workspace())
