"""Assets of the stage `targets`: utterances with slots -> masked texts, template pairs, and pairs to train heads on."""

import dagster as dg

from disent_assets import partitions
from disent_assets.factory import Stored, dep, spec, table_asset, table_files
from disent_assets.stages.corpora import PAIR_FILES
from disent_core.experiment import targets
from disent_core.experiment.workspace import (
    ALIGNED,
    MASKED,
    MATES,
    POOL,
    SENTENCE_PAIRS,
    SWITCHED,
    TEMPLATES,
    TRAINING_TEMPLATES,
    UTTERANCES,
    Key,
    Workspace,
)
from disent_core.storage.tables import SCHEMAS
from disent_core.training.needs import Need

LANGUAGE_TABLES = {
    MASKED: "Template text (slot words masked) and residual text (the other words masked). One row an utterance.",
    TEMPLATES: "Utterances with every slot value replaced by another of its type: same template. One row a target.",
    TRAINING_TEMPLATES: "Template pairs of training utterances, slot values from training data only. One row a target.",
}


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """The assets of the stage."""
    config, assets = workspace.config, []
    if config.utterance_languages:
        assets += [_language_table(workspace, key, description) for key, description in LANGUAGE_TABLES.items()]
    if config.pair_names and config.targets.code_switching.dictionaries:
        assets.append(_code_switched(workspace))
    if any(Need.PARALLEL_MATES in config.needs(encoder) for encoder in config.encoders):
        assets.append(_parallel_mates(workspace))
    return [*assets, _aligned_pairs(workspace)]


def _language_table(workspace: Workspace, key: Key, description: str) -> dg.AssetsDefinition:
    return table_asset(
        spec(
            key,
            description,
            code_version=targets.version(workspace.config, key)[:12],
            deps=[dep(UTTERANCES)],
            schema=SCHEMAS[key[1]],
            stored=table_files(workspace, key),
        ),
        lambda language: targets.refresh_language(workspace, key, language),
        partitions=partitions.utterance_languages(workspace.config),
        workspace=workspace,
    )


def _code_switched(workspace: Workspace) -> dg.AssetsDefinition:
    return table_asset(
        spec(
            SWITCHED,
            "Sentences with some words replaced by their translations, beside the sentence that retrieval should "
            "find. Pairs without a word list and graded pairs have none. One row a sentence.",
            code_version=targets.switching_version(workspace.config)[:12],
            deps=[dep(SENTENCE_PAIRS), dg.AssetDep(PAIR_FILES)],
            schema=SCHEMAS["code_switched_pairs"],
            stored=table_files(workspace, SWITCHED),
        ),
        lambda pair: targets.refresh_switched(workspace, pair),
        partitions=partitions.sentence_pairs(workspace.config),
        workspace=workspace,
    )


def _parallel_mates(workspace: Workspace) -> dg.AssetsDefinition:
    config, deps = workspace.config, []
    if config.utterance_languages:
        deps.append(dep(UTTERANCES, partitions.language_to_pairs(config, languages=config.utterance_languages)))
    return table_asset(
        spec(
            MATES,
            "Translation pairs of train and dev with the same slots of both sides replaced by the values of another "
            "training utterance: their mates, which are translation pairs too. One row a mate.",
            code_version=targets.mates_version(config)[:12],
            deps=deps,
            schema=SCHEMAS["parallel_mates"],
            stored=Stored(workspace.tables.joinpath(*MATES)),
        ),
        lambda training_set: targets.refresh_mates(workspace, training_set),
        partitions=partitions.pairs(config),
        workspace=workspace,
    )


def _aligned_pairs(workspace: Workspace) -> dg.AssetsDefinition:
    config, deps = workspace.config, []
    if config.utterance_languages:
        mapping = partitions.language_to_pairs(config, languages=config.utterance_languages)
        deps += [dep(key, mapping) for key in (UTTERANCES, MASKED, POOL)]
    if config.pair_names:
        deps.append(dep(SENTENCE_PAIRS, partitions.pair_to_training_sets(config)))
    return table_asset(
        spec(
            ALIGNED,
            "Parallel utterances and sentence pairs of a training set, with the address of every text that a head "
            "trains on. One row a pair of texts.",
            code_version=targets.CODE_VERSION,
            deps=deps,
            schema=SCHEMAS["aligned_pairs"],
            stored=Stored(workspace.tables.joinpath(*ALIGNED)),
        ),
        lambda training_set: targets.refresh_aligned(workspace, training_set),
        partitions=partitions.pairs(config),
        workspace=workspace,
    )
