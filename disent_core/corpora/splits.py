"""What is done to rows once they are read: splits are drawn where none is published, rows are limited."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from disent_core.corpora.contract import Shares

_SPLITS = ("train", "dev", "test")
_DRAWN = 1 << 64


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
    keys = _smallest_bound_keys(table) if is_of_pairs else table["utterance_id"].to_pylist()
    split_of = {key: _draw(key, shares, seed) for key in set(keys)}
    splits = pa.array([split_of[key] for key in keys], pa.string())
    position = table.column_names.index("split")
    return table.set_column(position, table.schema.field("split"), splits)


def limited(table: pa.Table, limit: int | None) -> pa.Table:
    """The first `limit` rows of each split, in their order; None: all rows."""
    if limit is None:
        return table
    splits = np.asarray(table["split"].to_pylist(), dtype=object)
    kept = [np.flatnonzero(splits == split)[:limit] for split in np.unique(splits.astype(str))]
    return table.take(np.sort(np.concatenate(kept))) if kept else table


def _smallest_bound_keys(table: pa.Table) -> list[str]:
    """For each row the smallest key among all sentences that it is bound to."""
    sides = [np.asarray(table[name].to_pylist(), dtype=bytes) for name in ("source_key", "target_key")]
    keys, nodes = np.unique(np.concatenate(sides), return_inverse=True)  # in order: the smallest key is the lowest node
    sources, targets = nodes.reshape(2, -1)
    edges = coo_array((np.ones(len(sources), np.int8), (sources, targets)), shape=(len(keys), len(keys)))
    count, component = connected_components(edges, directed=False)
    smallest = np.full(count, len(keys))
    np.minimum.at(smallest, component, np.arange(len(keys)))
    return keys[smallest[component[sources]]].astype(str).tolist()


def _draw(key: str, shares: Sequence[float], seed: int) -> str:
    digest = hashlib.sha256(f"{seed}\n{key}".encode()).digest()
    drawn = int.from_bytes(digest[:8], "big") / _DRAWN
    for split, edge in zip(_SPLITS, np.cumsum(shares), strict=True):
        if drawn < edge:
            return split
    return _SPLITS[-1]
