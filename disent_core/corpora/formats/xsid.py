"""Read xSID as published, from version 0.4 on: `de.valid.conll`, `de.test.conll`, one utterance per block.

van der Goot et al. 2021, From Masked Language Modeling to Translation: Non-English Auxiliary Tasks Improve
Zero-shot Spoken Language Understanding, https://aclanthology.org/2021.naacl-main.197. A block has headers `# id`,
`# text`, `# intent` (`:` or `=`), then one tab-separated row per token: index, token, intent, tag. Utterances of
equal id are translations; English has no ids, so its ids are the positions in the file.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from disent_core.corpora.annotation import bio_tags
from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import language_code
from disent_core.corpora.lines import check_length, files_hash, read_lines, stored_text, utterance, utterances_table
from disent_core.corpora.paths import check_folder, files_below, split_files
from disent_core.corpora.row_errors import REMEDY, Location, RowError, RowErrors, distinct_ids
from disent_core.errors import CorpusError, located, quoted
from disent_core.text import normalise, separator_of, token_spans

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
    """Return the language of a locale: dialects (`de-st`) are languages of their own."""
    return language_code(locale)


def locales(path: Path) -> list[str]:
    """Return the languages in the folder or below it, sorted."""
    return sorted(_files(path))


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Read one language in the schema `utterances`: train, dev (`valid`), test, each in the order of its file.

    Tokens and tags are those of the rows. The text is the header's, or the joined tokens if they are not its words. A
    tag I- that continues no slot is read as B-. An utterance without tokens is left out, and an id that occurs twice is
    made distinct. Each such fault of a file is logged with its count.
    """
    files, row_errors = _files_of(path, locale), RowErrors()
    rows = [row for split, file in files.items() for row in _utterances(file, _SPLITS[split], language, row_errors)]
    return row_errors.noted(utterances_table(rows, corpus, language))


def content_hash(path: Path, locale: str) -> str:
    """Return the SHA-256, 64 hex digits, of the files of all splits of this language."""
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


def _utterances(path: Path, split: str, language: str, row_errors: RowErrors) -> Iterator[dict[str, Any]]:
    rows: list[tuple[Location, str, dict[str, Any]]] = []
    numbered = ((block.line, (position, block)) for position, block in enumerate(_blocks(path), start=1))
    parse = partial(_utterance, split=split, language=language, path=path, row_errors=row_errors)
    for location, (position, block), row in row_errors.parsed(path, numbered, lambda item: parse(item[1])):
        rows.append((location, block.headers.get("id", str(position)), row))
    distinct = list(distinct_ids(row_errors, rows))
    row_errors.check(len(distinct), path)
    for published, row in distinct:
        yield row | {"utterance_id": f"{split}-{published}"}


def _blocks(path: Path) -> Iterator[_Block]:
    """Yield utterances of the file, each with the number of its first line."""
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


def _utterance(block: _Block, *, split: str, language: str, path: Path, row_errors: RowErrors) -> dict[str, Any]:
    repair = partial(row_errors.repair, path, block.line)
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
    return utterance(split, "", text, tokens, tags, intent=intent, domain=intent.partition("/")[0])


def _covers(tokens: list[str], text: str) -> bool:
    try:
        token_spans(text, tokens)
    except ValueError:
        return False
    return True
