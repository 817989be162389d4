"""Stage `corpora`: files as published -> `utterances` and `sentence_pairs`.

What belongs here: which file makes which partition. What does not: how a format is read.
"""

import warnings
from collections.abc import Callable, Iterator

import dagster as dg
import pyarrow as pa

from disent_assets import partitions
from disent_assets.asset_results import OWNERS, clear_errors, materialized, spec
from disent_assets.checks import pair_checks, pair_results, utterance_checks, utterance_results
from disent_assets.corpus_versions import Look, content_hash, look_at_pairs, look_at_utterances, pair_hash
from disent_assets.resources import Workspace
from disent_core.config.load import Config
from disent_core.config.sections import CorpusConfig
from disent_core.corpora import pair_reader, reader
from disent_core.corpora.download import fetch
from disent_core.corpora.splits import draw_splits, limited
from disent_core.storage.tables import SCHEMAS, Refreshed, fingerprint, refresh_table

CODE_VERSION = "1"
DOWNLOADS = dg.AssetKey(["corpora", "downloads"])
FILES = dg.AssetKey(["corpora", "published_files"])
PAIR_FILES = dg.AssetKey(["corpora", "published_pairs"])
UTTERANCES = ["corpora", "utterances"]
SENTENCE_PAIRS = ["corpora", "sentence_pairs"]


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """Assets of the stage."""
    config = workspace.config
    assets: list[dg.AssetsDefinition | dg.SourceAsset] = []
    if _downloads(config):
        assets.append(downloads_asset(workspace))
    if config.utterance_languages:
        assets += [files_asset(workspace), utterances_asset(workspace)]
    if config.pair_names:
        assets += [pair_files_asset(workspace), sentence_pairs_asset(workspace)]
    return assets


def files_asset(workspace: Workspace) -> dg.AssetsDefinition | dg.SourceAsset:
    """The published files of utterances, observed: their data version is the hash of each language's content."""
    return _observed(
        FILES,
        "The corpora as published. A language's data version is the hash of its own content.",
        partitions.utterance_languages(workspace.config),
        lambda: look_at_utterances(workspace),
    )


def pair_files_asset(workspace: Workspace) -> dg.AssetsDefinition | dg.SourceAsset:
    """The published files of sentence pairs, and the word lists that are used on them."""
    return _observed(
        PAIR_FILES,
        "The corpora of sentence pairs as published. A pair's data version is the hash of its own content.",
        partitions.sentence_pairs(workspace.config),
        lambda: look_at_pairs(workspace),
    )


def _observed(
    key: dg.AssetKey, description: str, names: dg.StaticPartitionsDefinition, look: Callable[[], Look]
) -> dg.AssetsDefinition | dg.SourceAsset:
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*observable_source_asset.*")

    @dg.observable_source_asset(  # pyright: ignore[reportCallIssue, reportArgumentType] - tags is not in its overloads
        key=key,
        group_name="corpora",
        partitions_def=names,
        description=description,
        owners=OWNERS,
        tags={"dagster/kind/file": ""},
    )
    def published() -> dg.DataVersionsByPartition:
        return dg.DataVersionsByPartition(look().versions)

    return published  # pyright: ignore[reportReturnType]


def _downloads(config: Config) -> list[dg.AssetDep]:
    """What readers wait for where a corpus is named by URL."""
    return [dg.AssetDep(DOWNLOADS)] if any(corpus.url for corpus in config.corpora) else []


def downloads_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """Corpora that the configuration names by URL."""
    remote = [corpus for corpus in workspace.config.corpora if corpus.url]

    @dg.asset(
        key=DOWNLOADS,
        group_name="corpora",
        description="Archives named by URL in the configuration, checked by size and SHA-256.",
        code_version=fingerprint([corpus.url for corpus in remote], [corpus.sha256 for corpus in remote])[:12],
        kinds={"file"},
        owners=OWNERS,
    )
    def downloads() -> dg.MaterializeResult:
        with clear_errors():
            for corpus in remote:
                assert corpus.url is not None  # that is what makes it remote
                path = workspace.corpus_path(corpus.name)
                if corpus.path is None or not path.exists():  # what the user has put at `path` is used as it is
                    fetch(corpus.url, path, sha256=corpus.sha256, size=corpus.size)
        sizes = {corpus.name: workspace.corpus_path(corpus.name).stat().st_size for corpus in remote}
        return dg.MaterializeResult(
            data_version=dg.DataVersion(fingerprint(sizes)),
            metadata={f"{name}_megabytes": size / 1e6 for name, size in sizes.items()},
        )

    return downloads


