"""Read lines of text files strictly and build tables of their rows, for readers of line-based formats."""

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from disent_core.corpora.paths import opened
from disent_core.corpora.row_errors import REMEDY, RowError, RowErrors
from disent_core.errors import AlignmentError, CorpusError, commas, located, quoted
from disent_core.storage.schemas import SCHEMAS
from disent_core.storage.tables import conform, rows_table
from disent_core.storage.text_columns import TextCollector, key_strings
from disent_core.text import MARKERS, MASK, MOST_CHARACTERS, normalise, parsed_json, text_key

_RESERVED = re.compile("|".join(map(re.escape, (MASK, *sorted(MARKERS)))))
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

MOST_LINE_BYTES = 100 * MOST_CHARACTERS
"""Most bytes of a line, which may have more fields than the text."""


def check_line(line: bytes) -> None:
    """Check a line before it is parsed."""
    if len(line) > MOST_LINE_BYTES:
        raise ValueError(f"a line of {len(line):,} bytes; the limit is {MOST_LINE_BYTES:,}")


def number_in(text: str) -> float:
    """Parse a number; NaN if the text is not one."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def json_object(text: str) -> dict[str, Any]:
    """Parse a line of JSON, which must be an object."""
    value = parsed_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {type(value).__name__}")
    return value


def check_length(text: str) -> None:
    """Check a text before anything else is done with it."""
    if len(text) > MOST_CHARACTERS:
        problem = f"a text of {len(text):,} characters; shorten it to at most {MOST_CHARACTERS:,}"
        raise RowError(problem, f"a row with a text of more than {MOST_CHARACTERS:,} characters is left out")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file; line n is item n - 1. Only a line feed ends a line; a carriage return before
    it and a byte order mark are dropped, and the last line may lack its line feed.
    """
    return list(iter_lines(path))


def iter_lines(path: Path) -> Iterator[str]:
    """Yield the lines of `read_lines`."""
    number = 0
    try:
        with opened(path) as file:
            if not file.peek(1).removeprefix(_BYTE_ORDER_MARK):
                raise CorpusError(located(path, None, "this file is empty", "Write or download it again"))
            for number, line in enumerate(file, start=1):
                content = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                check_line(content := content.removesuffix(b"\n"))
                yield content.removesuffix(b"\r").decode("utf-8")
    except ValueError as error:
        is_of_bytes = isinstance(error, UnicodeDecodeError)
        problem, remedy = (f"not UTF-8 ({error})", "Save the file as UTF-8") if is_of_bytes else (str(error), REMEDY)
        raise CorpusError(located(path, number, problem, remedy)) from error


def stored_text(text: str) -> str:
    """Return the text in NFC, as tables store it."""
    check_length(text)
    if not text.strip():
        raise RowError("the sentence is empty", "a row with an empty sentence is left out")
    normal = normalise(text)
    if reserved := _RESERVED.findall(normal):
        problem = f"the sentence has {commas(map(quoted, reserved))}, reserved for masked words in stored texts"
        raise RowError(problem, "a row with characters that stand for masked words is left out")
    return normal


def parallel_lines(
    left: Path, right: Path, row_errors: RowErrors
) -> tuple[Int[np.ndarray, " pairs"], pa.ChunkedArray, pa.ChunkedArray]:
    """Read two aligned files: the numbers of lines with usable text, and the texts of both files in NFC."""
    reject_unequal(left, right, *(sum(1 for _ in iter_lines(path)) for path in (left, right)))
    numbers, left_texts, right_texts = array("q"), TextCollector(), TextCollector()
    is_blank = True
    for number, (left_line, right_line) in enumerate(zip(iter_lines(left), iter_lines(right), strict=True), start=1):
        if not left_line.strip() and not right_line.strip():
            continue
        is_blank = False
        if not left_line.strip() or not right_line.strip():
            blank, filled = (right, left) if left_line.strip() else (left, right)
            problem = f"this line is blank, but line {number} of {filled.name} is not"
            row_errors.leave_out(
                blank, number, RowError(problem, "a pair without this side is left out"), AlignmentError
            )
            continue
        path = left
        try:
            left_text, path = stored_text(left_line), right
            right_text = stored_text(right_line)
        except RowError as problem:
            row_errors.leave_out(path, number, problem)
            continue
        numbers.append(number)
        left_texts.append(left_text)
        right_texts.append(right_text)
    if is_blank:
        raise CorpusError(located(left, None, "this file has only blank lines", "Write or download it again"))
    row_errors.check(len(numbers), left, right)
    return np.array(numbers, dtype=np.int64), left_texts.column(), right_texts.column()


def reject_unequal(left: Path, right: Path, left_count: int, right_count: int) -> None:
    if left_count != right_count:
        longer, surplus = (left, right_count + 1) if left_count > right_count else (right, left_count + 1)
        problem = f"{left.name} has {left_count:,} lines and {right.name} has {right_count:,}; this line has no partner"
        raise AlignmentError(located(longer, surplus, problem, "Take both files from the same release of the corpus"))


def utterance(
    utterance_id: str,
    split: str,
    text: str,
    tokens: Sequence[str],
    tags: Sequence[str],
    intent: str | None = None,
    domain: str | None = None,
) -> dict[str, Any]:
    """Return a row for `utterances_table`; `text` must come from `stored_text`."""
    return {
        "utterance_id": utterance_id, "split": split, "domain": domain, "intent": intent, "text": text,
        "tokens": tokens, "slot_tags": tags, "text_key": text_key(text),
    }  # fmt: skip


def utterances_table(rows: Iterable[Mapping[str, Any]], corpus: str, language: str) -> pa.Table:
    """Build a table in the schema `utterances` from rows of one corpus and language."""
    return rows_table(({"corpus": corpus, "language": language, **row} for row in rows), "utterances")


Values = Sequence[Any] | pa.Array | pa.ChunkedArray


def sentence_pairs_table(corpus: str, pair: str, **columns: Values) -> pa.Table:
    """Build a table in the schema `sentence_pairs`, with texts in NFC, from columns of equal length.

    They are `pair_id`, `split`, `source`, `target` and, where pairs are graded, `score` and `mean_score`.
    """
    rows = len(columns["pair_id"])
    named = {"corpus": pa.repeat(corpus, rows), "pair": pa.repeat(pair, rows)}
    ungraded = {name: pa.nulls(rows, pa.float64()) for name in ("score", "mean_score")}
    keys = {f"{side}_key": key_strings(columns[side]) for side in ("source", "target")}
    return conform(pa.table({**named, **ungraded, **columns, **keys}), SCHEMAS["sentence_pairs"], "sentence_pairs")
