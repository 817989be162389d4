"""Assets of the stage `heads`: aligned pairs x embeddings x method -> weights and training curve of every seed."""

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import dagster as dg

from disent_assets import partitions
from disent_assets.asset_results import pictures
from disent_assets.factory import Stored, dep, spec, table_asset
from disent_assets.placement import COMPUTING, FINE_TUNING, SMALL, on_device, on_processor
from disent_assets.stages.embeddings import embedding_keys
from disent_core.config.model import MethodConfig
from disent_core.experiment import gates, heads
from disent_core.experiment.keys import head_key, training_data_key
from disent_core.experiment.workspace import ALIGNED, MATES, Workspace
from disent_core.methods import described
from disent_core.report import PICTURES_VERSION
from disent_core.report.clouds import pca, tsne
from disent_core.report.curves import training_curve
from disent_core.storage.tables import fingerprint
from disent_core.training.needs import Need

if TYPE_CHECKING:
    from disent_core.experiment.training import TrainedHead

_SEARCH = "disent index TEXTS.txt INDEX --head {head} && disent serve INDEX"


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """The assets of the stage: for each encoder a gate, and a head for each trained method."""
    assets = []
    for encoder in workspace.config.encoders:
        if methods := gates.trained_methods(workspace.config, encoder):
            assets.append(_training_data(workspace, encoder, methods))
            assets += [_head(workspace, encoder, method, methods) for method in methods]
    return assets


def _training_data(workspace: Workspace, encoder: str, methods: Sequence[MethodConfig]) -> dg.AssetsDefinition:
    """The gate: the only asset of the group that depends on other groups, and the one parent of every head.

    So the group can be materialised for one training set, whichever training sets its methods have.
    """
    config = workspace.config
    by_language = partitions.language_to_pairs(config, methods)
    deps = [dep(ALIGNED, partitions.same_pair(config, methods))]
    needs = frozenset().union(*(method.needs for method in methods))
    if Need.PARALLEL_MATES in needs:
        deps.append(dep(MATES, partitions.same_pair(config, methods)))
    deps += [dep(key, by_language) for key in embedding_keys(workspace, encoder)]
    if config.utterance_languages:
        of_utterances = partitions.language_to_pairs(config, methods, languages=config.utterance_languages)
        deps += [dep(table, of_utterances) for need, table in heads.TABLES.items() if need in needs]
    return table_asset(
        spec(
            training_data_key(encoder),
            f"What the heads on `{encoder}` read of a training set. Nothing is made: while the content stays the "
            "same, no head is stale.",
            code_version=gates.CODE_VERSION,
            deps=deps,
            kinds={"python"},
        ),
        lambda training_set: gates.training_data(workspace, encoder, training_set),
        partitions=partitions.pairs(config, methods),
        place=on_processor(SMALL),
        workspace=workspace,
    )


def _head(
    workspace: Workspace, encoder: str, method: MethodConfig, methods: Sequence[MethodConfig]
) -> dg.AssetsDefinition:
    config = workspace.config
    return table_asset(
        spec(
            head_key(encoder, method.name),
            f"{described(method.base)}\n\nMethod `{method.method.name}`, "
            f"seeds {list(config.seeds_of(method))}, trained on the embeddings of `{encoder}`.",
            code_version=heads.version(method),
            deps=[dep(training_data_key(encoder), partitions.same_pair(config, [method], methods))],
            kinds={"pytorch", "safetensors"},
            stored=Stored(workspace.home / "heads" / encoder / method.name, "safetensors"),
            method=method.name,
        ),
        partial(_train, workspace, encoder, method),
        partitions=partitions.pairs(config, [method]),
        checks=[heads.CONVERGED],
        place=on_device(config, FINE_TUNING if Need.ENCODER in method.needs else COMPUTING),
        show=partial(_shown, workspace, method),
        workspace=workspace,
    )


def _train(workspace: Workspace, encoder: str, method: MethodConfig, training_set: str) -> "TrainedHead":
    from disent_core.experiment.training import train  # loads torch

    return train(workspace, encoder, method, training_set)


def _shown(
    workspace: Workspace, method: MethodConfig, training_set: str, trained: "TrainedHead"
) -> dict[str, dg.MetadataValue]:
    """The path of the weights and the training curve; if the method embeds, t-SNE, PCA, and how to search with it."""
    from disent_core.experiment.training import dev_embeddings

    run = trained.run
    is_searched = method.method.embeddings and not method.method.is_transductive(method.settings)
    head = f"{run.name}@{run.encoder}:{training_set}"
    place = partial(workspace.plot, run.encoder, run.name, training_set)
    title = f"{run.name} on {run.encoder}\n{training_set}: dev utterances, seed {run.seeds[0]}"
    clouds = cache(lambda: dev_embeddings(workspace, run, method))  # computed once, if a picture is drawn
    drawings = {
        place(name="training_curve"): lambda: training_curve(trained.curve),
        place(name="t_sne"): lambda: tsne(clouds(), title),
        place(name="pca"): lambda: pca(clouds(), title),
    }
    selected = dict(list(drawings.items())[: 3 if method.method.embeddings else 1])
    return {
        **pictures(workspace.plots, fingerprint(PICTURES_VERSION, run.inputs, trained.fingerprint), selected),
        "weights": dg.MetadataValue.path(str(heads.head_files(workspace, run).weights)),
        **({"search": dg.MetadataValue.text(_SEARCH.format(head=head))} if is_searched else {}),
    }