def utterances_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """One partition a language, one file a corpus."""
    config = workspace.config
    corpora = [
        (corpus.name, corpus.format, config.locales[corpus.name]) for corpus in config.corpora if not corpus.is_of_pairs
    ]

    @dg.multi_asset(
        name="corpora__utterances",
        specs=[
            spec(
                UTTERANCES,
                "Utterances as published, split into tokens with BIO slot tags. One row an utterance.",
                code_version=fingerprint(CODE_VERSION, corpora)[:12],
                kinds={"parquet"},
                deps=[dg.AssetDep(FILES), *_downloads(config)],
                schema=SCHEMAS["utterances"],
            )
        ],
        partitions_def=partitions.utterance_languages(config),
        check_specs=utterance_checks(UTTERANCES),
    )
    def utterances(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        language = context.partition_key
        with clear_errors():
            refreshed = [_refresh(workspace, corpus, language) for corpus in config.corpora_of(language)]
            paths = [workspace.table(*UTTERANCES, corpus.name, language) for corpus in config.corpora_of(language)]
            checks = utterance_results(UTTERANCES, paths)
        yield materialized(refreshed, key=UTTERANCES, checks=checks)

    return utterances


def _refresh(workspace: Workspace, corpus: CorpusConfig, language: str) -> Refreshed:
    path = workspace.corpus_path(corpus.name)
    locale = workspace.config.locales[corpus.name][language]
    return refresh_table(
        workspace.table(*UTTERANCES, corpus.name, language),
        SCHEMAS["utterances"],
        inputs=fingerprint(
            CODE_VERSION, corpus.format, locale, content_hash(workspace, corpus, language), *_taken(corpus)
        ),
        make=lambda: _prepared(
            reader(corpus.format).read_utterances(path, locale, corpus=corpus.name, language=language), corpus
        ),
    )


def _taken(corpus: CorpusConfig) -> tuple[object, ...]:
    """What the configuration takes of it, where that is not everything as published."""
    return (corpus.limit, corpus.shares) if corpus.limit or corpus.shares else ()


def _prepared(table: pa.Table, corpus: CorpusConfig) -> pa.Table:
    if corpus.shares is not None:
        table = draw_splits(table, corpus.shares)
    return limited(table, corpus.limit)


def sentence_pairs_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """One partition a pair, one file a corpus."""
    config = workspace.config
    corpora = [(corpus.name, corpus.format, *_taken(corpus)) for corpus in config.corpora if corpus.is_of_pairs]

    @dg.multi_asset(
        name="corpora__sentence_pairs",
        specs=[
            spec(
                SENTENCE_PAIRS,
                "Pairs of sentences as published: translations, some with a gold similarity or quality. "
                "One row a pair.",
                code_version=fingerprint(CODE_VERSION, corpora)[:12],
                kinds={"parquet"},
                deps=[dg.AssetDep(PAIR_FILES), *_downloads(config)],
                schema=SCHEMAS["sentence_pairs"],
            )
        ],
        partitions_def=partitions.sentence_pairs(config),
        check_specs=pair_checks(SENTENCE_PAIRS),
    )
    def sentence_pairs(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        pair = context.partition_key
        corpora = config.corpora_of_sentence_pair(pair)
        with clear_errors():
            refreshed = [_refresh_pairs(workspace, corpus, pair) for corpus in corpora]
            paths = [workspace.table(*SENTENCE_PAIRS, corpus.name, pair) for corpus in corpora]
            checks = pair_results(SENTENCE_PAIRS, paths)
        yield materialized(refreshed, key=SENTENCE_PAIRS, checks=checks)

    return sentence_pairs


def _refresh_pairs(workspace: Workspace, corpus: CorpusConfig, pair: str) -> Refreshed:
    path = workspace.corpus_path(corpus.name)
    return refresh_table(
        workspace.table(*SENTENCE_PAIRS, corpus.name, pair),
        SCHEMAS["sentence_pairs"],
        inputs=fingerprint(CODE_VERSION, corpus.format, pair, pair_hash(workspace, corpus, pair), *_taken(corpus)),
        make=lambda: _prepared(pair_reader(corpus.format).read_pairs(path, pair, corpus=corpus.name), corpus),
    )
