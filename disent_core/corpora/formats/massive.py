"""Read MASSIVE 1.1 as published: `1.1/data/LOCALE.jsonl`, in its archive or unpacked.

FitzGerald et al. 2023, MASSIVE: A 1M-Example Multilingual Natural Language Understanding Dataset with 51
Typologically-Diverse Languages, https://aclanthology.org/2023.acl-long.235. Utterances are parallel by id.

The archive is never unpacked to disk. Only regular members are read: links, devices and sparse files are skipped. The
unpacked bytes are bounded by the size of the archive, so that a small one can't fill the memory.
"""

import errno
import hashlib
from collections.abc import Iterator
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from disent_core.corpora.annotation import bracketed_slots, tag_tokens
from disent_core.corpora.contract import Kind
from disent_core.corpora.lines import check_length, check_line, json_object, stored_text, utterance, utterances_table
from disent_core.corpora.paths import absent, missing, read_bytes
from disent_core.errors import CorpusError, commas, located, quoted
from disent_core.storage.archives import ArchiveError, TooLargeError, opened_tar
from disent_core.storage.text_columns import first_repeated
from disent_core.text import language_part, normalise

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


language_of = language_part


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Read one locale in the schema `utterances`, in the order of the file."""
    location, content = _read_locale(path, locale)
    table = utterances_table(_rows(location, content, locale, language), corpus, language)
    if not len(table):
        raise CorpusError(located(location, None, "this file has no utterances", "Download the archive again"))
    if repeated := first_repeated(table["utterance_id"]):
        numbers = [number for number, line in enumerate(BytesIO(content), start=1) if line.strip()]
        first, again = (numbers[row] for row in repeated)
        problem = f"id {quoted(table['utterance_id'][repeated[1]].as_py())} is already on line {first}"
        raise CorpusError(located(location, again, problem, _REMEDY))
    return table


def locales(path: Path) -> list[str]:
    files = data_files(path)
    present = [name for name in LOCALES if f"{name}.jsonl" in files]
    if not present:
        raise CorpusError(located(path, None, "it has no data/LOCALE.jsonl of MASSIVE", "Check the path"))
    return present


def content_hash(path: Path, locale: str) -> str:
    """Return the SHA-256, 64 hex digits, of the bytes of this locale's file, which does not depend on other locales."""
    return hashlib.sha256(_read_locale(path, locale)[1]).hexdigest()


def _read_locale(path: Path, locale: str) -> tuple[str, bytes]:
    if locale not in LOCALES:
        suggestions = get_close_matches(locale, LOCALES, n=3, cutoff=0.4)
        remedy = f"Did you mean {' or '.join(suggestions)}?" if suggestions else f"Known: {', '.join(LOCALES)}"
        raise CorpusError(located(path, None, f"{locale!r} is not a locale of MASSIVE 1.1", remedy))
    return read_data_file(path, f"{locale}.jsonl")


def _rows(location: str, content: bytes, locale: str, language: str) -> Iterator[dict[str, Any]]:
    for number, ended in enumerate(BytesIO(content), start=1):
        line = ended.removesuffix(b"\n")
        if not line.strip():
            continue
        try:
            check_line(line)
            yield _row(_record(line, locale), language)
        except ValueError as error:  # broken UTF-8 and broken JSON are ValueErrors too
            raise CorpusError(located(location, number, str(error), _REMEDY)) from error


def _record(line: bytes, locale: str) -> dict[str, str]:
    record = json_object(line.decode("utf-8"))
    if missing := [field for field in _FIELDS if field not in record]:
        raise ValueError(f"missing fields: {commas(missing)}")
    if not_text := [field for field in _FIELDS if not isinstance(record[field], str)]:
        raise ValueError(f"fields that are not text: {commas(not_text)}")
    if record["locale"] != locale:
        raise ValueError(f"locale is {quoted(record['locale'])} in the file of {locale!r}")
    if record["partition"] not in _PARTITIONS:
        raise ValueError(f"partition {quoted(record['partition'])} is not one of {commas(_PARTITIONS)}")
    return record


def _row(record: dict[str, str], language: str) -> dict[str, Any]:
    text = stored_text(record["utt"])
    check_length(record["annot_utt"])
    tokens, tags = tag_tokens(text, language, bracketed_slots(normalise(record["annot_utt"]), text))
    return utterance(record["id"], record["partition"], text, tokens, tags, record["intent"], record["scenario"])


def read_data_file(path: Path, name: str) -> tuple[str, bytes]:
    """Return the location (for messages) and content of the file `data/NAME`, such as `en-US.jsonl`.

    The path is a tar archive, compressed or not, or the folder `data`, its parent, or the parent of that.
    """
    if path.is_dir():
        for folder in _folders(path):
            if (folder / name).is_file():
                return str(folder / name), read_bytes(folder / name)
    elif path.is_file() and (file := _members(path, name).get(name)):
        return file
    present = map(PurePosixPath, data_files(path))
    raise absent(path, f"file {name}", {file.stem for file in present if file.suffix == PurePosixPath(name).suffix})


def data_files(path: Path) -> set[str]:
    """Return the names of the files in the folder `data`, archived or unpacked."""
    if path.is_dir():
        return {file.name for folder in _folders(path) for file in folder.glob("*") if file.is_file()}
    if path.is_file():
        return set(_members(path))
    raise missing(path)


def _folders(path: Path) -> list[Path]:
    """Return the folders that may hold the files, the newest version first."""
    return [path, path / "data", *sorted(path.glob("*/data"), reverse=True)]


def _members(path: Path, wanted: str | None = None) -> dict[str, tuple[str, bytes] | None]:
    """Return the archive's files in a folder `data` by name, with location and content of the file named `wanted`.

    Reads on to the end after that file: the checksum of a compressed archive comes last.
    """
    members: dict[str, tuple[str, bytes] | None] = {}
    try:
        with opened_tar(path) as listed:
            for member, opened in listed:
                parts = PurePosixPath(member.name).parts
                if not member.isreg() or member.issparse() or ".." in parts or parts[-2:-1] != ("data",):
                    continue
                content = opened() if parts[-1] == wanted else None
                members[parts[-1]] = (f"{path}:{member.name}", content.read()) if content else None
    except TooLargeError as error:
        remedy = (
            "This does not look like an archive of this corpus; if it is one, unpack it and set the path to the folder"
        )
        raise CorpusError(located(path, None, str(error), remedy)) from error
    except ArchiveError as error:
        is_of_disk = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO
        remedy = "Check the disk" if is_of_disk else "Download the archive again"
        raise CorpusError(located(path, None, str(error), remedy)) from error
    return members
