"""Read semantic textual similarity of SemEval 2017 as published, and its extension to more pairs.

Cer et al. 2017, SemEval-2017 Task 1, https://aclanthology.org/S17-2001: `STS.input.track2.ar-en.txt` has two
tab-separated sentences per line, `STS.gs.track2.ar-en.txt` their similarity from 0 to 5. Each is published in an
archive of its own, which unpack to the sibling folders `STS2017.eval.v1.1` and `STS2017.gs`. Reimers and Gurevych 2020,
https://aclanthology.org/2020.emnlp-main.365, added pairs: `STS.en-de.txt` has the similarity in the third column.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import is_swapped, language_code
from disent_core.corpora.lines import number_in, read_lines, reject_unequal, sentence_pairs_table, stored_text
from disent_core.corpora.paths import absent, files_below, files_hash, no_files
from disent_core.corpora.row_errors import PUBLISHED, RowError, RowErrors
from disent_core.errors import CorpusError, located, quoted

KIND: Kind = "similarity"
TRAINS = False
SHARES: Shares | None = None

PUBLISHED_PAIRS = ("ar-ar", "en-ar", "en-de", "en-en", "en-tr", "es-en", "es-es", "fr-en", "it-en", "nl-en")
"""Names of the pairs in published results; the tracks ar-en, tr-en and es-en of SemEval are en-ar, en-tr and es-en."""

_TAG = r"([a-z]{2,3}(?:[-_][A-Za-z]{2,4})??)"
_NAME = re.compile(rf"STS\.(?:(input|gs)\.)?(?:track(\w+)\.)?{_TAG}-{_TAG}\.txt")
_LOWEST, _HIGHEST = 0.0, 5.0


class _Part(NamedTuple):
    """Files of one track of a pair, with two columns in its languages, in either order."""

    track: str
    """Number of the track, such as `4a`; empty without one."""
    sentences: Path
    gold: Path | None
    """None: the gold similarity is the third column."""


class _Files(NamedTuple):
    languages: tuple[str, str]
    parts: list[_Part]
    unread: list[Path]
    """Further files of this pair that are not tracks of their own."""


_ARCHIVES = ("STS2017.eval.v1.1", "STS2017.gs")
_BOTH = f"Unpack both archives of the task into one folder, {' and '.join(_ARCHIVES)}, and set the path to it"


def outside(path: Path) -> list[Path]:
    """Return the sibling folder with the files of the other archive, which is read too."""
    folders = [path.with_name(name) for name in _ARCHIVES if path.name in _ARCHIVES and name != path.name]
    return [folder for folder in folders if folder.is_dir()]


def pairs(path: Path) -> list[str]:
    """Return the pairs in the folder or below it, sorted, under their names in `PUBLISHED_PAIRS` if any."""
    return sorted(_files(path))


def read_pairs(path: Path, pair: str, *, corpus: str) -> pa.Table:
    """Read one pair in the schema `sentence_pairs`, in the order of the file, all in split `test`.

    `score` is the gold similarity, 0 to 5, or null if it is missing. `pair_id` is the line number. `source` is the
    column in the first language of the pair, whatever the order of columns in the file, if the language of the texts
    can be detected. Of two tracks of one pair, the first is `test`, since results are published on it (4a); the other
    is `dev`, with ids such as `4b-1`.
    """
    files, row_errors = _files_of(path, pair), RowErrors(PUBLISHED)
    first = files.parts[0].sentences
    for unread in files.unread:
        row_errors.repair(unread, 1, f"this file is left out, because {first.name} has the pair {pair} too")
    is_reversed = pair != "-".join(files.languages)
    rows = []
    for part in files.parts:
        is_first = part.sentences == first
        if not is_first:
            fault = f"this track is the split dev of {pair}, because {first.name} is its split test"
            row_errors.repair(part.sentences, 1, fault)
        split, prefix = ("test", "") if is_first else ("dev", f"{part.track}-")
        for number, *row in _rows(part, files.languages, row_errors, is_reversed=is_reversed):
            rows.append((f"{prefix}{number}", split, *row))
    columns = dict(zip(("pair_id", "split", "source", "target", "score"), zip(*rows, strict=True), strict=True))
    return row_errors.noted(sentence_pairs_table(corpus, pair, **columns))


def content_hash(path: Path, pair: str) -> str:
    """Return the SHA-256, 64 hex digits, of this pair's sentences and similarities."""
    return files_hash(file for part in _files_of(path, pair).parts for file in (part.sentences, part.gold) if file)


