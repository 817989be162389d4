"""Assets of the stage `negatives`: utterances of a language -> the pool of those that resemble no other one."""

import dagster as dg

from disent_assets import partitions
from disent_assets.factory import dep, spec, table_asset, table_files
from disent_core.experiment import negatives
from disent_core.experiment.workspace import POOL, UTTERANCES, Workspace
from disent_core.storage.tables import SCHEMAS


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """The assets of the stage."""
    pool = table_asset(
        spec(
            POOL,
            "The pool of negatives: training utterances whose BLEU against every other one of their language is below "
            "the threshold, with the most similar utterance. One row an utterance.",
            code_version=negatives.version(workspace.config)[:12],
            deps=[dep(UTTERANCES)],
            schema=SCHEMAS["negative_pool"],
            stored=table_files(workspace, POOL),
        ),
        lambda language: negatives.refresh_pool(workspace, language),
        partitions=partitions.utterance_languages(workspace.config),
        checks=[negatives.POOL_HAS_ROWS],
        workspace=workspace,
    )
    return [pool]
