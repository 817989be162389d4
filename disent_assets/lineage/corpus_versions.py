"""Compute a version of each language and each language pair from the published files of the corpora, and cache it.

A version is a content hash. It is computed again only if a file has changed: an unchanged corpus costs one `stat` a
file. Like git's index, a record holds the stamp of each file: path, size, modification and change time, inode. A file
that is rewritten at the same size within one tick of the clock keeps its stamp. So a hash is recorded only if the files
had not changed for `SETTLED` when hashing began; younger files are hashed every time.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from disent_core.corpora import code_version
from disent_core.corpora.stamps import Stamps, stamps
from disent_core.errors import CorpusError, TableError
from disent_core.experiment.corpora import content_hash, pair_hash, word_list_hash
from disent_core.experiment.mteb_results import file_hash, mteb_files
from disent_core.experiment.workspace import Workspace
from disent_core.storage.atomic import may_write, write_text
from disent_core.storage.tables import fingerprint

log = logging.getLogger(__name__)

CODE_VERSION = "2"
"""Part of every record: raise it if a reader computes its hash differently."""
SETTLED = 2_000_000_000
"""Nanoseconds; the coarsest clock of the file systems in use is FAT's, which ticks every two seconds."""
MAX_FILES = 100_000
"""Nothing is recorded of a folder with more files."""


# --- hashes, cached while no file changes ------------------------------------------------------------------


def are_settled(file_stamps: Stamps, now: int) -> bool:
    """Whether every change after `now`, in nanoseconds, must change a stamp."""
    latest = (max(modified, changed) for _, _, modified, changed, _ in file_stamps)
    return len(file_stamps) <= MAX_FILES and all(moment + SETTLED < now for moment in latest)


class Observer:
    """Hashes the corpora once: takes a hash from the record if no file has changed, and computes it otherwise.

    Args:
        record: JSON file of the last hashes; if it is missing or damaged, everything is hashed.
        clock: returns nanoseconds since 1970, by the clock of the file system.
    """

    def __init__(self, record: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self.record, self.clock = record, clock
        self.recorded = _read(record)
        self.hashes: dict[str, tuple[str, str | None]] = {}
        self.stamps: dict[Path, Stamps] = {}

    def hash_of(self, path: Path, name: object, read: Callable[[], str]) -> str | None:
        """The hash of what `read` reads from a path; None if it can't be read.

        Args:
            path: file or folder; the hash may depend on nothing outside it.
            name: distinguishes several hashes of one path.
            read: computes the hash, or raises a CorpusError.
        """
        key, before = fingerprint(str(path), name), self._stamps(path)
        state = fingerprint(CODE_VERSION, before)
        if (last := self.recorded.get(key)) is not None and last[0] == state:
            self.hashes[key] = last
            return last[1]
        is_settled, content = are_settled(before, self.clock()), _hash(read)
        if is_settled and stamps(path) == before:
            self.hashes[key] = (state, content)
        return content

    def _stamps(self, path: Path) -> Stamps:
        """The stamps of a path, which are read once."""
        if path not in self.stamps:
            self.stamps[path] = stamps(path)
        return self.stamps[path]

    def save(self, *, is_complete: bool = True) -> None:
        """Record the hashes; if not everything was hashed, keep the earlier hashes too."""
        hashes = self.hashes if is_complete else self.recorded | self.hashes
        if hashes != self.recorded and may_write(self.record):
            write_text(self.record, json.dumps(hashes, indent=1) + "\n")


def _hash(read: Callable[[], str]) -> str | None:
    try:
        return read()
    except CorpusError as error:
        log.debug("%s", error)
        return None


def _read(record: Path) -> dict[str, tuple[str, str | None]]:
    try:
        return dict(_checked(json.loads(record.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _checked(stored: dict[str, list[str | None]]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    for key, (state, content) in stored.items():
        if not isinstance(state, str) or not isinstance(content, str | None):
            raise TypeError(f"{state!r}, {content!r}")
        yield key, (state, content)


# --- versions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CorpusVersions:
    """Versions of the published files: by partition, which partitions can't be read, and whether all were hashed."""

    versions: dict[str, str]
    unreadable: tuple[str, ...]
    is_complete: bool


def utterance_versions(workspace: Workspace, *, seconds: float = math.inf) -> CorpusVersions:
    """The version of every language: the hash of the files that its utterances are read from.

    Args:
        workspace: the workspace whose corpora are hashed; its cache keeps the hashes.
        seconds: limit of hashing; the next call continues from there.
    """
    return _versions(workspace, "utterances", workspace.config.utterance_languages, _utterance_version, seconds)


def pair_versions(workspace: Workspace, *, seconds: float = math.inf) -> CorpusVersions:
    """The version of every pair: the hash of its sentences and its word list; arguments as `utterance_versions`."""
    return _versions(workspace, "sentence_pairs", workspace.config.pair_names, _pair_version, seconds)


def mteb_versions(workspace: Workspace, *, seconds: float = math.inf) -> CorpusVersions:
    """The version of every folder of mteb's results: the hash of the files that are read; arguments as above."""
    return _versions(workspace, "mteb_results", workspace.config.mteb.results, _mteb_version, seconds)


def record_of(workspace: Workspace, table: str) -> Path:
    """Path of the recorded hashes of the files that a table is read from."""
    return workspace.home / "cache" / "observed" / f"{table}.json"


def _versions(
    workspace: Workspace,
    table: str,
    names: Iterable[str],
    version: Callable[[Workspace, Observer, str], str | None],
    seconds: float,
) -> CorpusVersions:
    observer, until = Observer(record_of(workspace, table)), time.monotonic() + seconds
    by_name: dict[str, str | None] = {}
    is_complete = True
    for name in names:
        if is_complete := time.monotonic() < until:
            by_name[name] = version(workspace, observer, name)
        else:
            break
    observer.save(is_complete=is_complete)
    versions = {name: content for name, content in by_name.items() if content is not None}
    return CorpusVersions(versions, tuple(name for name in by_name if name not in versions), is_complete)


def _utterance_version(workspace: Workspace, observer: Observer, language: str) -> str | None:
    hashes = [
        observer.hash_of(
            workspace.corpus_path(corpus.name),
            (corpus.format, workspace.config.locales[corpus.name][language], *code_version(corpus.format)),
            partial(content_hash, workspace, corpus, language),
        )
        for corpus in workspace.config.corpora_of(language)
    ]
    return None if None in hashes else fingerprint(hashes)


def _pair_version(workspace: Workspace, observer: Observer, pair: str) -> str | None:
    hashes = [
        observer.hash_of(
            workspace.corpus_path(corpus.name),
            (corpus.format, pair, *code_version(corpus.format)),
            partial(pair_hash, workspace, corpus, pair),
        )
        for corpus in workspace.config.corpora_of_sentence_pair(pair)
    ]
    return None if None in hashes else fingerprint(hashes, word_list_hash(workspace, pair))


def _mteb_version(workspace: Workspace, observer: Observer, source: str) -> str | None:
    try:
        files = mteb_files(workspace, source)
    except TableError as error:
        log.debug("%s", error)
        return None
    hashes = [observer.hash_of(path, "mteb", partial(file_hash, path)) for path in files]
    return None if None in hashes else fingerprint([str(path) for path in files], hashes)
