"""Read a user's texts: one per line, or a column of JSON lines, CSV or Parquet, one block in memory at a time."""

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from disent_core.corpora.lines import MOST_LINE_BYTES, stored_text
from disent_core.corpora.row_errors import RowError
from disent_core.errors import CorpusError, commas, located, quoted
from disent_core.storage.untrusted import column_names, untrusted_batches
from disent_core.text import parsed_json

TABLES = (".jsonl", ".csv", ".parquet")
"""Suffixes of formats with columns."""
SUFFIXES = (".txt", ".log", *TABLES)
_LANGUAGE = "language"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Text(NamedTuple):
    """A text in NFC, and its language if known."""

    text: str
    language: str | None


_Row = tuple[int, Any, Any]  # number of the line or row, text and language as in the file


@dataclass(frozen=True)
class TextFile:
    """A file of texts, read again by every loop."""

    path: Path
    kind: str  # one of `SUFFIXES`
    name: str  # in messages
    column: str = "text"  # column of the texts, in formats with columns
    language: str | None = None  # language of texts whose row names none in a column `language`
    languages: Collection[str] | None = None  # allowed languages; None: any, or none
    skip: Callable[[int], object] | None = None  # gets the number of each row without text; None: such rows are errors

    def __iter__(self) -> Iterator[Text]:
        return (text for _, text in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Text]]:
        """Yield the texts with the numbers of their lines, or of their rows in a Parquet file."""
        try:
            yield from checked_rows(_READERS[self.kind](self), self.name, self.language, self.languages, self.skip)
        except OSError as error:
            raise _wrong(self.name, None, f"can't be read ({error.strerror or error})", "Name another file") from error

    def count(self) -> int:
        return self.counts().total()

    def counts(self) -> Counter[str | None]:
        """Read all texts and count them by language, so that no error comes after hours."""
        counts = Counter(text.language for text in self)
        if not counts:
            raise _wrong(self.name, None, "no texts were read", "Name a file with at least one text")
        return counts


def text_file(path: Path, *, column: str = "text", language: str | None = None) -> TextFile:
    """Return the texts of a file, whose name tells its format."""
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise ValueError(f"{path} must end in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise _wrong(str(path), None, "there is no such file", "Check the path")
    return TextFile(path, kind, str(path), column, language)


def checked_texts(
    texts: Iterable[str], language: str | None, languages: Collection[str] | None = None
) -> Iterator[Text]:
    rows = ((number, text, None) for number, text in enumerate(texts, 1))
    return (text for _, text in checked_rows(rows, "texts", language, languages))


def checked_rows(
    rows: Iterable[_Row],
    name: str,
    language: str | None,
    languages: Collection[str] | None,
    skip: Callable[[int], object] | None = None,
) -> Iterator[tuple[int, Text]]:
    """Yield the numbers and texts of rows that can be stored."""
    for number, text, of_row in rows:
        if skip is not None and (text is None or (isinstance(text, str) and not text.strip())):
            skip(number)
            continue
        spoken = of_row or language
        try:
            if not isinstance(text, str):
                raise ValueError("there is no text" if text is None else f"the text is {quoted(text)}, not a string")
            if not isinstance(spoken, str | None):
                raise ValueError(f"the language is {quoted(spoken)}, not a string")
            if languages is not None and spoken not in languages:
                which = "no language is named" if spoken is None else f"the language is {quoted(spoken)}"
                raise ValueError(f"{which}, and the head needs one of {', '.join(sorted(languages))}")
            yield number, Text(stored_text(text), spoken)
        except (RowError, ValueError) as error:
            raise _wrong(name, number, error) from error


def _wrong(name: str, number: int | None, problem: object, remedy: str = "Correct it or leave it out") -> CorpusError:
    return CorpusError(located(name, number, str(problem), remedy))


def _lines(file: TextFile) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file with their numbers and ends."""
    with file.path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MOST_LINE_BYTES + 1), b""), 1):
            if len(line) > MOST_LINE_BYTES:
                raise _wrong(file.name, number, f"a line of more than {MOST_LINE_BYTES:,} bytes")
            try:
                yield number, line.removeprefix(_BYTE_ORDER_MARK if number == 1 else b"").decode("utf-8")
            except UnicodeDecodeError as error:
                raise _wrong(file.name, number, f"not UTF-8 ({error})", "Save the file as UTF-8") from error


def _json_lines(file: TextFile) -> Iterator[_Row]:
    for number, line in _lines(file):
        if not line.strip():
            yield number, None, None
            continue
        try:
            row = parsed_json(line)
        except ValueError as error:
            raise _wrong(file.name, number, error) from error
        if not isinstance(row, dict) or file.column not in row:
            problem = f"expected an object with {quoted(file.column)} (--column names another)"
            raise _wrong(file.name, number, problem)
        yield number, row[file.column], row.get(_LANGUAGE)


def _csv_rows(file: TextFile) -> Iterator[_Row]:
    reader = csv.reader((line for _, line in _lines(file)), strict=True)
    try:
        header = next(reader, [])
        _require_column(file, header)
        for row in reader:
            if row and len(row) != len(header):
                raise _wrong(file.name, reader.line_num, f"{len(row)} fields, where the header has {len(header)}")
            named = dict(zip(header, row, strict=False))
            yield reader.line_num, named.get(file.column), named.get(_LANGUAGE)
    except csv.Error as error:
        raise _wrong(file.name, reader.line_num, error) from error


def _parquet_rows(file: TextFile) -> Iterator[_Row]:
    try:
        columns = column_names(file.path)
    except pa.ArrowException as error:
        raise _wrong(file.name, None, f"not a Parquet file ({error})", "Name another file") from error
    _require_column(file, columns)
    number = 0
    try:
        for batch in untrusted_batches(file.path, {file.column, _LANGUAGE}):
            for row in batch.to_pylist():
                number += 1
                yield number, row[file.column], row.get(_LANGUAGE)
    except (pa.ArrowException, ValueError) as error:
        raise _wrong(file.name, number + 1, error) from error


def _require_column(file: TextFile, columns: list[str]) -> None:
    if not columns:
        raise _wrong(file.name, None, "the file is empty", "Name a file with at least one text")
    if file.column not in columns:
        problem = f"there is no column {quoted(file.column)}, only {commas(columns)}"
        raise _wrong(file.name, None, problem, "Name the column of the texts with --column")


def _texts_of_lines(file: TextFile) -> Iterator[_Row]:
    return ((row, line.removesuffix("\n").removesuffix("\r"), None) for row, line in _lines(file))


_READERS: dict[str, Callable[[TextFile], Iterator[_Row]]] = {
    ".txt": _texts_of_lines,
    ".log": _texts_of_lines,
    ".jsonl": _json_lines,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
}
