"""Stage `corpora`: files as published -> `utterances`.

What belongs here: which file makes which partition. What does not: how a format is read.
"""

import logging
import warnings
from collections.abc import Iterator

import dagster as dg

from disent_assets import partitions
from disent_assets.checks import utterance_checks, utterance_results
from disent_assets.report import OWNERS, clear_errors, materialized, spec
from disent_assets.resources import Workspace
from disent_core.config_sections import CorpusConfig
from disent_core.corpora import reader
from disent_core.corpora.download import fetch
from disent_core.errors import CorpusError
from disent_core.tables import SCHEMAS, Refreshed, fingerprint, refresh_table

log = logging.getLogger(__name__)

CODE_VERSION = "1"
FILES = dg.AssetKey(["corpora", "published_files"])
UTTERANCES = ["corpora", "utterances"]


def definitions(workspace: Workspace) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """Assets of the stage."""
    downloads = [downloads_asset(workspace)] if any(corpus.url for corpus in workspace.config.corpora) else []
    return [files_asset(workspace), *downloads, utterances_asset(workspace)]


def files_asset(workspace: Workspace) -> dg.AssetsDefinition | dg.SourceAsset:
    """The published files, observed: their data version is the hash of each language's content."""

    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*observable_source_asset.*")

    @dg.observable_source_asset(  # pyright: ignore[reportCallIssue, reportArgumentType] - tags is not in its overloads
        key=FILES,
        group_name="corpora",
        partitions_def=partitions.languages(workspace.config),
        description="The corpora as published. A language's data version is the hash of its own content.",
        owners=OWNERS,
        tags={"dagster/kind/file": ""},
    )
    def published_files() -> dg.DataVersionsByPartition:
        versions = {language: source_version(workspace, language) for language in workspace.config.languages}
        return dg.DataVersionsByPartition({key: version for key, version in versions.items() if version})

    return published_files  # pyright: ignore[reportReturnType]


def source_version(workspace: Workspace, language: str) -> str | None:
    """Hash of what a language is read from; None where it can't be read, which its own step then tells."""
    try:
        return fingerprint(
            [_content_hash(workspace, corpus, language) for corpus in workspace.config.corpora_of(language)]
        )
    except CorpusError as error:
        log.debug("%s", error)
        return None


def _content_hash(workspace: Workspace, corpus: CorpusConfig, language: str) -> str:
    locale = workspace.config.locales[corpus.name][language]
    return reader(corpus.format).content_hash(workspace.corpus_path(corpus.name), locale)


def downloads_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """Corpora that the configuration names by URL."""
    remote = [corpus for corpus in workspace.config.corpora if corpus.url]

    @dg.asset(
        key=["corpora", "downloads"],
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
                fetch(corpus.url, workspace.corpus_path(corpus.name), sha256=corpus.sha256, size=corpus.size)
        sizes = {corpus.name: workspace.corpus_path(corpus.name).stat().st_size for corpus in remote}
        return dg.MaterializeResult(
            data_version=dg.DataVersion(fingerprint(sizes)),
            metadata={f"{name}_megabytes": size / 1e6 for name, size in sizes.items()},
        )

    return downloads


def utterances_asset(workspace: Workspace) -> dg.AssetsDefinition:
    """One partition a language, one file a corpus."""
    config = workspace.config
    downloads = [dg.AssetDep(["corpora", "downloads"])] if any(corpus.url for corpus in config.corpora) else []
    corpora = [(corpus.name, corpus.format, config.locales[corpus.name]) for corpus in config.corpora]

    @dg.multi_asset(
        name="corpora__utterances",
        specs=[
            spec(
                UTTERANCES,
                "Utterances as published, split into tokens with BIO slot tags. One row an utterance.",
                code_version=fingerprint(CODE_VERSION, corpora)[:12],
                kinds={"parquet"},
                deps=[dg.AssetDep(FILES), *downloads],
                schema=SCHEMAS["utterances"],
            )
        ],
        partitions_def=partitions.languages(config),
        check_specs=utterance_checks(UTTERANCES),
    )
    def utterances(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        language = context.partition_key
        with clear_errors():
            refreshed = [_refresh(workspace, corpus, language) for corpus in config.corpora_of(language)]
        paths = [workspace.table(*UTTERANCES, corpus.name, language) for corpus in config.corpora_of(language)]
        yield materialized(refreshed, key=UTTERANCES, checks=utterance_results(UTTERANCES, paths))

    return utterances


def _refresh(workspace: Workspace, corpus: CorpusConfig, language: str) -> Refreshed:
    path = workspace.corpus_path(corpus.name)
    locale = workspace.config.locales[corpus.name][language]
    return refresh_table(
        workspace.table(*UTTERANCES, corpus.name, language),
        SCHEMAS["utterances"],
        inputs=fingerprint(CODE_VERSION, corpus.format, locale, _content_hash(workspace, corpus, language)),
        make=lambda: reader(corpus.format).read_utterances(path, locale, corpus=corpus.name, language=language),
    )
