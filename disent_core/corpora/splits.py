"""What is done to rows once they are read: splits are drawn where none is published, rows are limited."""

import hashlib

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from disent_core.corpora.contract import Shares

_SPLITS = ("train", "dev", "test")
_DRAWN = 2.0**64


def draw_splits(table: pa.Table, shares: Shares, seed: int = 0) -> pa.Table:
    """The table with `split` drawn at random; a table with rows in more splits than `test` is returned as it is.

    Pairs of sentences that share a sentence, on whichever side and also by way of other pairs, go to one split: no
    sentence of the test split is trained on. Utterances go by their id, so that translations agree. What a row
    gets depends on the smallest key of the rows it is bound to and on nothing else, so that a corpus that grows
    keeps its splits; the shares hold on average.

    Args:
        table: rows in the schema `sentence_pairs` or `utterances`.
        shares: of train, dev and test; they sum to 1.
        seed: of the draw.
    """
    if not table.num_rows or pc.any(pc.not_equal(table["split"], "test")).as_py():
        return table
    is_of_pairs = "pair_id" in table.column_names
    keys = _smallest_bound_keys(table) if is_of_pairs else pl.Series(table["utterance_id"])
    drawn = keys.unique()
    splits = keys.replace_strict(drawn, _draw(drawn, shares, seed), return_dtype=pl.String)
    position = table.column_names.index("split")
    field = table.schema.field("split")
    return table.set_column(position, field, splits.to_arrow().cast(field.type))


def limited(table: pa.Table, limit: int | None) -> pa.Table:
    """The first `limit` rows of each split, in their order; None: all rows."""
    if limit is None:
        return table
    splits = pl.DataFrame(table.select(["split"]))
    return table.filter(splits.select(pl.int_range(pl.len()).over("split") < limit).to_series().to_arrow())


def _smallest_bound_keys(table: pa.Table) -> pl.Series:
    """For each row the smallest key among all sentences that it is bound to."""
    sides = pl.concat([pl.Series(table[name]) for name in ("source_key", "target_key")])
    keys = sides.unique().sort()
    sources, targets = (sides.rank("dense").to_numpy() - 1).reshape(2, -1)  # in order: the smallest key is node 0
    edges = coo_array((np.ones(len(sources), np.int8), (sources, targets)), shape=(len(keys), len(keys)))
    count, component = connected_components(edges, directed=False)
    smallest = np.full(count, len(keys))
    np.minimum.at(smallest, component, np.arange(len(keys)))
    return keys.gather(smallest[component[sources]])


def _draw(keys: pl.Series, shares: Shares, seed: int) -> list[str]:
    """The split of each key, by its hash."""
    digests = b"".join(hashlib.sha256(f"{seed}\n{key}".encode()).digest()[:8] for key in keys)
    drawn = np.frombuffer(digests, ">u8") / _DRAWN
    places = np.searchsorted(np.cumsum(shares), drawn, side="right")
    return [_SPLITS[min(place, len(_SPLITS) - 1)] for place in places.tolist()]
