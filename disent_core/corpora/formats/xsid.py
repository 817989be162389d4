"""Read xSID as published, from version 0.4 on: `de.valid.conll`, `de.test.conll`, one utterance per block.

van der Goot et al. 2021, From Masked Language Modeling to Translation: Non-English Auxiliary Tasks Improve
Zero-shot Spoken Language Understanding, https://aclanthology.org/2021.naacl-main.197. A block has headers `# id`,
`# text-en`, `# text`, `# intent` (`:` or `=`), then one tab-separated row per token: index, token, intent, tag. English
has no ids, so its ids are the positions in the file.

Rows of equal `utterance_id` are translations. The published ids alone do not ensure this: those of Lithuanian are not
the positions in English, and those of Bavarian are shifted from some row on. So a row takes the id of the English row
whose text is its `# text-en`, if it has one. Norwegian has ids such as `100/9`, item and dialect, and no `# text-en`:
there the row of one dialect stands for the item.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from disent_core.corpora.annotation import bio_tags
from disent_core.corpora.contract import Kind, Shares
from disent_core.corpora.languages import language_code
from disent_core.corpora.lines import check_length, read_lines, stored_text, utterance, utterances_table
from disent_core.corpora.paths import SplitFiles, files_below, files_hash
from disent_core.corpora.row_errors import PUBLISHED, RowError, RowErrors
from disent_core.errors import CorpusError, located, quoted
from disent_core.text import normalise, separator_of, text_key, token_spans

KIND: Kind = "utterances"
TRAINS = True
SHARES: Shares | None = None
PARALLEL = "some"
LOCALES = None
CODE_VERSION = "2"

_SPLITS = {"train": "train", "valid": "dev", "test": "test"}
_NAME = re.compile(rf"([a-z]{{2,3}}(?:-[a-z]{{2,4}})?)\.({'|'.join(_SPLITS)})\.conll")
_HEADER = re.compile(r"#\s*([\w-]+)\s*[:=](.*)")
_COLUMNS = 4


_FILES = SplitFiles(
    lambda path: sorted(path.glob("*.conll")) or files_below(path, "*.conll"),
    lambda file: (match := _NAME.fullmatch(file.name)) and (match[1], match[2]),
    splits=tuple(_SPLITS),
    examples="de.test.conll",
)
language_of = language_code  # dialects (`de-st`) are languages of their own
locales = _FILES.names

_TRUSTED = 0.95
"""Least share of a file's rows with the id of their English text for which the ids of other rows are trusted too."""


def content_hash(path: Path, locale: str) -> str:
    """Return the SHA-256, 64 hex digits, of the files of a language, and of those that decide its ids."""
    return files_hash([*_FILES.of(path, locale).values(), *_reference_files(path, locale).values()])


def _reference_files(path: Path, locale: str) -> dict[str, Path]:
    """Return split -> file of the language whose ids others take: English, or the first; empty for itself."""
    reference = min(locales(path), key=lambda name: (name != "en", name))
    return {} if locale == reference else _FILES.of(path, reference)


def read_utterances(path: Path, locale: str, *, corpus: str, language: str) -> pa.Table:
    """Read one language in the schema `utterances`: train, dev (`valid`), test, each in the order of its file.

    Tokens and tags are those of the rows. The text is the header's, or the joined tokens if they are not its words. A
    tag I- that continues no slot is read as B-. An utterance without tokens is left out. The id is that of the English
    row with the text `# text-en`, else the published one; a repeated id is made distinct. Each such fault in a file,
    and each intent that differs from the English row's, is logged with its count.
    """
    files, references, row_errors = _FILES.of(path, locale), _reference_files(path, locale), RowErrors(PUBLISHED)
    rows = [
        row
        for split, file in files.items()
        for row in _utterances(file, references.get(split), _SPLITS[split], language, row_errors)
    ]
    return row_errors.noted(utterances_table(rows, corpus, language))


class _Block(NamedTuple):
    line: int
    headers: dict[str, str]
    rows: list[list[str]]

    @property
    def intent(self) -> str:
        return self.headers.get("intent") or next((intent for _, token, intent, _ in self.rows if token), "")


def _utterances(
    path: Path, reference_path: Path | None, split: str, language: str, row_errors: RowErrors
) -> Iterator[dict[str, Any]]:
    repair = partial(row_errors.repair, path)
    blocks = ((block.line, block) for block in _blocks(path))
    parsed = list(row_errors.parsed(path, blocks, lambda block: _utterance(block, split, language, repair)))
    reference = _Reference.of(reference_path)
    ids = _ids([block for _, block, _ in parsed], reference, repair)
    rows = []
    for (location, _, row), name in zip(parsed, ids, strict=True):
        if reference.intents.get(name, row["intent"]) != row["intent"]:
            repair(location[1], "the intent differs from that of the row that it translates")
        rows.append((location, name, row))
    for name, row in row_errors.distinct(rows, path):
        yield row | {"utterance_id": f"{split}-{name}"}


