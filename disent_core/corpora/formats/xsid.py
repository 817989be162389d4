"""Read xSID as published, from version 0.4 on: `de.valid.conll`, `de.test.conll`, one utterance per block.

van der Goot et al. 2021, From Masked Language Modeling to Translation: Non-English Auxiliary Tasks Improve
Zero-shot Spoken Language Understanding, https://aclanthology.org/2021.naacl-main.197. A block has headers `# id`,
`# text`, `# intent` (`:` or `=`), then one tab-separated row per token: index, token, intent, tag. Utterances of
equal id are translations; English has no ids, so its ids are the positions in the file.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from disent_core.corpora.annotation import bio_tags
from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.faults import REMEDY, Faults, RowError, distinct_ids
from disent_core.corpora.languages import language_code
from disent_core.corpora.lines import check_length, files_hash, read_lines, stored_text
from disent_core.corpora.paths import check_folder, files_below, split_files
from disent_core.errors import CorpusError, located, quoted
from disent_core.storage.tables import rows_table
from disent_core.text import normalise, separator_of, text_key, token_spans

KIND: Kind = "utterances"
TRAINS = True
SHARES: Shares | None = None
PARALLEL = "some"
LOCALES = None

_SPLITS = {"train": "train", "valid": "dev", "test": "test"}
_NAME = re.compile(rf"([a-z]{{2,3}}(?:-[a-z]{{2,4}})?)\.({'|'.join(_SPLITS)})\.conll")
_HEADER = re.compile(r"#\s*([\w-]+)\s*[:=](.*)")
_COLUMNS = 4


class _Block(NamedTuple):
    """One utterance as published."""

    line: int
    headers: dict[str, str]
    rows: list[list[str]]


def language_of(locale: str) -> str:
    """The language of a locale: dialects (`de-st`) are languages of their own."""
    return language_code(locale)


def locales(path: Path) -> list[str]:
    """Languages in the folder or below it, sorted.

    Raises:
        CorpusError: if the folder does not exist, or has no language, or has one twice.
    """
    return sorted(_files(path))


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Rows of one language in the schema `utterances`: train, dev (`valid`), test, each in the order of its file.

    Tokens and tags are those of the rows. The text is the header's, or the joined tokens if they are not its words. A
    tag I- that continues no slot is read as B-. An utterance without tokens is left out, and an id that occurs twice is
    made distinct. Each such fault of a file is logged with its count.

    Args:
        path: the folder of a version, or one above it that has just one.
        locale: as in the file names, `de-st`.
        corpus: the name that the rows carry.
        language: the language that the rows carry.

    Raises:
        CorpusError: if the language is absent; if a file is missing, empty or not UTF-8; if a row has another
            number of columns or an illegal tag; if an utterance has no intent; or if half of the utterances are left
            out.
    """
    files, faults = _files_of(path, locale), Faults()
    rows = [row for split, file in files.items() for row in _utterances(file, _SPLITS[split], language, faults)]
    table = rows_table([{"corpus": corpus, "language": language, **row} for row in rows], "utterances")
    return faults.told(table)


def content_hash(path: Path, locale: str) -> str:
    """SHA-256, 64 hex digits, of the files of all splits of this language.

    Raises:
        CorpusError: as `read_utterances`, short of malformed lines.
    """
    return files_hash(_files_of(path, locale).values())


def _files_of(path: Path, locale: str) -> dict[str, Path]:
    return split_files(path, repr(locale), locale, _files(path), _SPLITS)


def _files(path: Path) -> dict[str, dict[str, Path]]:
    """Return locale -> split as published -> file."""
    check_folder(path)
    files_by_locale: dict[str, dict[str, Path]] = {}
    for file in sorted(path.glob("*.conll")) or files_below(path, "*.conll"):
        if match := _NAME.fullmatch(file.name):
            first = files_by_locale.setdefault(match[1], {}).setdefault(match[2], file)
            if first != file:
                problem = f"{file.relative_to(path)} and {first.relative_to(path)} are of one language and split"
                raise CorpusError(located(path, None, problem, "Set the path to the folder of one version"))
    if not files_by_locale:
        remedy = "Files are named like de.test.conll; is this the right path?"
        raise CorpusError(located(path, None, "it has no such files", remedy))
    return files_by_locale


# --- blocks -----------------------------------------------------------------------------------------------


def _utterances(path: Path, split: str, language: str, faults: Faults) -> Iterator[dict[str, Any]]:
    ids, places, rows = [], [], []
    for position, block in enumerate(_blocks(path), start=1):
        try:
            row = _utterance(block, language, partial(faults.repair, path, block.line))
        except RowError as problem:
            faults.leave_out(path, block.line, problem)
            continue
        except ValueError as error:
            raise CorpusError(located(path, block.line, str(error), REMEDY)) from error
        ids.append(block.headers.get("id", str(position)))
        places.append((path, block.line))
        rows.append(row)
    distinct = list(distinct_ids(faults, ids, places, rows))
    faults.check(len(distinct), path)
    for published, row in distinct:
        yield {"utterance_id": f"{split}-{published}", "split": split, **row}


def _blocks(path: Path) -> Iterator[_Block]:
    """Yield utterances of the file, each with the number of its first line.

    Raises:
        CorpusError: if a row does not have four columns.
    """
    block = _Block(1, {}, [])
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if not line.strip():
            if block.headers or block.rows:
                yield block
            block = _Block(number + 1, {}, [])
        elif header := _HEADER.match(line):
            block.headers[header[1]] = header[2].strip()
        else:
            fields = [field.strip() for field in line.split("\t")]
            if len(fields) != _COLUMNS:
                problem = f"expected index, token, intent and tag by tab, found {quoted(line)}"
                raise CorpusError(located(path, number, problem, REMEDY))
            block.rows.append(fields)


def _utterance(block: _Block, language: str, repair: Callable[[str], None]) -> dict[str, Any]:
    rows = [fields for fields in block.rows if fields[1]]
    if not rows:
        raise RowError("the utterance that begins here has no tokens", "an utterance without tokens is left out")
    if len(rows) < len(block.rows):
        repair("a row without token is skipped")
    check_length(separator_of(language).join(token for _, token, _, _ in rows))
    tokens, published = [normalise(token) for _, token, _, _ in rows], [tag for *_, tag in rows]
    tags = bio_tags(published)
    if tags != published:
        repair("a tag I- that continues no slot is read as B-")
    intent = block.headers.get("intent") or rows[0][2]
    if not intent:
        raise ValueError("the utterance that begins here has no intent")
    if any(row_intent != intent for _, _, row_intent, _ in rows):
        repair("the intents of its rows differ from the header's, which is used")
    joined = separator_of(language).join(tokens)
    text = stored_text(block.headers.get("text") or joined)
    if not _covers(tokens, text):
        repair("the tokens are not the words of the text, which is replaced by the joined tokens")
        text = stored_text(joined)
    return {
        "domain": intent.partition("/")[0],
        "intent": intent,
        "text": text,
        "tokens": tokens,
        "slot_tags": tags,
        "text_key": text_key(text),
    }


def _covers(tokens: list[str], text: str) -> bool:
    try:
        token_spans(text, tokens)
    except ValueError:
        return False
    return True
