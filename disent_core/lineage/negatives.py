"""Stage `negatives`: select the pool of a language's utterances that resemble no other.

All utterances' scores are stored beside the pool, so that the next run can update them.
"""

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.config.model import Config
from disent_core.config.sections import CorpusConfig
from disent_core.lineage.result import Check, StepResult, result_of
from disent_core.lineage.workspace import POOL, UTTERANCES, Workspace
from disent_core.shards.backend import sharded
from disent_core.storage.tables import RefreshResult, content_of, fingerprint, read_info, read_table, write_table

CODE_VERSION = "1"
POOL_HAS_ROWS = Check("pool_is_not_empty", "The pool has negatives to draw.", False)


def version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine the pool."""
    return fingerprint(CODE_VERSION, config.negatives)


def refresh_pool(workspace: Workspace, language: str) -> StepResult:
    """Make `negative_pool` of a language: one file for each corpus that heads train on."""
    corpora = workspace.config.corpora_of(language, training=True)
    refreshed = [_refresh(workspace, corpus, language) for corpus in corpora]
    splits = (workspace.read(*UTTERANCES, corpus.name, language, columns=["split"])["split"] for corpus in corpora)
    training = sum(pc.sum(pc.equal(split, "train")).as_py() or 0 for split in splits)
    rows = sum(table.info.rows for table in refreshed)
    return result_of(
        refreshed,
        figures={"share_of_training_utterances": rows / max(training, 1)},
        checks=[POOL_HAS_ROWS.result(rows > 1, pool=rows, training_utterances=training)],
    )


def _refresh(workspace: Workspace, corpus: CorpusConfig, language: str) -> RefreshResult:
    """Make the pool of one corpus; updating the scores of the last run gives the same result as a fresh run."""
    from disent_core.negatives.nearest import BLEU_STATE_SCHEMA, READ, bleu_state, pool

    settings = version(workspace.config)
    scores = workspace.table("negatives", "bleu_scores", corpus.name, language)
    source = workspace.table(*UTTERANCES, corpus.name, language)
    inputs = fingerprint(CODE_VERSION, workspace.config.negatives, content_of(source))

    def make() -> pa.Table:
        utterances = workspace.read(*UTTERANCES, corpus.name, language, columns=READ)
        stored = read_info(scores)
        is_usable = stored is not None and stored.inputs_hash == settings
        previous = read_table(scores, BLEU_STATE_SCHEMA) if is_usable else None
        shards = workspace.shards("negatives", corpus.name, language)
        with sharded(workspace.shard_backend, shards, fingerprint(inputs, is_usable and content_of(scores))):
            state = bleu_state(utterances, workspace.config.negatives, previous)
            write_table(scores, state, BLEU_STATE_SCHEMA, inputs=settings)
        return pool(state, workspace.config.negatives)

    return workspace.refresh(*POOL, corpus.name, language, inputs=inputs, make=make)
