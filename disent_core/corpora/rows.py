"""Check the rows of a corpus, draw splits for corpora that publish none, and limit the number of rows."""

import hashlib

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from disent_core.corpora.contract import OF_COPY, Shares
from disent_core.errors import CorpusError
from disent_core.storage.text_columns import key_strings
from disent_core.text import MOST_CHARACTERS

SPLITS = ("train", "dev", "test")
_KEYS = {"text": "text_key", "source": "source_key", "target": "target_key"}
"""Text column -> column with its keys."""


def check_rows(table: pa.Table, name: str, remedy: str) -> None:
    """Check ids, splits, texts and keys of rows in the schema `utterances` or `sentence_pairs`.

    Columns that are missing or not strings are not checked. Messages give `name`, the corpus and the language or pair,
    and end with the remedy.
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
    """Return which rows have each problem, and its description, a format string over the columns."""
    problems: list[tuple[pl.Series, str]] = []
    if identifier in rows:
        problems.append((~rows[identifier].is_first_distinct(), f"{identifier} occurs twice"))
    if "split" in rows:
        is_known = rows["split"].is_in(SPLITS).fill_null(value=False)
        problems.append((~is_known, f"split {{split!r}} is not one of {', '.join(SPLITS)}"))
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


# --- splits -----------------------------------------------------------------------------------------------------------

_HASH_RANGE = 2.0**64


def draw_splits(table: pa.Table, shares: Shares, seed: int = 0) -> pa.Table:
    """Draw the column `split` at random; return a table with rows outside `test` unchanged.

    Sentence pairs that share a sentence on either side, even transitively, get the same split, so no sentence of the
    test split is trained on. Utterances are drawn by id: translations get the same split, and `ID~2`, another row with
    the same text, gets the split of `ID`. The split of a row depends only on the smallest key of its connected
    component, so a growing corpus keeps its splits; the shares hold on average.
    """
    if not table.num_rows or pc.any(pc.not_equal(table["split"], "test")).as_py():
        return table
    is_of_pairs = "pair_id" in table.column_names
    keys = _smallest_component_keys(table) if is_of_pairs else _named(pl.Series(table["utterance_id"]))
    distinct_keys = keys.unique()
    splits = keys.replace_strict(distinct_keys, _draw(distinct_keys, shares, seed), return_dtype=pl.String)
    position = table.column_names.index("split")
    field = table.schema.field("split")
    return table.set_column(position, field, splits.to_arrow().cast(field.type))


def limited(table: pa.Table, limit: int | None) -> pa.Table:
    """Return the first `limit` rows of each split in their order, or all rows if `limit` is None."""
    if limit is None:
        return table
    splits = pl.DataFrame(table.select(["split"]))
    return table.filter(splits.select(pl.int_range(pl.len()).over("split") < limit).to_series().to_arrow())


def _named(ids: pl.Series) -> pl.Series:
    """Return the ids, with that of the first row of a text for its copies."""
    return ids.str.replace(rf"{OF_COPY}\d+$", "")


def _smallest_component_keys(table: pa.Table) -> pl.Series:
    """Return the smallest key in the connected component of each pair in the graph of sentences."""
    sides = pl.concat([pl.Series(table[name]) for name in ("source_key", "target_key")])
    keys = sides.unique().sort()
    sources, targets = (sides.rank("dense").to_numpy() - 1).reshape(2, -1)  # nodes are numbered in the order of keys
    edges = coo_array((np.ones(len(sources), np.int8), (sources, targets)), shape=(len(keys), len(keys)))
    count, component = connected_components(edges, directed=False)
    smallest = np.full(count, len(keys))
    np.minimum.at(smallest, component, np.arange(len(keys)))
    return keys.gather(smallest[component[sources]])


def _draw(keys: pl.Series, shares: Shares, seed: int) -> list[str]:
    digests = b"".join(hashlib.sha256(f"{seed}\n{key}".encode()).digest()[:8] for key in keys)
    uniform = np.frombuffer(digests, ">u8") / _HASH_RANGE
    indices = np.searchsorted(np.cumsum(shares), uniform, side="right")
    return [SPLITS[min(index, len(SPLITS) - 1)] for index in indices.tolist()]
