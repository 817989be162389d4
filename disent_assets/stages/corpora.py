"""Assets of the stage `corpora`: published files -> `utterances` and `sentence_pairs`."""

import warnings
from collections.abc import Callable

import dagster as dg

from disent_assets import partitions
from disent_assets.asset_results import user_errors
from disent_assets.corpus_versions import CorpusVersions, pair_versions, utterance_versions
from disent_assets.factory import OWNERS, group_name, prefixed_name, spec, table_asset, table_files
from disent_core.config.model import Config
from disent_core.experiment import corpora
from disent_core.experiment.workspace import SENTENCE_PAIRS, UTTERANCES, Workspace
from disent_core.storage.tables import SCHEMAS, fingerprint

DOWNLOADS = dg.AssetKey(["corpora", "downloads"])
FILES = dg.AssetKey(["corpora", "published_files"])
PAIR_FILES = dg.AssetKey(["corpora", "published_pairs"])


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """The assets of the stage."""
    config = workspace.config
    assets: list[dg.AssetsDefinition | dg.SourceAsset] = []
    if corpora.remote_corpora(config):
        assets.append(downloads_asset(workspace))
    if config.utterance_languages:
        assets += [files_asset(workspace), utterances_asset(workspace)]
    if config.pair_names:
        assets += [pair_files_asset(workspace), sentence_pairs_asset(workspace)]
    return assets


def files_asset(workspace: Workspace) -> dg.AssetsDefinition | dg.SourceAsset:
    """The published files of utterances: an observed asset whose data version is the hash of a language's content."""
    return observed(
        workspace,
        FILES,
        "The corpora as published. A language's data version is the hash of its own content.",
        partitions.utterance_languages(workspace.config),
        lambda: utterance_versions(workspace),
    )


def pair_files_asset(workspace: Workspace) -> dg.AssetsDefinition | dg.SourceAsset:
    """The published files of sentence pairs and of their word lists: an observed asset."""
    return observed(
        workspace,
        PAIR_FILES,
        "The corpora of sentence pairs as published. A pair's data version is the hash of its own content.",
        partitions.sentence_pairs(workspace.config),
        lambda: pair_versions(workspace),
    )


def observed(
    workspace: Workspace,
    key: dg.AssetKey,
    description: str,
    names: dg.StaticPartitionsDefinition,
    versions: Callable[[], CorpusVersions],
) -> dg.AssetsDefinition | dg.SourceAsset:
    """An asset of files that come from elsewhere; `versions` gives the hash of the content of each partition."""
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*observable_source_asset.*")

    @dg.observable_source_asset(  # pyright: ignore[reportCallIssue, reportArgumentType] - tags is not in its overloads
        key=[*workspace.prefix, *key.path],
        group_name=prefixed_name(workspace.prefix, group_name(key.path)),
        partitions_def=names,
        description=description,
        owners=OWNERS,
        tags={"dagster/kind/file": ""},
    )
    def published() -> dg.DataVersionsByPartition:
        return dg.DataVersionsByPartition(versions().versions)

    return published  # pyright: ignore[reportReturnType]


def _published(key: dg.AssetKey, config: Config) -> list[dg.AssetDep]:
    """Dependencies of a table; a corpus with a URL must be downloaded first."""
    return [dg.AssetDep(key), *([dg.AssetDep(DOWNLOADS)] if corpora.remote_corpora(config) else [])]


def downloads_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """The corpora with a URL in the configuration, downloaded."""
    remote = corpora.remote_corpora(workspace.config)

    @dg.asset(
        key=DOWNLOADS,
        group_name="corpora",
        description="Archives named by URL in the configuration, checked by size and SHA-256.",
        code_version=fingerprint([corpus.url for corpus in remote], [corpus.sha256 for corpus in remote])[:12],
        kinds={"file"},
        owners=OWNERS,
    )
    def downloads() -> dg.MaterializeResult:
        with user_errors():
            sizes = corpora.download(workspace)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(fingerprint(sizes)),
            metadata={f"{name}_megabytes": size / 1e6 for name, size in sizes.items()},
        )

    return downloads


def utterances_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """The utterances: one partition a language, one file a corpus."""
    config = workspace.config
    return table_asset(
        spec(
            UTTERANCES,
            "Utterances as published, split into tokens with BIO slot tags. One row an utterance.",
            code_version=corpora.utterances_version(config)[:12],
            deps=_published(FILES, config),
            schema=SCHEMAS["utterances"],
            stored=table_files(workspace, UTTERANCES),
        ),
        lambda language: corpora.refresh_utterances(workspace, language),
        partitions=partitions.utterance_languages(config),
        checks=[corpora.UNIQUE_UTTERANCES, corpora.TAGGED_TOKENS, corpora.ALL_SPLITS],
        workspace=workspace,
    )


def sentence_pairs_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """The sentence pairs: one partition a language pair, one file a corpus."""
    config = workspace.config
    return table_asset(
        spec(
            SENTENCE_PAIRS,
            "Pairs of sentences as published: translations, some with a gold similarity or quality. One row a pair.",
            code_version=corpora.sentence_pairs_version(config)[:12],
            deps=_published(PAIR_FILES, config),
            schema=SCHEMAS["sentence_pairs"],
            stored=table_files(workspace, SENTENCE_PAIRS),
        ),
        lambda pair: corpora.refresh_sentence_pairs(workspace, pair),
        partitions=partitions.sentence_pairs(config),
        checks=[corpora.UNIQUE_PAIRS, corpora.SPLITS_APART],
        workspace=workspace,
    )
