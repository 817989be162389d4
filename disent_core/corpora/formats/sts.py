"""Read semantic textual similarity of SemEval 2017 as published, and its extension to more pairs.

Cer et al. 2017, SemEval-2017 Task 1, https://aclanthology.org/S17-2001: `STS.input.track2.ar-en.txt` has two
tab-separated sentences per line, `STS.gs.track2.ar-en.txt` their similarity from 0 to 5. Reimers and Gurevych 2020,
https://aclanthology.org/2020.emnlp-main.365, added pairs: `STS.en-de.txt` has the similarity in the third column.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from disent_core.corpora.column_languages import is_swapped
from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import language_code
from disent_core.corpora.lines import REMEDY, files_hash, read_lines, reject_unequal, sentence_pairs_table, stored_text
from disent_core.corpora.paths import absent, check_folder
from disent_core.errors import CorpusError, located

_LOG = logging.getLogger(__name__)

KIND: Kind = "similarity"
TRAINS = False
SHARES: Shares | None = None

PUBLISHED_PAIRS = ("ar-ar", "en-ar", "en-de", "en-en", "en-tr", "es-en", "es-es", "fr-en", "it-en", "nl-en")
"""Names of the pairs in published results; the tracks ar-en, tr-en and es-en of SemEval are en-ar, en-tr and es-en."""

_TAG = r"([a-z]{2,3}(?:[-_][A-Za-z]{2,4})??)"
_NAME = re.compile(rf"STS\.(?:(input|gs)\.)?(?:track\w+\.)?{_TAG}-{_TAG}\.txt")
_LOWEST, _HIGHEST = 0.0, 5.0


class _Files(NamedTuple):
    """Files of one pair: two columns in these languages, in either order."""

    languages: tuple[str, str]
    sentences: Path
    gold: Path | None
    """None: the gold similarity is the third column."""

    @property
    def paths(self) -> list[Path]:
        return [path for path in (self.sentences, self.gold) if path]


def pairs(path: Path) -> list[str]:
    """Pairs in the folder or below it, sorted, with the names of `PUBLISHED_PAIRS` if they have one.

    Tracks 4a and 4b are both Spanish-English. The pair is 4a, on which results are published, or 4b if the folder has
    only that.

    Raises:
        CorpusError: if the folder does not exist or has no pair.
    """
    return sorted(_files(path))


def read_pairs(path: Path, pair: str, *, corpus: str) -> pa.Table:
    """Rows of one pair in the schema `sentence_pairs`, in the order of the file, all in split `test`.

    `score` is the gold similarity, 0 to 5; `pair_id` is the line number. `source` is the column in the language
    that the pair names first, whatever the order of columns in the file, if the language of the texts can be detected.

    Raises:
        AlignmentError: if there are not as many similarities as pairs of sentences.
        CorpusError: if the pair is absent; if a file is missing, empty or not UTF-8; if a line does not
            have two sentences or its similarity is not a number from 0 to 5; or if the columns are in other languages.
    """
    files = _files_of(path, pair)
    lines = read_lines(files.sentences)
    columns = _columns(files.sentences, lines)
    scores = _gold(files, lines)
    if is_swapped(files.sentences, columns, files.languages) != (pair != "-".join(files.languages)):
        columns = columns[1], columns[0]
    return sentence_pairs_table(
        corpus,
        pair,
        pair_ids=[str(number) for number in range(1, len(lines) + 1)],
        splits=["test"] * len(lines),
        sources=columns[0],
        targets=columns[1],
        scores=scores,
    )


def content_hash(path: Path, pair: str) -> str:
    """SHA-256, 64 hex digits, of this pair's sentences and similarities.

    Raises:
        CorpusError: as `read_pairs`, short of malformed lines.
    """
    return files_hash(_files_of(path, pair).paths)


# --- files ------------------------------------------------------------------------------------------------


def _files_of(path: Path, pair: str) -> _Files:
    files_by_pair = _files(path)
    reverse = {"-".join(files.languages[::-1]): files for files in files_by_pair.values()}
    if files := files_by_pair.get(pair) or reverse.get(pair):
        return files
    raise absent(path, f"the pair {pair!r}", files_by_pair)


def _files(path: Path) -> dict[str, _Files]:
    """Return the files of each pair by its name; `languages` are in the order of the name."""
    check_folder(path)
    files_by_pair: dict[str, _Files] = {}
    for file in sorted(path.rglob("STS*.txt")):
        match = _NAME.fullmatch(file.name)
        if match is None or match[1] == "gs":
            continue
        languages = _published_order(language_code(match[2]), language_code(match[3]))
        name = "-".join(languages)
        if name in files_by_pair:
            _LOG.info("%s: skipped, because %s is the pair %s too", file, files_by_pair[name].sentences.name, name)
            continue
        files_by_pair[name] = _Files(languages, file, _gold_file(file, match[1]))
    if not files_by_pair:
        remedy = "Files are named like STS.input.track5.en-en.txt or STS.en-de.txt; is this the right path?"
        raise CorpusError(located(path, None, "it has no such files of sentences", remedy))
    return files_by_pair


def _published_order(left: str, right: str) -> tuple[str, str]:
    return (right, left) if f"{right}-{left}" in PUBLISHED_PAIRS else (left, right)


def _gold_file(sentences: Path, marker: str | None) -> Path | None:
    rest = sentences.name.removeprefix("STS.").removeprefix("input.")
    gold = sentences.with_name(f"STS.gs.{rest}")
    return gold if marker == "input" or gold.is_file() else None


# --- lines ------------------------------------------------------------------------------------------------


def _columns(path: Path, lines: Sequence[str]) -> tuple[list[str], list[str]]:
    columns: tuple[list[str], list[str]] = [], []
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t")
        try:
            if len(fields) < 2:
                raise ValueError("expected two sentences with a tab between them, found one column")
            for column, field in zip(columns, fields, strict=False):
                column.append(stored_text(field))
        except ValueError as error:
            raise CorpusError(located(path, number, str(error), REMEDY)) from error
    return columns


def _gold(files: _Files, lines: Sequence[str]) -> list[float]:
    if files.gold is None:
        fields = [line.split("\t") for line in lines]
        return [
            _score(files.sentences, row, columns[2] if len(columns) > 2 else "")
            for row, columns in enumerate(fields, 1)
        ]
    gold = read_lines(files.gold)
    reject_unequal(files.sentences, files.gold, len(lines), len(gold))
    return [_score(files.gold, number, line) for number, line in enumerate(gold, start=1)]


def _score(path: Path, number: int, value: str) -> float:
    try:
        score = float(value)
        if _LOWEST <= score <= _HIGHEST:
            return score
    except ValueError:
        pass
    problem = f"the similarity {value!r} is not a number from {_LOWEST:g} to {_HIGHEST:g}"
    raise CorpusError(located(path, number, problem, REMEDY))
