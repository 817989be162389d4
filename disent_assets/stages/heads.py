"""Assets of the stage `heads`: aligned pairs x embeddings x method -> weights and training curve of every seed."""

from collections.abc import Iterator
from functools import cache, partial

import dagster as dg

from disent_assets import partitions
from disent_assets.asset_results import pictures
from disent_assets.factory import GPU_POOL, dep, spec, table_asset
from disent_assets.stages.embeddings import embedding_keys
from disent_core.config.model import MethodConfig
from disent_core.embeddings.store import STATES
from disent_core.experiment import heads
from disent_core.experiment.workspace import ALIGNED, SENTENCE_PAIRS, Key, Workspace
from disent_core.heads import described
from disent_core.report import PICTURES_VERSION
from disent_core.report.clouds import pca, tsne
from disent_core.report.curves import training_curve
from disent_core.storage.tables import fingerprint
from disent_core.training.needs import Need


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """The assets of the stage: one for each encoder and trained method."""
    return [
        _head(workspace, encoder, method)
        for encoder in workspace.config.encoders
        for method in workspace.config.methods_of(encoder)
        if method.method.is_trained
    ]


def head_key(encoder: str, method: str) -> Key:
    """Key of a head."""
    return ("heads", encoder, method)


def _head(workspace: Workspace, encoder: str, method: MethodConfig) -> dg.AssetsDefinition:
    config = workspace.config
    return table_asset(
        spec(
            head_key(encoder, method.name),
            f"{described(method.base)}\n\nMethod `{method.method.name}`, "
            f"seeds {list(config.seeds_of(method))}, trained on the embeddings of `{encoder}`.",
            code_version=heads.version(method),
            deps=list(_dependencies(workspace, encoder, method)),
            kinds={"pytorch", "safetensors"},
        ),
        lambda training_set: heads.train(workspace, encoder, method, training_set),
        partitions=partitions.pairs(config, method),
        checks=[heads.CONVERGED],
        pool=GPU_POOL,
        show=partial(_shown, workspace, method),
    )


def _dependencies(workspace: Workspace, encoder: str, method: MethodConfig) -> Iterator[dg.AssetDep]:
    """The aligned pairs and the embeddings, and the tables of utterances if the method needs them and they exist."""
    config, needs = workspace.config, method.needs
    if not method.method.labels:
        yield dep(ALIGNED, partitions.same_pair(config, method))
    by_language = partitions.language_to_pairs(config, method)
    for source in embedding_keys(workspace, encoder):
        if source[-1] != STATES or Need.TOKEN_STATES in needs:
            yield dep(source, by_language)
    if config.utterance_languages:
        of_utterances = partitions.language_to_pairs(config, method, languages=config.utterance_languages)
        for need, table in heads.TABLES.items():
            if need in needs:
                yield dep(table, of_utterances)
    if Need.UTTERANCES in needs and config.trains_on_sentence_pairs and not method.method.labels:
        yield dep(SENTENCE_PAIRS, partitions.pair_to_training_sets(config, method))


def _shown(
    workspace: Workspace, method: MethodConfig, training_set: str, trained: heads.TrainedHead
) -> dict[str, dg.MetadataValue]:
    """The path of the weights, the training curve, and t-SNE and PCA of the embeddings if the method has any."""
    run = trained.run
    place = partial(workspace.plot, run.encoder, run.name, training_set)
    title = f"{run.name} on {run.encoder}\n{training_set}: dev utterances, seed {run.seeds[0]}"
    clouds = cache(lambda: heads.dev_embeddings(workspace, run, method))  # computed once, if a picture is drawn
    drawings = {
        place(name="training_curve"): lambda: training_curve(trained.curve),
        place(name="t_sne"): lambda: tsne(clouds(), title),
        place(name="pca"): lambda: pca(clouds(), title),
    }
    selected = dict(list(drawings.items())[: 3 if method.method.embeddings else 1])
    return {
        **pictures(fingerprint(PICTURES_VERSION, run.inputs, trained.fingerprint), selected),
        "weights": dg.MetadataValue.path(str(heads.head_files(workspace, run).weights)),
    }
