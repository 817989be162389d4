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
from disent_core.corpora.lines import check_length, read_lines, stored_text, utterance, utterances_table
from disent_core.corpora.paths import SplitFiles, files_below
from disent_core.corpora.row_errors import REMEDY, RowError, RowErrors
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


def _name_and_split(file: Path) -> tuple[str, str] | None:
    match = _NAME.fullmatch(file.name)
    return match and (match[1], match[2])


_FILES = SplitFiles(
    lambda path: sorted(path.glob("*.conll")) or files_below(path, "*.conll"),
    _name_and_split,
    splits=tuple(_SPLITS),
    examples="de.test.conll",
)
language_of = language_code  # dialects (`de-st`) are languages of their own
locales = _FILES.names
content_hash = _FILES.content_hash


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Read one language in the schema `utterances`: train, dev (`valid`), test, each in the order of its file.

    Tokens and tags are those of the rows. The text is the header's, or the joined tokens if they are not its words. A
    tag I- that continues no slot is read as B-. An utterance without tokens is left out, and an id that occurs twice is
    made distinct. Each such fault of a file is logged with its count.
    """
    files, row_errors = _FILES.of(path, locale), RowErrors()
    rows = [row for split, file in files.items() for row in _utterances(file, _SPLITS[split], language, row_errors)]
    return row_errors.noted(utterances_table(rows, corpus, language))


class _Block(NamedTuple):
    """One utterance as published."""

    line: int
    headers: dict[str, str]
    rows: list[list[str]]


def _utterances(path: Path, split: str, language: str, row_errors: RowErrors) -> Iterator[dict[str, Any]]:
    numbered = ((block.line, (position, block)) for position, block in enumerate(_blocks(path), start=1))
    parsed = row_errors.parsed(
        path, numbered, lambda item: _utterance(item[1], split, language, partial(row_errors.repair, path))
    )
    rows = [(location, block.headers.get("id", str(position)), row) for location, (position, block), row in parsed]
    for published, row in row_errors.distinct(rows, path):
        yield row | {"utterance_id": f"{split}-{published}"}


def _blocks(path: Path) -> Iterator[_Block]:
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


def _utterance(block: _Block, split: str, language: str, repair: "partial[None]") -> dict[str, Any]:
    rows = [fields for fields in block.rows if fields[1]]
    if not rows:
        raise RowError("the utterance that begins here has no tokens", "an utterance without tokens is left out")
    if len(rows) < len(block.rows):
        repair(block.line, "a row without token is skipped")
    check_length(separator_of(language).join(token for _, token, _, _ in rows))
    tokens, published = [normalise(token) for _, token, _, _ in rows], [tag for *_, tag in rows]
    tags = bio_tags(published)
    if tags != published:
        repair(block.line, "a tag I- that continues no slot is read as B-")
    intent = block.headers.get("intent") or rows[0][2]
    if not intent:
        raise ValueError("the utterance that begins here has no intent")
    if any(row_intent != intent for _, _, row_intent, _ in rows):
        repair(block.line, "the intents of its rows differ from the header's, which is used")
    joined = separator_of(language).join(tokens)
    text = stored_text(block.headers.get("text") or joined)
    try:
        token_spans(text, tokens)
    except ValueError:
        repair(block.line, "the tokens are not the words of the text, which is replaced by the joined tokens")
        text = stored_text(joined)
    return utterance("", split, text, tokens, tags, intent, domain=intent.partition("/")[0])
