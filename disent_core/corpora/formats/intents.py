"""Read tables of texts in several languages: a CSV, TSV, JSONL or Parquet file, or a folder of such files.

A table is long or wide. A long table has one text per row, in columns `language` (or `lang`, `locale`) and `text` (or
`utterance`, `sentence`), or `annotated` (or `annot_utt`) for a text with its slots in brackets, `wake me up at
[time : nine]`. A wide table has a column for each of two or more languages, named by its code, and translations of
each other in a row; its texts may have slots in brackets too.

Both may have `intent` (or `label`), `id`, `split`, `domain` (or `scenario`); other columns are ignored. Rows of equal
`id` are translations. Without that column a row is named by a hash of its text, in a wide table its first text. If
neither a column nor the file name (`train.csv`) gives splits, they are drawn by id with `SHARES`.
"""

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from disent_core.corpora.annotation import bracketed_slots, tag_tokens, without_brackets
from disent_core.corpora.contract import OF_COPY, Kind, Shares
from disent_core.corpora.languages import is_language, is_language_code, language_code
from disent_core.corpora.lines import check_length, json_object, read_lines, stored_text, utterance, utterances_table
from disent_core.corpora.paths import absent, files_below, missing
from disent_core.corpora.row_errors import RowError, RowErrors
from disent_core.errors import CorpusError, commas, located, quoted
from disent_core.storage.tables import rows_of
from disent_core.storage.untrusted import column_names, read_untrusted_parquet
from disent_core.text import language_part, normalise

KIND: Kind = "utterances"
TRAINS = True
SHARES: Shares | None = (0.8, 0.1, 0.1)
PARALLEL = "some"
LOCALES = None
CODE_VERSION = "3"

_NAMES = {
    "language": ("language", "lang", "locale"), "intent": ("intent", "label"), "id": ("id",), "split": ("split",),
    "text": ("text", "utterance", "sentence"), "annotated": ("annotated", "annot_utt"),
    "domain": ("domain", "scenario"),
}  # fmt: skip
_MAY_BE_EMPTY = ("domain", "intent")
_LONG = "language and text (or annotated), or a column for each language, such as en and de"
_SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}
_SEPARATED = (".csv", ".tsv")
_SUFFIXES = (*_SEPARATED, ".jsonl", ".parquet")
_REMEDY = "Correct this row"


class _Row(NamedTuple):
    file: Path
    number: int
    fields: dict[str, str]
    """Values of the columns of `_NAMES` that the file has."""


def language_of(locale: str) -> str:
    """Return the language of a locale: `de-DE`, `deu` -> `de`."""
    return language_code(language_part(locale))


