"""Stage `negatives`: utterances of one language -> the pool of those that resemble no other.

What belongs here: keeping the scores of all utterances beside the pool, so that the next run updates them.
"""

from collections.abc import Iterator

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from disent_assets import partitions
from disent_assets.asset_results import clear_errors, materialized, spec
from disent_assets.checks import pool_checks, pool_results
from disent_assets.resources import Workspace
from disent_core.config.sections import CorpusConfig
from disent_core.negatives import BLEU_STATE_SCHEMA, bleu_state, pool
from disent_core.storage.tables import (
    SCHEMAS,
    Refreshed,
    content_of,
    fingerprint,
    read_info,
    read_table,
    refresh_table,
    write_table,
)

CODE_VERSION = "1"
POOL = ["negatives", "negative_pool"]
UTTERANCES = ["corpora", "utterances"]


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Assets of the stage."""
    config = workspace.config

    @dg.multi_asset(
        name="negatives__negative_pool",
        specs=[
            spec(
                POOL,
                "Training utterances whose BLEU against every other one of their language is below the threshold, "
                "with the witness of the largest. One row an utterance.",
                code_version=fingerprint(CODE_VERSION, config.negatives)[:12],
                kinds={"parquet"},
                deps=[dg.AssetDep(UTTERANCES)],
                schema=SCHEMAS["negative_pool"],
            )
        ],
        partitions_def=partitions.utterance_languages(config),
        check_specs=pool_checks(POOL),
    )
    def negative_pool(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        language = context.partition_key
        corpora = config.corpora_of(language, training=True)
        with clear_errors():
            refreshed = [_refresh(workspace, corpus, language) for corpus in corpora]
            paths = [workspace.table(*UTTERANCES, corpus.name, language) for corpus in corpora]
            training = sum(
                pc.sum(pc.equal(read_table(path, SCHEMAS["utterances"], ["split"])["split"], "train")).as_py() or 0
                for path in paths
            )
        rows = sum(table.info.rows for table in refreshed)
        yield materialized(
            refreshed,
            key=POOL,
            metadata={"share_of_training_utterances": rows / max(training, 1)},
            checks=pool_results(POOL, rows, training),
        )

    return [negative_pool]


def _refresh(workspace: Workspace, corpus: CorpusConfig, language: str) -> Refreshed:
    """The pool of one corpus; its scores are updated from the last run's, which gives what a fresh run gives."""
    source = workspace.table(*UTTERANCES, corpus.name, language)
    inputs = fingerprint(CODE_VERSION, workspace.config.negatives, content_of(source))
    scores = workspace.table("negatives", "bleu_scores", corpus.name, language)

    def make() -> pa.Table:
        utterances = read_table(source, SCHEMAS["utterances"])
        settings = fingerprint(CODE_VERSION, workspace.config.negatives)
        known = read_info(scores)
        previous = None
        if known is not None and known.inputs == settings:
            previous = read_table(scores, BLEU_STATE_SCHEMA)
        state = bleu_state(utterances, workspace.config.negatives, previous)
        write_table(scores, state, BLEU_STATE_SCHEMA, inputs=settings)
        return pool(state, workspace.config.negatives)

    return refresh_table(
        workspace.table(*POOL, corpus.name, language), SCHEMAS["negative_pool"], inputs=inputs, make=make
    )
