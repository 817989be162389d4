"""Stage `corpora`: read published files into the tables `utterances` and `sentence_pairs`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from disent_core.config.model import Config
from disent_core.config.sections import CorpusConfig
from disent_core.corpora import READERS, code_version, format_module, pair_reader, reader
from disent_core.corpora.languages import split_codes
from disent_core.corpora.paths import file_stats, read_bytes
from disent_core.corpora.row_errors import row_errors_of
from disent_core.errors import AlignmentError, CorpusError, located
from disent_core.lineage.result import Check, CheckResult, StepResult, result_of
from disent_core.lineage.workspace import SENTENCE_PAIRS, UTTERANCES, Key, Workspace
from disent_core.storage.download import fetch
from disent_core.storage.remote import remote_of
from disent_core.storage.tables import SCHEMAS, RefreshResult, fingerprint, read_table, repeated_rows
from disent_core.text import language_part

if TYPE_CHECKING:
    import polars as pl

CODE_VERSION = "1"
READ_ATTEMPTS = 3
"""Attempts to read a corpus whose files change meanwhile."""

ARCHIVES = Check("archives_have_their_size", "Every archive is as large as the configuration says.", False)
UNIQUE_UTTERANCES = Check("ids_are_unique", "No utterance id occurs twice in a corpus and language.", True)
TAGGED_TOKENS = Check("tags_match_tokens", "Every token has one slot tag.", True)
ALL_SPLITS = Check("every_split_has_rows", "Each of train, dev and test has rows.", False)
UNIQUE_PAIRS = Check("ids_are_unique", "No pair id occurs twice in a corpus.", True)
SPLITS_APART = Check("no_sentence_is_in_two_splits", "No training sentence is also in dev or test.", False)


# --- downloads --------------------------------------------------------------------------------------------


def remote_corpora(config: Config) -> list[CorpusConfig]:
    return [corpus for corpus in config.corpora if corpus.url]


def due(workspace: Workspace) -> list[str]:
    """Return the names of the corpora to download; a corpus that the user has put at its `path` is not replaced."""
    remote = remote_corpora(workspace.config)
    return [corpus.name for corpus in remote if corpus.path is None or not workspace.corpus_path(corpus.name).exists()]


def download(workspace: Workspace) -> StepResult:
    """Download the archives given by URL that are not on disk yet."""
    remote, absent, sizes = remote_corpora(workspace.config), due(workspace), {}
    for corpus in remote:
        assert corpus.url is not None  # remote corpora have a URL
        path = workspace.corpus_path(corpus.name)
        if corpus.name in absent:
            fetch(corpus.url, path, sha256=corpus.sha256, size=corpus.size)
        sizes[corpus.name] = path.stat().st_size
    megabytes = {f"{name}_megabytes": size / 1e6 for name, size in sizes.items()}
    others = [corpus.name for corpus in remote if corpus.size not in (None, sizes[corpus.name])]
    check = ARCHIVES.result(not others, of_another_size=others)
    return StepResult(rows=None, content=fingerprint(sizes), is_reused=not absent, figures=megabytes, checks=(check,))


def _at_hand(workspace: Workspace, corpus: CorpusConfig) -> Path:
    path = workspace.corpus_path(corpus.name)
    is_shared = corpus.path is None and remote_of(workspace.tables) is not None  # then another may have a newer one
    if corpus.url is not None and (is_shared or not path.exists()):
        fetch(corpus.url, path, sha256=corpus.sha256, size=corpus.size)
    return path


# --- utterances -------------------------------------------------------------------------------------------


def utterances_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine `utterances`."""
    corpora = [
        (corpus.name, corpus.format, config.locales[corpus.name], *code_version(corpus.format))
        for corpus in config.corpora
        if not corpus.is_of_pairs
    ]
    return fingerprint(CODE_VERSION, corpora)


def refresh_utterances(workspace: Workspace, language: str) -> StepResult:
    """Make `utterances` of a language: one file per corpus."""
    corpora = workspace.config.corpora_of(language)
    return _refresh(workspace, UTTERANCES, corpora, language, _check_utterances)


def _refresh(
    workspace: Workspace,
    key: Key,
    corpora: Sequence[CorpusConfig],
    part: str,
    check: Callable[[Sequence[Path]], Sequence[CheckResult]],
) -> StepResult:
    tables = [_refresh_corpus(workspace, key, corpus, part) for corpus in corpora]
    # Tolerated faults of the published files, including those found by earlier runs.
    faults = [fault for table in tables for fault in row_errors_of(table.info)]
    checks = check([workspace.table(*key, corpus.name, part) for corpus in corpora])
    return result_of(tables, figures={"faults_of_files": faults} if faults else {}, checks=checks)


