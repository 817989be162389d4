"""Assets of the stage `embeddings`: distinct texts of a language x a frozen encoder -> vectors and token states."""

from collections.abc import Iterator

import dagster as dg
import pyarrow as pa

from disent_assets import partitions
from disent_assets.asset_results import materialized
from disent_assets.factory import Stored, check_spec, dep, spec, step_asset, table_asset
from disent_assets.placement import FINE_TUNING, on_device
from disent_core.embeddings.store import STATES, VECTORS
from disent_core.encoders.config import DistilledConfig
from disent_core.experiment import distilling, embeddings
from disent_core.experiment.keys import aligned_key, embedding_key, encoder_key
from disent_core.experiment.workspace import MATES, SENTENCE_PAIRS, SWITCHED, UTTERANCES, Key, Workspace
from disent_core.training.needs import Need

DESCRIPTIONS = {
    VECTORS: "One vector for each distinct text. A text that is stored is never encoded again.",
    STATES: "The hidden state of the last layer for every token, special tokens included. One row a distinct text.",
}


COLUMNS = {
    VECTORS: pa.schema([("text_key", pa.string()), ("vector", pa.list_(pa.float32()))]),
    STATES: pa.schema([("text_key", pa.string()), ("states", pa.list_(pa.list_(pa.float32())))]),
}
"""Columns as the UI shows them; dimension and precision are those of the encoder, which is not loaded for it."""


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """The assets of the stage."""
    assets = []
    for name in workspace.config.encoders:
        if isinstance(workspace.config.encoders[name], DistilledConfig):
            assets += _distilled(workspace, name)
        elif embeddings.lazy_encoder(workspace, name).is_pretrained_here:
            assets.append(_pretrained(workspace, name))
        assets.append(_vectors(workspace, name))
    return assets


def embedding_keys(workspace: Workspace, encoder: str) -> list[Key]:
    """Keys of the encoder's outputs: sentence vectors, and token states if a method needs them."""
    return [embedding_key(encoder, table) for table in embeddings.tables_of(workspace.config, encoder)]


def _distilled(workspace: Workspace, name: str) -> Iterator[dg.AssetsDefinition]:
    """The aligned encoder, unless that of another encoder is the same, and the student, or a copy of another one's."""
    config, shared = workspace.config, distilling.shared_with(workspace.config, name)
    corpora = [UTTERANCES] if config.utterance_languages else []
    corpora += [SENTENCE_PAIRS] if config.pair_names else []
    if shared == name:
        yield table_asset(
            spec(
                aligned_key(name),
                "The teacher's blocks under a vocabulary of all languages, whose foreign rows are averages of the "
                "teacher's rows by word alignment. Nothing is trained.",
                code_version=distilling.alignment_version(config, name)[:12],
                deps=[dep(key) for key in corpora],
                kinds={"huggingface"},
                stored=Stored(workspace.aligned(name), "safetensors"),
            ),
            lambda _: distilling.align(workspace, name),
            place=on_device(config),
            workspace=workspace,
        )
    first = distilling.shared_with(config, name, distilling.student_version)
    of_first = [] if first == name else [encoder_key(first)]
    yield table_asset(
        spec(
            encoder_key(name),
            "The encoder: the aligned one, trained to place a translation where the teacher has its source. New "
            "translations make a new encoder.",
            code_version=distilling.student_version(config, name)[:12],
            deps=[dep(key) for key in (aligned_key(shared), *of_first, *corpora)],
            kinds={"pytorch", "huggingface"},
            stored=Stored(workspace.pretrained(name), "safetensors"),
        ),
        lambda _: distilling.distil(workspace, name),
        place=on_device(config, FINE_TUNING),
        workspace=workspace,
    )


def _pretrained(workspace: Workspace, name: str) -> dg.AssetsDefinition:
    config = workspace.config
    sources = [UTTERANCES] if config.utterance_languages else []
    sources += [SENTENCE_PAIRS] if config.trains_on_sentence_pairs else []
    return table_asset(
        spec(
            encoder_key(name),
            "A transformer with its own tokenizer, pretrained on the corpora's training texts by masked-"
            "language modelling. It is pretrained once and then frozen: texts that change later do not change it. "
            "Delete its folder to pretrain anew.",
            code_version=embeddings.pretraining_version(config, name)[:12],
            deps=[dep(key) for key in sources],
            kinds={"pytorch", "huggingface"},
            stored=Stored(workspace.pretrained(name), "safetensors"),
        ),
        lambda _: embeddings.pretrain(workspace, name),
        place=on_device(config, FINE_TUNING),
        workspace=workspace,
    )


def _vectors(workspace: Workspace, name: str) -> dg.AssetsDefinition:
    config, languages = workspace.config, partitions.languages(workspace.config)
    keys = {table: embedding_key(name, table) for table in embeddings.tables_of(config, name)}
    sources = []
    if config.utterance_languages:
        mapping = partitions.same_language(config)
        sources += [dep(key, mapping) for key in embeddings.SOURCES]
    if config.pair_names:
        mapping = partitions.pair_to_languages(config)
        keys_of_pairs = [SENTENCE_PAIRS, *([SWITCHED] if config.targets.code_switching.dictionaries else [])]
        sources += [dep(key, mapping) for key in keys_of_pairs]
    if Need.MATE_STATES in config.needs(name):
        sources.append(dep(MATES, partitions.training_set_to_languages(config)))
    if embeddings.lazy_encoder(workspace, name).is_pretrained_here:
        sources.append(dep(encoder_key(name)))

    def encode(language: str) -> Iterator[dg.MaterializeResult]:
        results = embeddings.encode(workspace, name, language)
        for table, key in keys.items():
            yield materialized(key, results[table])

    return step_asset(
        [
            spec(
                key,
                DESCRIPTIONS[table],
                code_version=embeddings.version(config, name)[:12],
                deps=sources,
                kinds={"parquet", "huggingface"},
                schema=COLUMNS[table],
                stored=Stored(workspace.embeddings / table / name),
            )
            for table, key in keys.items()
        ],
        encode,
        partitions=languages,
        checks=[check_spec(key, embeddings.ALL_ENCODED, languages) for key in keys.values()],
        place=on_device(config),
        workspace=workspace,
    )
