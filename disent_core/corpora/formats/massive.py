"""Read MASSIVE 1.1 as published: `1.1/data/LOCALE.jsonl`, in its archive or unpacked.

FitzGerald et al. 2023, MASSIVE: A 1M-Example Multilingual Natural Language Understanding Dataset with 51
Typologically-Diverse Languages, https://aclanthology.org/2023.acl-long.235. Utterances are parallel by id.
"""

import hashlib
from array import array
from collections.abc import Iterator
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa

from disent_core.corpora.annotation import bracketed_slots, tag_tokens
from disent_core.corpora.archive import data_files, read_data_file
from disent_core.corpora.contract import Kind
from disent_core.corpora.lines import check_length, check_line
from disent_core.errors import CorpusError, located, quoted
from disent_core.storage.tables import rows_table
from disent_core.storage.text_columns import first_repeated
from disent_core.text import MARKERS, MASK, language_part, normalise, parsed_json, text_key

LOCALES = tuple(  # one name per line would take 52 lines
    """
    af-ZA am-ET ar-SA az-AZ bn-BD ca-ES cy-GB da-DK de-DE el-GR en-US es-ES fa-IR fi-FI fr-FR he-IL hi-IN
    hu-HU hy-AM id-ID is-IS it-IT ja-JP jv-ID ka-GE km-KH kn-IN ko-KR lv-LV ml-IN mn-MN ms-MY my-MM nb-NO
    nl-NL pl-PL pt-PT ro-RO ru-RU sl-SL sq-AL sv-SE sw-KE ta-IN te-IN th-TH tl-PH tr-TR ur-PK vi-VN zh-CN
    zh-TW
    """.split()  # noqa: SIM905
)
"""The 52 locales of version 1.1; a copy of the corpus may have some of them."""

KIND: Kind = "utterances"
TRAINS = True
SHARES = None
PARALLEL = "all"

_FIELDS = ("id", "locale", "partition", "scenario", "intent", "utt", "annot_utt")
_PARTITIONS = ("train", "dev", "test")
_REMEDY = "Correct this line, or take the file from the published archive again"


def language_of(locale: str) -> str:
    """The language of a locale: `de-DE` -> `de`."""
    return language_part(locale)


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Rows of one locale in the schema `utterances`, in the order of the file.

    Args:
        path: the published archive; or the folder with `1.1` in it, `1.1` itself, or its `data`.
        locale: one of `LOCALES`.
        corpus: the name that the rows carry.
        language: the language that the rows carry; it decides whether tokens are words or characters.

    Raises:
        CorpusError: if the locale is unknown or absent, or a file is missing, damaged or malformed.
    """
    location, content = _read_locale(path, locale)
    numbers = array("q")
    rows = _rows(location, content, locale, language, numbers)
    table = rows_table(({"corpus": corpus, "language": language, **row} for row in rows), "utterances")
    if not len(table):
        raise CorpusError(located(location, None, "this file has no utterance", "Download the archive again"))
    if repeated := first_repeated(table["utterance_id"]):
        first, again = (numbers[row] for row in repeated)
        problem = f"id {quoted(table['utterance_id'][repeated[1]].as_py())} is already on line {first}"
        raise CorpusError(located(location, again, problem, _REMEDY))
    return table


def locales(path: Path) -> list[str]:
    """Locales in the archive or folder.

    Raises:
        CorpusError: if it does not exist, is damaged, or has none.
    """
    files = data_files(path)
    present = [name for name in LOCALES if f"{name}.jsonl" in files]
    if not present:
        raise CorpusError(located(path, None, "it has no data/LOCALE.jsonl of MASSIVE", "Check the path"))
    return present


def content_hash(path: Path, locale: str) -> str:
    """SHA-256, 64 hex digits, of the bytes of this locale's file: other locales do not change it.

    Raises:
        CorpusError: as `read_utterances`, short of malformed lines.
    """
    return hashlib.sha256(_read_locale(path, locale)[1]).hexdigest()


def _read_locale(path: Path, locale: str) -> tuple[str, bytes]:
    if locale not in LOCALES:
        suggestions = get_close_matches(locale, LOCALES, n=3, cutoff=0.4)
        remedy = f"Did you mean {' or '.join(suggestions)}?" if suggestions else f"Known: {', '.join(LOCALES)}"
        raise CorpusError(located(path, None, f"{locale!r} is not a locale of MASSIVE 1.1", remedy))
    return read_data_file(path, f"{locale}.jsonl")


def _rows(location: str, content: bytes, locale: str, language: str, numbers: "array[int]") -> Iterator[dict[str, Any]]:
    """Yield the rows, and append the line of each to `numbers`."""
    for number, ended in enumerate(BytesIO(content), start=1):
        line = ended.removesuffix(b"\n")
        if not line.strip():
            continue
        try:
            check_line(line)
            row = _row(_record(line, locale), language)
        except ValueError as error:  # broken UTF-8 and broken JSON are ValueErrors too
            raise CorpusError(located(location, number, str(error), _REMEDY)) from error
        numbers.append(number)
        yield row


def _record(line: bytes, locale: str) -> dict[str, str]:
    """Parse one line and check that every field exists and is text."""
    record = parsed_json(line.decode("utf-8"))
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, found {type(record).__name__}")
    if missing := [field for field in _FIELDS if field not in record]:
        raise ValueError(f"fields {missing} are missing")
    if not_text := [field for field in _FIELDS if not isinstance(record[field], str)]:
        raise ValueError(f"fields {not_text} are not text")
    if record["locale"] != locale:
        raise ValueError(f"locale is {quoted(record['locale'])} in the file of {locale!r}")
    if record["partition"] not in _PARTITIONS:
        raise ValueError(f"partition {quoted(record['partition'])} is none of {_PARTITIONS}")
    return record


def _row(record: dict[str, str], language: str) -> dict[str, Any]:
    check_length(record["utt"])
    check_length(record["annot_utt"])
    text = normalise(record["utt"])
    if not text.strip():
        raise ValueError("the utterance is empty")
    if reserved := [mark for mark in (MASK, *sorted(MARKERS)) if mark in text]:
        raise ValueError(f"the utterance has {reserved}, which stand for masked words in stored texts")
    slots = bracketed_slots(normalise(record["annot_utt"]), text)
    tokens, tags = tag_tokens(text, language, slots)
    return {
        "utterance_id": record["id"],
        "split": record["partition"],
        "domain": record["scenario"],
        "intent": record["intent"],
        "text": text,
        "tokens": tokens,
        "slot_tags": tags,
        "text_key": text_key(text),
    }