def _refresh_corpus(workspace: Workspace, key: Key, corpus: CorpusConfig, part: str) -> RefreshResult:
    path, name = _at_hand(workspace, corpus), published_name(workspace.config, corpus, part)
    before = file_stats(path)
    content = published_hash(workspace, corpus, part)

    def read() -> pa.Table:
        if corpus.is_of_pairs:
            return pair_reader(corpus.format).read_pairs(path, name, corpus=corpus.name)
        return reader(corpus.format).read_utterances(path, name, corpus=corpus.name, language=part)

    def make() -> pa.Table:
        return _prepared(read_unchanged(), corpus, part)

    def read_unchanged() -> pa.Table:
        """Read while no file changes: a table must match the content hash recorded with it."""
        known = before
        for _ in range(READ_ATTEMPTS):
            table = read()
            if (after := file_stats(path)) == known:
                return table
            known = after
            if published_hash(workspace, corpus, part) != content:
                break  # otherwise another file of the corpus has changed, or the old content is back
        raise CorpusError(located(path, None, "this corpus was changed while it was read", "Start the same run again"))

    return workspace.refresh(
        *key,
        corpus.name,
        part,
        inputs=fingerprint(CODE_VERSION, corpus.format, name, content, *_of_rows(corpus)),
        make=make,
    )


def _of_rows(corpus: CorpusConfig) -> tuple[object, ...]:
    """Return what determines the rows besides the published files: the selection and the reader's version."""
    selection = (corpus.limit, corpus.shares) if corpus.limit or corpus.shares else ()
    return (*selection, *code_version(corpus.format))


def _prepared(table: pa.Table, corpus: CorpusConfig, name: str) -> pa.Table:
    from disent_core.corpora.rows import check_rows, draw_splits, limited

    remedy = "Correct its files" if corpus.format in READERS else f'Fix the reader "{corpus.format}"'
    check_rows(table, f"corpus {corpus.name}, {name}", remedy)
    if corpus.shares is not None:
        table = draw_splits(table, corpus.shares)
    return limited(table, corpus.limit)


def _check_utterances(paths: Sequence[Path]) -> list[CheckResult]:
    names = ["corpus", "utterance_id", "split", "tokens", "slot_tags"]
    rows = pa.concat_tables([read_table(path, SCHEMAS["utterances"], names) for path in paths])
    repeated = repeated_rows(rows, ["corpus", "utterance_id"])
    lengths = (pc.list_value_length(rows[name]) for name in ("tokens", "slot_tags"))
    mistagged = pc.sum(pc.not_equal(*lengths)).as_py() or 0
    missing = sorted({"train", "dev", "test"} - set(rows["split"].unique().to_pylist()))
    return [
        UNIQUE_UTTERANCES.result(repeated == 0, repeated=repeated),
        TAGGED_TOKENS.result(mistagged == 0, rows=mistagged),
        ALL_SPLITS.result(not missing, missing=len(missing), splits=missing),
    ]


@contextmanager
def naming_files(workspace: Workspace, corpus: str) -> Iterator[None]:
    """Add the path of a corpus to errors about languages that do not fit together."""
    try:
        yield
    except AlignmentError as error:
        raise AlignmentError(f"{workspace.corpus_path(corpus)}: {error}") from error


# --- sentence pairs ---------------------------------------------------------------------------------------


def sentence_pairs_version(config: Config) -> str:
    """Return the fingerprint of the code and settings that determine `sentence_pairs`."""
    corpora = [(corpus.name, corpus.format, *_of_rows(corpus)) for corpus in config.corpora if corpus.is_of_pairs]
    return fingerprint(CODE_VERSION, corpora)


def refresh_sentence_pairs(workspace: Workspace, pair: str) -> StepResult:
    """Make `sentence_pairs` of a language pair: one file per corpus."""
    corpora = workspace.config.corpora_of_sentence_pair(pair)
    return _refresh(workspace, SENTENCE_PAIRS, corpora, pair, _check_pairs)


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
    """Count the training sentences that also occur in another split of the same corpus."""
    import polars as pl

    is_train = pl.col("split") == "train"
    return int(rows.group_by("corpus", side).agg(is_train.any() & ~is_train.all())["split"].sum())


# --- versions of the published files ----------------------------------------------------------------------


def published_name(config: Config, corpus: CorpusConfig, part: str) -> str:
    """Return how a corpus names a language or a pair."""
    return part if corpus.is_of_pairs else config.locales[corpus.name][part]


def published_hash(workspace: Workspace, corpus: CorpusConfig, part: str) -> str:
    """Return the hash of the lines that a language or pair of a corpus is read from."""
    path, name = workspace.corpus_path(corpus.name), published_name(workspace.config, corpus, part)
    return format_module(corpus.format).content_hash(path, name)


def word_list_hash(workspace: Workspace, pair: str) -> str | None:
    path = word_list(workspace, pair)
    return None if path is None else sha256(read_bytes(path)).hexdigest()


def word_list(workspace: Workspace, pair: str) -> Path | None:
    """Return the path of the word list that code-switches the sentences of a pair; None if it has none."""
    folder = workspace.config.targets.code_switching.dictionaries
    left, right = split_codes(pair)
    if folder is None or (left == "en") == (right == "en"):
        return None
    foreign = right if left == "en" else left
    names = [f"{prefix}{code}.txt" for code in (foreign, language_part(foreign)) for prefix in ("", "en-")]
    paths = [workspace.config.resolve(folder) / name for name in names]
    return next((path for path in paths if path.is_file()), None)
