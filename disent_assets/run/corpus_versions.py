"""Compute a version of each language and each language pair from the published files of the corpora, and cache it.

A version is a content hash, recomputed only if a file has changed: an unchanged corpus costs one `stat` per file. Like
git's index, a record has the stamp of each file: path, size, modification and change time, inode. A file rewritten with
the same size within one tick of the clock keeps its stamp. So a hash is recorded only if the files had not changed for
`SETTLED` when hashing began; younger files are hashed every time.
"""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from disent_core.corpora import code_version, outside
from disent_core.corpora.paths import FileStats, file_stats
from disent_core.errors import CorpusError, TableError
from disent_core.lineage.corpora import published_hash, published_name, word_list_hash
from disent_core.lineage.mteb_results import file_hash, mteb_files
from disent_core.lineage.result import CheckResult
from disent_core.lineage.step import READABLE, Source
from disent_core.lineage.steps import FILES, MTEB_FILES, PAIR_FILES, sources
from disent_core.lineage.workspace import MTEB_RESULTS, SENTENCE_PAIRS, UTTERANCES, Key, Workspace
from disent_core.storage.files import may_write, write_text
from disent_core.storage.tables import fingerprint

log = logging.getLogger(__name__)

CODE_VERSION = "2"  # part of every record: change it if a reader computes its hash differently
SETTLED = 2_000_000_000
"""Nanoseconds; the coarsest clock of the file systems in use is FAT's, which ticks every two seconds."""
MAX_FILES = 100_000  # a folder with more files is not recorded


def are_settled(stats: FileStats, now: int) -> bool:
    """Return whether any change after `now`, in nanoseconds, must change a stamp."""
    latest = (max(modified, changed) for _, _, modified, changed, _ in stats)
    return len(stats) <= MAX_FILES and all(moment + SETTLED < now for moment in latest)


class Observer:
    """Hashes the corpora once: takes a hash from the record if no file has changed, or else computes it.

    If the record, a JSON file, is missing or damaged, everything is hashed. The clock gives nanoseconds since 1970.
    """

    def __init__(self, record: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self.record, self.clock = record, clock
        self.recorded = _read(record)
        self.hashes: dict[str, tuple[str, str | None]] = {}
        self.stats: dict[Path, FileStats] = {}

    def hash_of(self, path: Path, name: object, read: Callable[[], str]) -> str | None:
        """Return the hash that `read` computes from a file or folder; None if it can't.

        `name` distinguishes several hashes of one path, and reflects changes outside it.
        """
        if path not in self.stats:
            self.stats[path] = file_stats(path)
        key, before = fingerprint(str(path), name), self.stats[path]
        state = fingerprint(CODE_VERSION, before)
        if (last := self.recorded.get(key)) is not None and last[0] == state:
            self.hashes[key] = last
            return last[1]
        is_settled = are_settled(before, self.clock())
        try:
            content = read()
        except CorpusError as error:
            log.debug("%s", error)
            content = None
        if is_settled and file_stats(path) == before:
            self.hashes[key] = (state, content)
        return content

    def save(self, *, is_complete: bool = True) -> None:
        """Record the hashes; if not everything was hashed, keep the earlier hashes too."""
        hashes = self.hashes if is_complete else self.recorded | self.hashes
        if hashes != self.recorded and may_write(self.record):
            write_text(self.record, json.dumps(hashes, indent=1) + "\n")


def _read(record: Path) -> dict[str, tuple[str, str | None]]:
    try:
        stored = {key: (state, content) for key, (state, content) in json.loads(record.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    is_whole = all(isinstance(state, str) and isinstance(content, str | None) for state, content in stored.values())
    return stored if is_whole else {}


READ_BY = {FILES: UTTERANCES, PAIR_FILES: SENTENCE_PAIRS, MTEB_FILES: MTEB_RESULTS}
"""The table read from each source of published files."""


@dataclass(frozen=True)
class CorpusVersions:
    """Versions of the published files by partition, the unreadable partitions, and whether all were hashed."""

    versions: dict[str, str]
    unreadable: tuple[str, ...]
    is_complete: bool

    @property
    def check(self) -> CheckResult:
        """The result of a source's check."""
        return READABLE.result(not self.unreadable, unreadable=list(self.unreadable), read=len(self.versions))


def read_source(workspace: Workspace, source: Source, *, seconds: float = math.inf) -> CorpusVersions:
    """Return the version of every partition of a source, the hash of what is read from its files.

    Stop after `seconds` of hashing; the next call continues from there, since the workspace caches the hashes.
    """
    observer, until = Observer(record_of(workspace, source.key)), time.monotonic() + seconds
    by_name: dict[str, str | None] = {}
    is_complete = True
    for name in source.partitions:
        if is_complete := time.monotonic() < until:
            by_name[name] = _version(workspace, observer, source.key, name)
        else:
            break
    observer.save(is_complete=is_complete)
    versions = {name: content for name, content in by_name.items() if content is not None}
    return CorpusVersions(versions, tuple(name for name in by_name if name not in versions), is_complete)


def read_sources(workspace: Workspace, *, seconds: float = math.inf) -> dict[Key, CorpusVersions]:
    """Return the versions of all published files, by asset; arguments as in `read_source`."""
    return {source.key: read_source(workspace, source, seconds=seconds) for source in sources(workspace.config)}


def record_of(workspace: Workspace, source: Key) -> Path:
    """Return the path of the recorded hashes of a source."""
    return workspace.home / "cache" / "observed" / f"{READ_BY[source][1]}.json"


def _version(workspace: Workspace, observer: Observer, source: Key, part: str) -> str | None:
    """Return the version of a language, a pair or a source of mteb's results; None if a file of it can't be read."""
    if source == MTEB_FILES:
        return _mteb_version(workspace, observer, part)
    config, of_pairs = workspace.config, source == PAIR_FILES
    hashes = [
        observer.hash_of(
            workspace.corpus_path(corpus.name),
            (
                corpus.format,
                published_name(config, corpus, part),
                *code_version(corpus.format),
                *map(file_stats, outside(corpus.format, workspace.corpus_path(corpus.name))),
            ),
            partial(published_hash, workspace, corpus, part),
        )
        for corpus in (config.corpora_of_sentence_pair(part) if of_pairs else config.corpora_of(part))
    ]
    return None if None in hashes else fingerprint(hashes, *([word_list_hash(workspace, part)] if of_pairs else []))


def _mteb_version(workspace: Workspace, observer: Observer, source: str) -> str | None:
    try:
        files = mteb_files(workspace, source)
    except TableError as error:
        log.debug("%s", error)
        return None
    hashes = [observer.hash_of(path, "mteb", partial(file_hash, path)) for path in files]
    return None if None in hashes else fingerprint([str(path) for path in files], hashes)
