"""What lies at the paths of the corpora: a version of each language and each pair, cheap to look at.

A version is a content hash, which is taken again only where a file has moved: looking at an unchanged corpus costs
stats alone. As git's index does, a record holds what `stat` says of each file: size, times of the content and of the
entry, inode. A file may be rewritten at the same size within one tick of the clock, and no `stat` tells. So a record
is only kept of files that had lain still for `SETTLED` when their hash was begun, and hashes of younger ones are taken
every time.
"""

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from disent_core.errors import CorpusError
from disent_core.experiment.corpora import content_hash, pair_hash, word_list_hash
from disent_core.experiment.workspace import Workspace
from disent_core.storage.atomic import write_text
from disent_core.storage.tables import fingerprint

log = logging.getLogger(__name__)

CODE_VERSION = "1"
"""Part of every record: raise it when a reader hashes otherwise."""
SETTLED = 2_000_000_000
"""Nanoseconds; the coarsest clock of a file system in use, FAT's, ticks every two seconds."""
MAX_FILES = 100_000
"""Of a folder with more, nothing is recorded."""

Stamps = list[tuple[str, int, int, int, int]]
"""Of every file: path, size, times of content and entry in nanoseconds, inode."""


# --- hashes, kept while no file moves ----------------------------------------------------------------------


def stamps(path: Path) -> Stamps:
    """What `stat` says of a file, or of every file below a folder, sorted; nothing where there is none.

    Links are followed to files but not to folders.
    """
    found = [path] if path.is_file() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sorted(stamp for file in found if (stamp := _stamp(file)) is not None)


def _stamp(file: Path) -> tuple[str, int, int, int, int] | None:
    try:
        found = file.stat()
    except OSError:  # it went away just now, or is a link to nothing
        return None
    return str(file), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def are_settled(of: Stamps, now: int) -> bool:
    """Whether a change from `now` on, in nanoseconds, must show in the stamps."""
    return len(of) <= MAX_FILES and all(max(changed, entered) + SETTLED < now for _, _, changed, entered, _ in of)


class Observer:
    """One look at corpora: hashes from the record where nothing has moved, and taken anew where something has.

    Args:
        record: JSON file of what was seen last; where it is missing or damaged everything is hashed.
        clock: nanoseconds since 1970, of the same clock as that of the files.
    """

    def __init__(self, record: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self.record, self.clock = record, clock
        self.known = _read(record)
        self.seen: dict[str, tuple[str, str | None]] = {}
        self.trees: dict[Path, Stamps] = {}

    def hash_of(self, path: Path, name: object, read: Callable[[], str]) -> str | None:
        """The hash of what is read under a name from a path; None where it can't be read.

        Args:
            path: file or folder; nothing outside it may have a say in the hash.
            name: whatever tells hashes of one path apart.
            read: takes the hash, or raises a CorpusError.
        """
        key, before = fingerprint(str(path), name), self._stamps(path)
        state = fingerprint(CODE_VERSION, before)
        if (last := self.known.get(key)) is not None and last[0] == state:
            self.seen[key] = last
            return last[1]
        is_settled, found = are_settled(before, self.clock()), _hash(read)
        if is_settled and stamps(path) == before:
            self.seen[key] = (state, found)
        return found

    def _stamps(self, path: Path) -> Stamps:
        """Of a path, once a look."""
        if path not in self.trees:
            self.trees[path] = stamps(path)
        return self.trees[path]

    def save(self, *, is_whole: bool = True) -> None:
        """Keep what was seen for the next look; after a look that was broken off, besides what is known."""
        kept = self.seen if is_whole else self.known | self.seen
        if kept != self.known:
            write_text(self.record, json.dumps(kept, indent=1) + "\n")


def _hash(read: Callable[[], str]) -> str | None:
    try:
        return read()
    except CorpusError as error:
        log.debug("%s", error)
        return None


def _read(record: Path) -> dict[str, tuple[str, str | None]]:
    try:
        return dict(_entries(json.loads(record.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _entries(stored: dict[str, list[str | None]]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    for key, (state, content) in stored.items():
        if not isinstance(state, str) or not isinstance(content, str | None):
            raise TypeError(f"{state!r}, {content!r}")
        yield key, (state, content)


# --- versions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What one look has found: versions by partition, what can't be read, whether it came to its end."""

    versions: dict[str, str]
    unreadable: tuple[str, ...]
    is_whole: bool


def look_at_utterances(workspace: Workspace, *, seconds: float = math.inf) -> Look:
    """A version of every language: the hash of what its utterances are read from.

    Args:
        workspace: whose corpora are looked at; it keeps what was seen.
        seconds: of hashing after which the look is broken off; the next one goes on from there.
    """
    return _look(workspace, "utterances", workspace.config.utterance_languages, _source_version, seconds)


def look_at_pairs(workspace: Workspace, *, seconds: float = math.inf) -> Look:
    """A version of every pair: the hash of its sentences and its word list; arguments as `look_at_utterances`."""
    return _look(workspace, "sentence_pairs", workspace.config.pair_names, _pair_version, seconds)


def record_of(workspace: Workspace, table: str) -> Path:
    """Where it is kept what was seen of the files of a table."""
    return workspace.home / "cache" / "observed" / f"{table}.json"


def _look(
    workspace: Workspace,
    table: str,
    names: Iterable[str],
    version: Callable[[Workspace, Observer, str], str | None],
    seconds: float,
) -> Look:
    observer, until = Observer(record_of(workspace, table)), time.monotonic() + seconds
    found: dict[str, str | None] = {}
    is_whole = True
    for name in names:
        if is_whole := time.monotonic() < until:
            found[name] = version(workspace, observer, name)
        else:
            break
    observer.save(is_whole=is_whole)
    versions = {name: content for name, content in found.items() if content is not None}
    return Look(versions, tuple(name for name in found if name not in versions), is_whole)


def _source_version(workspace: Workspace, observer: Observer, language: str) -> str | None:
    hashes = [
        observer.hash_of(
            workspace.corpus_path(corpus.name),
            (corpus.format, workspace.config.locales[corpus.name][language]),
            partial(content_hash, workspace, corpus, language),
        )
        for corpus in workspace.config.corpora_of(language)
    ]
    return None if None in hashes else fingerprint(hashes)


def _pair_version(workspace: Workspace, observer: Observer, pair: str) -> str | None:
    hashes = [
        observer.hash_of(
            workspace.corpus_path(corpus.name), (corpus.format, pair), partial(pair_hash, workspace, corpus, pair)
        )
        for corpus in workspace.config.corpora_of_sentence_pair(pair)
    ]
    return None if None in hashes else fingerprint(hashes, word_list_hash(workspace, pair))
