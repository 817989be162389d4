"""Draw splits for corpora that publish none, and limit the number of rows."""

import hashlib

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from disent_core.corpora.contract import Shares

SPLITS = ("train", "dev", "test")
_HASH_RANGE = 2.0**64


def draw_splits(table: pa.Table, shares: Shares, seed: int = 0) -> pa.Table:
    """Draw the column `split` at random; return a table with rows outside `test` unchanged.

    Sentence pairs that share a sentence on either side, also transitively, get the same split, so no sentence of the
    test split is trained on. Utterances are drawn by id, so that translations get the same split. The split of a row
    depends only on the smallest key of its connected component, so a corpus that grows keeps its splits; the shares
    hold on average.

    Args:
        table: rows in the schema `sentence_pairs` or `utterances`.
        shares: of train, dev and test; they sum to 1.
        seed: of the draw.
    """
    if not table.num_rows or pc.any(pc.not_equal(table["split"], "test")).as_py():
        return table
    is_of_pairs = "pair_id" in table.column_names
    keys = _smallest_component_keys(table) if is_of_pairs else pl.Series(table["utterance_id"])
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


def _smallest_component_keys(table: pa.Table) -> pl.Series:
    """Return for each pair the smallest key in its connected component of the graph of sentences."""
    sides = pl.concat([pl.Series(table[name]) for name in ("source_key", "target_key")])
    keys = sides.unique().sort()
    sources, targets = (sides.rank("dense").to_numpy() - 1).reshape(2, -1)  # nodes are numbered in the order of keys
    edges = coo_array((np.ones(len(sources), np.int8), (sources, targets)), shape=(len(keys), len(keys)))
    count, component = connected_components(edges, directed=False)
    smallest = np.full(count, len(keys))
    np.minimum.at(smallest, component, np.arange(len(keys)))
    return keys.gather(smallest[component[sources]])


def _draw(keys: pl.Series, shares: Shares, seed: int) -> list[str]:
    """Draw the split of each key from its hash."""
    digests = b"".join(hashlib.sha256(f"{seed}\n{key}".encode()).digest()[:8] for key in keys)
    uniform = np.frombuffer(digests, ">u8") / _HASH_RANGE
    indices = np.searchsorted(np.cumsum(shares), uniform, side="right")
    return [SPLITS[min(index, len(SPLITS) - 1)] for index in indices.tolist()]
