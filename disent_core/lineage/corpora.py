"""Stage `corpora`: read published files into the tables `utterances` and `sentence_pairs`."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.config.model import Config
from disent_core.config.sections import CorpusConfig
from disent_core.corpora import READERS, code_version, pair_reader, reader
from disent_core.corpora.download import fetch
from disent_core.corpora.faults import faults_of
from disent_core.corpora.languages import split_codes
from disent_core.corpora.lines import read_bytes
from disent_core.corpora.stamps import Stamps, stamps
from disent_core.errors import CorpusError, located
from disent_core.experiment.result import Check, CheckResult, StepResult, result_of
from disent_core.experiment.workspace import SENTENCE_PAIRS, UTTERANCES, Workspace
from disent_core.storage.remote import remote_of
from disent_core.storage.tables import SCHEMAS, RefreshResult, fingerprint, read_table, refresh_table
from disent_core.text import language_part

if TYPE_CHECKING:
    import polars as pl

CODE_VERSION = "1"
READ_ATTEMPTS = 3
"""How often a corpus is read while its files change around the one that is read."""

UNIQUE_UTTERANCES = Check("ids_are_unique", "No utterance id occurs twice in a corpus and language.", True)
TAGGED_TOKENS = Check("tags_match_tokens", "Every token has one slot tag.", True)
ALL_SPLITS = Check("every_split_has_rows", "Each of train, dev and test has rows.", False)
UNIQUE_PAIRS = Check("ids_are_unique", "No pair id occurs twice in a corpus.", True)
SPLITS_APART = Check("no_sentence_is_in_two_splits", "No training sentence is also in dev or test.", False)


# --- downloads --------------------------------------------------------------------------------------------


def remote_corpora(config: Config) -> list[CorpusConfig]:
    """Corpora that the configuration gives by URL."""
    return [corpus for corpus in config.corpora if corpus.url]


def due(workspace: Workspace) -> list[str]:
    """Names of the corpora to download; not those that the user has put at their `path`, which are not replaced."""
    remote = remote_corpora(workspace.config)
    return [one.name for one in remote if one.path is None or not workspace.corpus_path(one.name).exists()]


def download(workspace: Workspace) -> dict[str, int]:
    """Download the archives that are given by URL and are not on disk yet; return their bytes by corpus.

    Raises:
        CorpusError: if a download fails, or its size or hash is not that of the configuration.
    """
    sizes = {}
    absent = due(workspace)
    for corpus in remote_corpora(workspace.config):
        assert corpus.url is not None  # remote corpora have a URL
        path = workspace.corpus_path(corpus.name)
        if corpus.name in absent:
            fetch(corpus.url, path, sha256=corpus.sha256, size=corpus.size)
        sizes[corpus.name] = path.stat().st_size
    return sizes


def _at_hand(workspace: Workspace, corpus: CorpusConfig) -> Path:
    """The path of a corpus; one with a URL is downloaded unless this machine has it, as another may have instead."""
    path = workspace.corpus_path(corpus.name)
    is_shared = corpus.path is None and remote_of(workspace.tables) is not None  # then another may have a newer one
    if corpus.url is not None and (is_shared or not path.exists()):
        fetch(corpus.url, path, sha256=corpus.sha256, size=corpus.size)
    return path


# --- utterances -------------------------------------------------------------------------------------------


def utterances_version(config: Config) -> str:
    """Fingerprint of the code and settings that determine `utterances`."""
    corpora = [
        (corpus.name, corpus.format, config.locales[corpus.name], *code_version(corpus.format))
        for corpus in config.corpora
        if not corpus.is_of_pairs
    ]
    return fingerprint(CODE_VERSION, corpora)


def refresh_utterances(workspace: Workspace, language: str) -> StepResult:
    """Make `utterances` of a language: one file per corpus.

    Raises:
        CorpusError: if a corpus can't be read.
    """
    corpora = workspace.config.corpora_of(language)
    refreshed = [_refresh(workspace, corpus, language) for corpus in corpora]
    paths = [workspace.table(*UTTERANCES, corpus.name, language) for corpus in corpora]
    return result_of(refreshed, figures=_faults(refreshed), checks=_check_utterances(paths))


def _refresh(workspace: Workspace, corpus: CorpusConfig, language: str) -> RefreshResult:
    path = _at_hand(workspace, corpus)
    locale = workspace.config.locales[corpus.name][language]
    before = stamps(path)
    content = content_hash(workspace, corpus, language)

    def read() -> pa.Table:
        return reader(corpus.format).read_utterances(path, locale, corpus=corpus.name, language=language)

    return refresh_table(
        workspace.table(*UTTERANCES, corpus.name, language),
        SCHEMAS["utterances"],
        inputs=fingerprint(CODE_VERSION, corpus.format, locale, content, *_of_rows(corpus)),
        make=lambda: _prepared(
            _unchanged(path, before, content, lambda: content_hash(workspace, corpus, language), read), corpus, language
        ),
    )


def _unchanged(
    path: Path, before: Stamps, content: str, hash_again: Callable[[], str], read: Callable[[], pa.Table]
) -> pa.Table:
    """What `read` reads, while no file changes: a table must be of the content whose hash is recorded with it.

    Args:
        path: of the corpus.
        before: the stamps of its files before they were hashed.
        content: their hash.
        hash_again: computes it again.
        read: reads the files.

    Raises:
        CorpusError: if the content changes meanwhile.
    """
    for _ in range(READ_ATTEMPTS):
        table = read()
        if (after := stamps(path)) == before:
            return table
        before = after
        if hash_again() != content:
            break  # otherwise another file of the corpus has changed, or the old content is back
    raise CorpusError(located(path, None, "this corpus was changed while it was read", "Start the same run again"))


def _of_rows(corpus: CorpusConfig) -> tuple[object, ...]:
    """What determines the rows beside the published files: the version of the reader, and the selection."""
    return (*_selection(corpus), *code_version(corpus.format))


def _selection(corpus: CorpusConfig) -> tuple[object, ...]:
    """Settings that select a part of a corpus; empty if all rows and the published splits are used."""
    return (corpus.limit, corpus.shares) if corpus.limit or corpus.shares else ()


def _prepared(table: pa.Table, corpus: CorpusConfig, name: str) -> pa.Table:
    """Check the rows of a language or pair, and select those that the settings of the corpus ask for."""
    from disent_core.corpora.rows import check_rows
    from disent_core.corpora.splits import draw_splits, limited

    remedy = "Correct its files" if corpus.format in READERS else f'Mend the reader "{corpus.format}"'
    check_rows(table, f"corpus {corpus.name}, {name}", remedy)
    if corpus.shares is not None:
        table = draw_splits(table, corpus.shares)
    return limited(table, corpus.limit)


def _faults(tables: Sequence[RefreshResult]) -> dict[str, object]:
    """The faults of the published files that were read around, also by runs before; empty if there are none."""
    faults = [fault for table in tables for fault in faults_of(table.info)]
    return {"faults_of_files": faults} if faults else {}


def _check_utterances(paths: Sequence[Path]) -> list[CheckResult]:
    names = ["corpus", "utterance_id", "split", "tokens", "slot_tags"]
    rows = pa.concat_tables([read_table(path, SCHEMAS["utterances"], names) for path in paths])
    repeated = len(rows) - len(rows.group_by(["corpus", "utterance_id"]).aggregate([]))
    lengths = (pc.list_value_length(rows[name]) for name in ("tokens", "slot_tags"))
    mistagged = pc.sum(pc.not_equal(*lengths)).as_py() or 0
    missing = sorted({"train", "dev", "test"} - set(rows["split"].unique().to_pylist()))
    return [
        UNIQUE_UTTERANCES.result(repeated == 0, repeated=repeated),
        TAGGED_TOKENS.result(mistagged == 0, rows=mistagged),
        ALL_SPLITS.result(not missing, missing=len(missing), splits=missing),
    ]


# --- sentence pairs ---------------------------------------------------------------------------------------


def sentence_pairs_version(config: Config) -> str:
    """Fingerprint of the code and settings that determine `sentence_pairs`."""
    corpora = [(corpus.name, corpus.format, *_of_rows(corpus)) for corpus in config.corpora if corpus.is_of_pairs]
    return fingerprint(CODE_VERSION, corpora)


def refresh_sentence_pairs(workspace: Workspace, pair: str) -> StepResult:
    """Make `sentence_pairs` of a language pair: one file per corpus.

    Raises:
        CorpusError: if a corpus can't be read.
    """
    corpora = workspace.config.corpora_of_sentence_pair(pair)
    refreshed = [_refresh_pairs(workspace, corpus, pair) for corpus in corpora]
    paths = [workspace.table(*SENTENCE_PAIRS, corpus.name, pair) for corpus in corpora]
    return result_of(refreshed, figures=_faults(refreshed), checks=_check_pairs(paths))


def _refresh_pairs(workspace: Workspace, corpus: CorpusConfig, pair: str) -> RefreshResult:
    path = _at_hand(workspace, corpus)
    before = stamps(path)
    content = pair_hash(workspace, corpus, pair)

    def read() -> pa.Table:
        return pair_reader(corpus.format).read_pairs(path, pair, corpus=corpus.name)

    return refresh_table(
        workspace.table(*SENTENCE_PAIRS, corpus.name, pair),
        SCHEMAS["sentence_pairs"],
        inputs=fingerprint(CODE_VERSION, corpus.format, pair, content, *_of_rows(corpus)),
        make=lambda: _prepared(
            _unchanged(path, before, content, lambda: pair_hash(workspace, corpus, pair), read), corpus, pair
        ),
    )


def _check_pairs(paths: Sequence[Path]) -> list[CheckResult]:
    import polars as pl

    names = ["corpus", "pair_id", "split", "source_key", "target_key"]
    rows = pl.concat([pl.DataFrame(read_table(path, SCHEMAS["sentence_pairs"], names)) for path in paths])
    repeated = len(rows) - rows.n_unique(["corpus", "pair_id"])
    shared = sum(_in_two_splits(rows, side) for side in ("source_key", "target_key"))
    return [
        UNIQUE_PAIRS.result(repeated == 0, repeated=repeated),
        SPLITS_APART.result(shared == 0, sentences=shared),
    ]


def _in_two_splits(rows: "pl.DataFrame", side: str) -> int:
    """Number of training sentences that another split of the same corpus has."""
    import polars as pl

    is_train = pl.col("split") == "train"
    counts = rows.group_by("corpus", side).agg(is_shared=is_train.any() & ~is_train.all())
    return int(counts["is_shared"].sum())


# --- versions of the published files ----------------------------------------------------------------------


def content_hash(workspace: Workspace, corpus: CorpusConfig, language: str) -> str:
    """Hash of the lines from which a language of a corpus is read.

    Raises:
        CorpusError: if the lines can't be read.
    """
    locale = workspace.config.locales[corpus.name][language]
    return reader(corpus.format).content_hash(workspace.corpus_path(corpus.name), locale)


def pair_hash(workspace: Workspace, corpus: CorpusConfig, pair: str) -> str:
    """Hash of the lines from which a pair of a corpus is read.

    Raises:
        CorpusError: if the lines can't be read.
    """
    return pair_reader(corpus.format).content_hash(workspace.corpus_path(corpus.name), pair)


def word_list_hash(workspace: Workspace, pair: str) -> str | None:
    """Hash of the word list of a pair; None if it has none."""
    path = word_list(workspace, pair)
    return None if path is None else sha256(read_bytes(path)).hexdigest()


def word_list(workspace: Workspace, pair: str) -> Path | None:
    """Path of the word list that code-switches the sentences of a pair; None if it has none."""
    folder = workspace.config.targets.code_switching.dictionaries
    left, right = split_codes(pair)
    if folder is None or (left == "en") == (right == "en"):
        return None
    foreign = right if left == "en" else left
    names = [f"{prefix}{code}.txt" for code in (foreign, language_part(foreign)) for prefix in ("", "en-")]
    paths = [workspace.config.resolve(folder) / name for name in names]
    return next((path for path in paths if path.is_file()), None)