def locales(path: Path) -> list[str]:
    """Return the languages of the table, as written there, sorted."""
    return sorted({row.fields["language"] for row in _rows(path)})


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Read one language in the schema `utterances`, in the order of files and rows.

    In a long table without a column `id`, the id of a row begins with its language, so that no rows are parallel by
    accident. A row without text or id is left out, and a repeated id is made distinct.
    """
    row_errors, rows = RowErrors(_REMEDY), _rows_of(path, locale)
    _require_no_slots([row for row in rows if "annotated" not in row.fields])
    parsed = [
        (location, utterance["utterance_id"], utterance)
        for row in rows
        for location, _, utterance in row_errors.parsed(
            row.file, [(row.number, row)], partial(_utterance, language=language)
        )
    ]
    distinct = row_errors.distinct(parsed, *dict.fromkeys(row.file for row in rows))
    utterances = (utterance | {"utterance_id": published} for published, utterance in distinct)
    return row_errors.noted(utterances_table(utterances, corpus, language))


def content_hash(path: Path, locale: str) -> str:
    """Return the SHA-256, 64 hex digits, of the rows of this language and the names of their files."""
    digest = hashlib.sha256()
    for row in _rows_of(path, locale):
        digest.update(f"{row.file.stem}\n{json.dumps(row.fields, sort_keys=True)}\n".encode())
    return digest.hexdigest()


def _rows_of(path: Path, locale: str) -> list[_Row]:
    counts: Counter[str] = Counter()
    rows: list[_Row] = []
    for row in _rows(path):
        counts[row.fields["language"]] += 1
        if row.fields["language"] == locale:
            rows.append(row)
    if not rows:
        raise absent(path, f"language {locale!r}", counts)
    return rows


def _require_no_slots(rows: Sequence[_Row]) -> None:
    """Reject texts with slots in brackets in a column without slots: the brackets would be read as words."""
    slots = [row for row in rows if _plain(row.fields["text"]) != row.fields["text"]]
    if len(slots) * 10 > len(rows):
        problem = "texts of the column `text` have slots in brackets"
        raise CorpusError(located(slots[0].file, slots[0].number, problem, "Rename that column to `annotated`"))


def _utterance(row: _Row, language: str) -> dict[str, Any]:
    fields = row.fields
    if empty := [name for name, value in fields.items() if not value.strip() and name not in _MAY_BE_EMPTY]:
        raise RowError(f"empty fields: {commas(empty)}", "a row without text or id is left out")
    annotated = fields.get("annotated", "")
    check_length(annotated)
    text = stored_text(fields["text"] if "text" in fields else without_brackets(annotated))
    published = fields.get("split", row.file.stem if row.file.stem in _SPLITS else "test")
    if published not in _SPLITS:
        raise ValueError(f"split {quoted(published)} is not one of {', '.join(_SPLITS)}")
    slots = bracketed_slots(normalise(annotated), text) if annotated else []
    tokens, tags = tag_tokens(text, language, slots)
    return utterance(
        fields["id"], _SPLITS[published], text, tokens, tags,
        intent=fields.get("intent") or None, domain=fields.get("domain") or None,
    )  # fmt: skip


# --- files ------------------------------------------------------------------------------------------------


def _rows(path: Path) -> Iterator[_Row]:
    copies: Counter[str] = Counter()
    for file in _files(path):
        count = 0
        for number, record in _records(file, copies):
            count += 1
            yield _Row(file, number, record)
        if not count:
            raise CorpusError(located(file, None, "this file has no rows", "Add some, or name another file"))


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise missing(path)
    files = [path] if path.is_file() else [file for file in files_below(path, "*") if file.suffix in _SUFFIXES]
    if not files or files[0].suffix not in _SUFFIXES:
        problem = "it has no table" if path.is_dir() else "this is not a table"
        raise CorpusError(located(path, None, problem, f"Tables are files named *{', *'.join(_SUFFIXES)}"))
    return files


def _records(file: Path, copies: Counter[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line numbers (row numbers in a Parquet file) with the fields of `_NAMES` that a text has.

    `copies` counts the earlier rows that were named by a hash of their text.
    """
    number = 0
    columns: _Columns | None = None
    try:
        for number, content in _PARSERS[file.suffix](file):
            record = json_object(content) if isinstance(content, str) else content
            if columns is None or isinstance(content, str):
                columns = _columns(record)
            fields = {name: _field(name, record[column]) for name, column in columns.of_row.items()}
            if not columns.of_language:
                if not is_language_code(fields["language"]):
                    raise ValueError(f"language {quoted(fields['language'])} is not a code such as en, deu or zh-TW")
                text = fields["text"] if "text" in fields else fields["annotated"]
                yield number, _with_id(fields, text, copies, prefix=f"{fields['language']}-")
                continue
            cells = {language: _field("annotated", "" if record[language] is None else record[language]).strip()
                     for language in columns.of_language}  # fmt: skip
            # An empty cell is a missing translation.
            if texts := {language: text for language, text in cells.items() if text}:
                named = _with_id(fields, next(iter(texts.values())), copies)
                for language, text in texts.items():
                    yield number, named | {"language": language, "annotated": text}
    except ValueError as error:
        is_of_header = columns is None and file.suffix in _SEPARATED
        place, remedy = (
            (1, "Name each column of texts by the code of its language") if is_of_header else (number, _REMEDY)
        )
        raise CorpusError(located(file, place, str(error), remedy)) from error


