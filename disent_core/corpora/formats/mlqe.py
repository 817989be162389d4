"""Read WMT 2020 quality estimation (direct assessments) as published: a TSV file with a header per pair and split.

Fomicheva et al. 2022, MLQE-PE: A Multilingual Quality Estimation and Post-Editing Dataset,
https://aclanthology.org/2022.lrec-1.530: `en-de/train.ende.df.short.tsv`, `dev.*`, `test20.*`. Fields are not quoted.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import language_code
from disent_core.corpora.lines import number_in, read_lines, sentence_pairs_table, stored_text
from disent_core.corpora.paths import SplitFiles, files_below
from disent_core.corpora.row_errors import PUBLISHED, Location, RowError, RowErrors
from disent_core.errors import CorpusError, commas, located, quoted

KIND: Kind = "quality"
TRAINS = False
SHARES: Shares | None = None

_NAME = re.compile(r"(train|dev|test\d*)\.(?:([a-z]{2})-?([a-z]{2})\.)?(?:.*\.)?tsv")
_FOLDER = re.compile(r"([a-z]{2,3})-([a-z]{2,3})(?:-.*)?")
_TEXTS, _NUMBERS = ("original", "translation"), ("z_mean", "mean")


def _listed(path: Path) -> list[Path]:
    """List the files of 2020 (`test20`), on which results are published, before those of other years."""
    return sorted(files_below(path, "*.tsv"), key=lambda file: (not file.name.startswith("test20"), file))


def _pair_and_split(file: Path) -> tuple[str, str] | None:
    name, folder = _NAME.fullmatch(file.name), _FOLDER.fullmatch(file.parent.name)
    languages = name and (name.group(2, 3) if name[2] else folder and folder.groups())
    return ("-".join(map(language_code, languages)), name[1].rstrip("0123456789")) if name and languages else None


_FILES = SplitFiles(
    _listed,
    _pair_and_split,
    splits=("train", "dev", "test"),
    examples="en-de/train.ende.df.short.tsv",
    what="pair {!r}",
    first_counts=True,
)
pairs = _FILES.names
content_hash = _FILES.content_hash


_Row = tuple[str, str, float | None, float | None]
"""Source, target, score and mean score."""


def read_pairs(path: Path, pair: str, *, corpus: str) -> pa.Table:
    """Read one pair in the schema `sentence_pairs`: train, dev, test, each in the order of its file.

    `score` is `z_mean`, the mean of the annotators' standardised scores; `mean_score` is `mean`, the mean of the raw
    scores, 0 to 100. `pair_id` is the split and the column `index`, or the row number without such a column.
    The split `test` is one file: that of 2020 (`test20`), on which results are published, else the earliest. A line
    whose number of columns differs from the header's is left out, a pair may lack a score, and a repeated index is made
    distinct.
    """
    row_errors = RowErrors(PUBLISHED)
    rows = [row for split, file in _FILES.of(path, pair).items() for row in _rows(file, split, row_errors)]
    columns = list(zip(*rows, strict=True))
    names = ("pair_id", "split", "source", "target", "score", "mean_score")
    return row_errors.noted(sentence_pairs_table(corpus, pair, **dict(zip(names, columns, strict=True))))


def _rows(path: Path, split: str, row_errors: RowErrors) -> Iterator[tuple[object, ...]]:
    header, *lines = read_lines(path)
    names = header.split("\t")
    columns = {name: index for index, name in enumerate(names)}
    if len(columns) < len(names):
        raise CorpusError(located(path, 1, f"columns are named twice: {', '.join(names)}", "Rename one of them"))
    if missing := [name for name in (*_TEXTS, *_NUMBERS) if name not in columns]:
        remedy = f"It has {', '.join(columns)}; take the file with scores"
        raise CorpusError(located(path, 1, f"missing columns: {commas(missing)}", remedy))
    if not lines:
        raise CorpusError(located(path, 1, "this file has only a header", "Download it again"))
    numbered = ((number, line.split("\t")) for number, line in enumerate(lines, start=2))
    rows: list[tuple[Location, str, _Row]] = []
    for (_, number), fields, row in row_errors.parsed(path, numbered, lambda fields: _row(fields, columns)):
        if None in row:
            row_errors.repair(path, number, "a pair without a score is not measured")
        index = fields[columns["index"]] if "index" in columns else str(number - 2)
        rows.append(((path, number), index, row))
    for index, row in row_errors.distinct(rows, path):
        yield f"{split}-{index}", split, *row


def _row(fields: Sequence[str], columns: Mapping[str, int]) -> _Row:
    if len(fields) != len(columns):
        problem = f"expected {len(columns)} columns, found {len(fields)}"
        raise RowError(problem, "a line whose number of columns differs from the header's is left out")
    source, target = (stored_text(fields[columns[name]]) for name in _TEXTS)
    score, mean = (_number(name, fields[columns[name]]) for name in _NUMBERS)
    return source, target, score, mean


def _number(name: str, value: str) -> float | None:
    if not value.strip():
        return None
    number = number_in(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {quoted(value)}, not a number")
    return number