# --- files ------------------------------------------------------------------------------------------------


def _files_of(path: Path, pair: str) -> _Files:
    files_by_pair = _files(path)
    reverse = {"-".join(files.languages[::-1]): files for files in files_by_pair.values()}
    if files := files_by_pair.get(pair) or reverse.get(pair):
        for part in files.parts:
            if part.gold is not None and not part.gold.is_file():
                problem = f"its gold similarities, {part.gold.name}, are neither beside it nor in a folder STS2017.gs"
                raise CorpusError(located(part.sentences, None, problem, _BOTH))
        return files
    raise absent(path, f"pair {pair!r}", files_by_pair)


def _files(path: Path) -> dict[str, _Files]:
    """Return the files of each pair by its name; `languages` are in the order of the name."""
    files_by_pair: dict[str, _Files] = {}
    listed = [file for folder in (path, *outside(path)) for file in files_below(folder, "STS*.txt")]
    elsewhere = {file.name: file for file in listed if file.name.startswith("STS.gs.")}
    for file in listed:
        match = _NAME.fullmatch(file.name)
        if match is None or match[1] == "gs":
            continue
        left, right = language_code(match[3]), language_code(match[4])
        languages = (right, left) if f"{right}-{left}" in PUBLISHED_PAIRS else (left, right)
        files = files_by_pair.setdefault("-".join(languages), _Files(languages, [], []))
        tracks = [part.track for part in files.parts]
        if tracks and ("" in tracks or (match[2] or "") in {"", *tracks}):
            files.unread.append(file)
            continue
        gold = file.with_name(f"STS.gs.{file.name.removeprefix('STS.').removeprefix('input.')}")
        gold = gold if gold.is_file() else elsewhere.get(gold.name, gold)
        files.parts.append(_Part(match[2] or "", file, gold if match[1] == "input" or gold.is_file() else None))
    if not files_by_pair and elsewhere:
        raise CorpusError(located(path, None, "it has gold similarities, but no sentences (STS.input.*)", _BOTH))
    if not files_by_pair:
        raise no_files(path, "it has no sentence files of this format", "STS.input.track5.en-en.txt or STS.en-de.txt")
    return files_by_pair


# --- lines ------------------------------------------------------------------------------------------------


def _rows(
    part: _Part, languages: tuple[str, str], row_errors: RowErrors, *, is_reversed: bool
) -> Iterator[tuple[int, str, str, float | None]]:
    """Yield line number, source, target and similarity of each pair of a track."""
    lines = read_lines(part.sentences)
    scores = list(_gold(part, lines, row_errors))
    parsed = list(row_errors.parsed(part.sentences, enumerate(lines, start=1), _sentences))
    row_errors.check(len(parsed), part.sentences)
    columns = [sentences[0] for *_, sentences in parsed], [sentences[1] for *_, sentences in parsed]
    if is_swapped(part.sentences, columns, languages) != is_reversed:
        columns = columns[1], columns[0]
    for ((_, number), *_), source, target in zip(parsed, *columns, strict=True):
        yield number, source, target, scores[number - 1]


def _sentences(line: str) -> tuple[str, str]:
    fields = line.split("\t")
    if len(fields) < 2:
        problem = "expected two sentences with a tab between them, found one column"
        raise RowError(problem, "a line without two sentences is left out")
    return stored_text(fields[0]), stored_text(fields[1])


def _gold(part: _Part, lines: Sequence[str], row_errors: RowErrors) -> Iterator[float | None]:
    """Yield the similarity of each line, None where it is missing."""
    path = part.gold or part.sentences
    values = read_lines(part.gold) if part.gold else [(line.split("\t") + [""] * 2)[2] for line in lines]
    if len(values) > len(lines):
        reject_unequal(part.sentences, path, len(lines), len(values))
    values += [""] * (len(lines) - len(values))
    if not any(value.strip() for value in values):
        remedy = "Take the file with scores; tabs separate the columns"
        raise CorpusError(located(path, 1, "no pair of sentences has a similarity", remedy))
    for number, value in enumerate(values, start=1):
        if not value.strip():
            row_errors.repair(path, number, "a pair without a similarity is not measured")
            yield None
            continue
        score = number_in(value)
        if not _LOWEST <= score <= _HIGHEST:
            problem = f"the similarity {quoted(value)} is not a number from {_LOWEST:g} to {_HIGHEST:g}"
            raise CorpusError(located(path, number, problem, PUBLISHED))
        yield score
