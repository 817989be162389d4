"""Record the versions of the published files as observations of Dagster, without a run."""

import math
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from disent_assets.corpus_versions import CorpusVersions, mteb_versions, pair_versions, record_of, utterance_versions
from disent_assets.stages.corpora import FILES, PAIR_FILES
from disent_assets.stages.evaluation import MTEB_FILES
from disent_core.experiment.workspace import MTEB_RESULTS, SENTENCE_PAIRS, UTTERANCES, Workspace

DATA_VERSION = "dagster/data_version"


def read_versions(workspace: Workspace, *, seconds: float = math.inf) -> dict[dg.AssetKey, CorpusVersions]:
    """The versions of all published files, by asset.

    Args:
        workspace: the workspace whose corpora are hashed.
        seconds: limit of hashing; the next call continues from there.
    """
    versions: dict[dg.AssetKey, CorpusVersions] = {}
    if workspace.config.utterance_languages:
        versions[_in(workspace, FILES.path)] = utterance_versions(workspace, seconds=seconds)
    if workspace.config.pair_names:
        versions[_in(workspace, PAIR_FILES.path)] = pair_versions(workspace, seconds=seconds)
    if workspace.config.mteb.results:
        versions[_in(workspace, MTEB_FILES.path)] = mteb_versions(workspace, seconds=seconds)
    return versions


def _in(workspace: Workspace, key: Sequence[str]) -> dg.AssetKey:
    return dg.AssetKey([*workspace.prefix, *key])


def unreadable_tables(workspace: Workspace) -> set[tuple[dg.AssetKey, str]]:
    """The tables whose published files can't be read, each with the partition."""
    tables = {FILES: UTTERANCES, PAIR_FILES: SENTENCE_PAIRS, MTEB_FILES: MTEB_RESULTS}
    by_files = {_in(workspace, files.path): _in(workspace, table) for files, table in tables.items()}
    return {(by_files[key], name) for key, read in read_versions(workspace).items() for name in read.unreadable}


def observations(
    instance: dg.DagsterInstance, versions: Mapping[dg.AssetKey, CorpusVersions]
) -> Iterator[dg.AssetObservation]:
    """Observations of the partitions whose content differs from the version that Dagster has recorded."""
    for key, read in versions.items():
        recorded = instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_OBSERVATION, [DATA_VERSION]
        )
        for name, version in read.versions.items():
            if recorded.get(name, {}).get(DATA_VERSION) != version:
                yield dg.AssetObservation(key, partition=name, tags={DATA_VERSION: version})


def observe(workspace: Workspace, instance: dg.DagsterInstance, *, hash_again: bool = False) -> None:
    """Record the present versions of the published files.

    Args:
        workspace: the workspace whose corpora are hashed.
        instance: records what has changed.
        hash_again: read every file, also those that have not been touched.
    """
    if hash_again:
        for table in ("utterances", "sentence_pairs", "mteb_results"):
            record_of(workspace, table).unlink(missing_ok=True)
    for event in observations(instance, read_versions(workspace)):
        instance.report_runless_asset_event(event)
