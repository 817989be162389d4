"""What lies at the paths of the corpora: a version of each language and each pair, cheap to look at.

What belongs here: which files a partition is read from. What does not: reading them.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from disent_assets.resources import Workspace
from disent_core.config.sections import CorpusConfig
from disent_core.corpora import pair_reader, reader
from disent_core.corpora.languages import split_codes
from disent_core.corpora.observed import Observer
from disent_core.storage.tables import fingerprint
from disent_core.text import language_part


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
    return None if None in hashes else fingerprint(hashes, words_version(workspace, pair))


def content_hash(workspace: Workspace, corpus: CorpusConfig, language: str) -> str:
    """Hash of what a language of a corpus is read from.

    Raises:
        CorpusError: if it can't be read.
    """
    locale = workspace.config.locales[corpus.name][language]
    return reader(corpus.format).content_hash(workspace.corpus_path(corpus.name), locale)


def pair_hash(workspace: Workspace, corpus: CorpusConfig, pair: str) -> str:
    """Hash of what a pair of a corpus is read from.

    Raises:
        CorpusError: if it can't be read.
    """
    return pair_reader(corpus.format).content_hash(workspace.corpus_path(corpus.name), pair)


def words_version(workspace: Workspace, pair: str) -> str | None:
    """Hash of the word list of a pair, None where there is none."""
    path = word_list(workspace, pair)
    return None if path is None else sha256(path.read_bytes()).hexdigest()


def word_list(workspace: Workspace, pair: str) -> Path | None:
    """The word list with which sentences of a pair are code-switched, None where there is none."""
    folder = workspace.config.targets.code_switching.dictionaries
    left, right = split_codes(pair)
    if folder is None or (left == "en") == (right == "en"):
        return None
    foreign = right if left == "en" else left
    names = [f"{prefix}{code}.txt" for code in (foreign, language_part(foreign)) for prefix in ("", "en-")]
    paths = [workspace.config.resolve(folder) / name for name in names]
    return next((path for path in paths if path.is_file()), None)