def _with_id(fields: dict[str, str], text: str, copies: Counter[str], prefix: str = "") -> dict[str, str]:
    """Return a row with its id; without one, the `HASH` of its text, or `HASH~2` for the second row of that text.

    The hash, and so the split, does not depend on where the row stands, nor on brackets around its slots.
    """
    if "id" in fields:
        return fields
    digest = hashlib.sha256(normalise(_plain(text)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    copies[digest] += 1
    copy = "" if copies[digest] == 1 else f"{OF_COPY}{copies[digest]}"
    return {"id": f"{prefix}{digest}{copy}", **fields}


def _plain(text: str) -> str:
    """Return a text without the brackets around its slots, or unchanged if these are broken."""
    try:
        return without_brackets(text)
    except ValueError:  # reported where the text is read
        return text


class _Columns(NamedTuple):
    of_row: dict[str, str]
    """Column of each name of `_NAMES` that a table has."""
    of_language: tuple[str, ...]
    """Columns of texts of a wide table, each named by its language."""


def _columns(record: Mapping[str, object]) -> _Columns:
    lower = {name.lower(): name for name in record}
    columns = {name: lower[alias] for name, aliases in _NAMES.items() for alias in reversed(aliases) if alias in lower}
    if "language" in columns and columns.keys() & {"text", "annotated"}:
        return _Columns(columns, ())
    languages = tuple(name for name in record if name not in columns.values() and is_language(name))
    if len(languages) < 2 or columns.keys() & {"language", "text", "annotated"}:
        has_tabs = any("\t" in name for name in record)
        remedy = ". Its columns are separated by tabs: name it .tsv" if has_tabs else ""
        raise ValueError(f"this needs columns {_LONG}; it has {', '.join(record)}{remedy}")
    return _Columns(columns, languages)


def _field(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and name not in ("text", "annotated"):
        return str(value)
    if value is None and name in _MAY_BE_EMPTY:
        return ""
    raise ValueError(f"{name} is {quoted(value)}, not text")


def _separated(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Read CSV as in RFC 4180, with commas or, as some programs write it, semicolons; and TSV without quotes."""
    unquoted = ((number, line.split("\t")) for number, line in enumerate(read_lines(file), start=1))
    numbered = _quoted(file) if file.suffix == ".csv" else unquoted
    _, header = next(numbered, (1, []))
    if len(set(header)) < len(header):
        problem = f"columns are named twice: {', '.join(header)}"
        raise CorpusError(located(file, 1, problem, "Rename one of them"))
    for number, row in numbered:
        if len(row) != len(header) and any(row):
            problem = f"{len(header)} columns expected, {len(row)} found"
            raise CorpusError(located(file, number, problem, _REMEDY))
        if any(row):
            yield number, dict(zip(header, row, strict=True))


def _quoted(file: Path) -> Iterator[tuple[int, list[str]]]:
    lines = list(read_lines(file))
    has_commas = not lines or "," in lines[0] or ";" not in lines[0]
    rows = csv.reader(io.StringIO("\n".join(lines)), strict=True, delimiter="," if has_commas else ";")
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise CorpusError(located(file, rows.line_num, str(error), _REMEDY)) from error


def _json_lines(file: Path) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(read_lines(file), start=1) if line.strip())


def _parquet(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        columns = _columns(dict.fromkeys(column_names(file)))
        table = read_untrusted_parquet(file, [*columns.of_row.values(), *columns.of_language])
    except (pa.ArrowException, OSError) as error:
        problem = f"this is not a whole Parquet file ({' '.join(str(error).split())})"
        raise CorpusError(located(file, None, problem, "Write it again")) from error
    yield from enumerate(rows_of(table), start=1)


_PARSERS = {".csv": _separated, ".tsv": _separated, ".jsonl": _json_lines, ".parquet": _parquet}