def _blocks(path: Path) -> Iterator[_Block]:
    """Yield the blocks, each with an id: its position if none is published."""
    block, position = _Block(1, {}, []), count(1)
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if not line.strip():
            if block.headers or block.rows:
                block.headers.setdefault("id", str(next(position)))
                yield block
            block = _Block(number + 1, {}, [])
        elif header := _HEADER.match(line):
            block.headers[header[1]] = header[2].strip()
        else:
            fields = [field.strip() for field in line.split("\t")]
            if len(fields) != _COLUMNS:
                problem = f"expected index, token, intent and tag separated by tabs, found {quoted(line)}"
                raise CorpusError(located(path, number, problem, PUBLISHED))
            block.rows.append(fields)


# --- ids --------------------------------------------------------------------------------------------------------------


class _Reference(NamedTuple):
    """The rows of one split from which other languages take their ids."""

    ids: dict[str, list[str]]
    """English text -> ids of its rows."""
    intents: dict[str, str]
    """Id -> intent."""

    @classmethod
    def of(cls, path: Path | None) -> "_Reference":
        reference = cls({}, {})
        for block in _blocks(path) if path else ():
            english, name = _english(block, "text-en", "text"), block.headers["id"]
            if english and name not in reference.intents:
                reference.ids.setdefault(english, []).append(name)
                reference.intents[name] = block.intent
        return reference


def _english(block: _Block, *headers: str) -> str:
    """Return the first of the headers that is not empty, with single spaces."""
    text = next(filter(None, (block.headers.get(header) for header in headers)), "")
    return " ".join(normalise(text).split())


def _ids(blocks: Sequence[_Block], reference: _Reference, repair: "partial[None]") -> list[str]:
    """Return the id of each row: equal ids are translations.

    A row takes an id of its English text: its published id if that is one of them, else the first free one. A text that
    the reference lacks is its own id, unless the published ids of the file are right elsewhere.
    """
    published = [block.headers["id"].partition("/")[::2] for block in blocks]  # item and dialect
    candidates = [reference.ids.get(_english(block, "text-en"), []) for block in blocks]
    is_right = [item in names for (item, _), names in zip(published, candidates, strict=True)]
    is_trusted = sum(is_right) >= _TRUSTED * sum(map(bool, candidates))
    taken = {of_row for of_row, right in zip(published, is_right, strict=True) if right}
    items: list[str] = []
    for block, (item, dialect), names, right in zip(blocks, published, candidates, is_right, strict=True):
        if right or (not names and is_trusted):
            items.append(item)
        elif names:
            repair(block.line, "the id is replaced by that of its English text, which joins it to other languages")
            name = next((name for name in names if (name, dialect) not in taken), names[0])
            taken.add((name, dialect))
            items.append(name)
        else:
            repair(
                block.line,
                "no row of the file that ids are taken from has its English text, so a hash of that text is its id",
            )
            items.append(text_key(_english(block, "text-en", "text")))
    return _of_one_dialect(blocks, items, [dialect for _, dialect in published], repair)


def _of_one_dialect(
    blocks: Sequence[_Block], items: Sequence[str], dialects: Sequence[str], repair: "partial[None]"
) -> list[str]:
    """Return the item of each row, with its dialect appended unless that is the commonest dialect of the item."""
    order = [dialect for dialect, _ in sorted(Counter(dialects).items(), key=lambda pair: (-pair[1], pair[0]))]
    chosen: dict[str, str] = {}
    for item, dialect in sorted(zip(items, dialects, strict=True), key=lambda pair: order.index(pair[1])):
        chosen.setdefault(item, dialect)
    ids: list[str] = []
    for block, item, dialect in zip(blocks, items, dialects, strict=True):
        if dialect != chosen[item]:
            repair(block.line, f"a row in a dialect other than {order[0]!r} is not joined to other languages")
        ids.append(item if dialect == chosen[item] else f"{item}/{dialect}")
    return ids


# --- rows -------------------------------------------------------------------------------------------------------------


def _utterance(block: _Block, split: str, language: str, repair: "partial[None]") -> dict[str, Any]:
    rows = [fields for fields in block.rows if fields[1]]
    if not rows:
        raise RowError("the utterance that begins here has no tokens", "an utterance without tokens is left out")
    if len(rows) < len(block.rows):
        repair(block.line, "a row without a token is skipped")
    check_length(separator_of(language).join(token for _, token, _, _ in rows))
    tokens, published = [normalise(token) for _, token, _, _ in rows], [tag for *_, tag in rows]
    tags = bio_tags(published)
    if tags != published:
        repair(block.line, "an I- tag that continues no slot is read as B-")
    intent = block.intent
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
