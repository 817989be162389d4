"""Check the rows that a reader returns; a reader from outside the library may return any."""

import polars as pl
import pyarrow as pa

from disent_core.corpora.splits import SPLITS
from disent_core.errors import CorpusError
from disent_core.storage.text_columns import key_strings
from disent_core.text import MOST_CHARACTERS

_KEYS = {"text": "text_key", "source": "source_key", "target": "target_key"}
"""Column of the key of each column of texts."""


def check_rows(table: pa.Table, name: str, remedy: str) -> None:
    """Check ids, splits, texts and keys of the rows of a corpus in a language or a pair.

    Args:
        table: rows in the schema `utterances` or `sentence_pairs`; columns that it lacks, or that have no strings,
            are not checked.
        name: corpus and language or pair, for the message.
        remedy: what to do about a bad row, for the message.

    Raises:
        CorpusError: if an id occurs twice, a split is none of train, dev and test, a text is blank or too long, or a
            key is not that of its text; the message names the first such row.
    """
    row, identifier = ("pair", "pair_id") if "pair_id" in table.column_names else ("utterance", "utterance_id")
    names = [column for column in (identifier, "split", *_KEYS, *_KEYS.values()) if column in table.column_names]
    rows = pl.DataFrame(table.select(names)).select(pl.col(pl.String))
    for is_bad, problem in _problems(table, rows, identifier):
        if (bad := is_bad.arg_true()).len():
            first = rows.row(bad[0], named=True)
            label = repr(first[identifier]) if identifier in first else f"of row {bad[0] + 1}"
            raise CorpusError(f"{name}, {row} {label}: {problem.format(**first)}. {remedy}")


def _problems(table: pa.Table, rows: pl.DataFrame, identifier: str) -> list[tuple[pl.Series, str]]:
    """Return for each problem which rows have it, and its description, a format string of the columns."""
    problems: list[tuple[pl.Series, str]] = []
    if identifier in rows:
        problems.append((~rows[identifier].is_first_distinct(), f"{identifier} occurs twice"))
    if "split" in rows:
        is_known = rows["split"].is_in(SPLITS).fill_null(value=False)
        problems.append((~is_known, f"split {{split!r}} is none of {', '.join(SPLITS)}"))
    for text, key in _KEYS.items():
        if text not in rows:
            continue
        texts = rows[text].fill_null("")
        is_long, is_blank = texts.str.len_chars() > MOST_CHARACTERS, texts.str.strip_chars() == ""
        problems.append((is_long, f"{text} has more than {MOST_CHARACTERS:,} characters"))
        problems.append((is_blank, f"{text} is empty"))
        if key in rows and not (is_long | is_blank).any():
            is_other = rows[key].ne_missing(pl.Series(key_strings(table[text]), dtype=pl.String))
            problems.append((is_other, f"{key} {{{key}!r}} is not disent_core.text.text_key of its {text}"))
    return problems
