"""What training reports: an epoch's loss terms, and the table of all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from disent_core.storage.tables import rows_table


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training pairs gave: `terms[split][name]` has one value for each of `seeds`.

    `steps` and `is_best` are as of its end; `is_replayed` where it comes from a checkpoint and was not computed.
    """

    number: int
    seeds: tuple[int, ...]
    terms: Mapping[str, Mapping[str, tuple[float, ...]]]
    is_best: tuple[bool, ...]
    steps: int
    seconds: float
    is_replayed: bool = field(default=False, compare=False)


def curve_table(epochs: Sequence[Epoch], *, method: str, encoder: str, trained_on: str) -> pa.Table:
    """The `training_curve` table: one term of one epoch of one seed a row."""
    rows = [
        {
            "method": method,
            "encoder": encoder,
            "trained_on": trained_on,
            "seed": seed,
            "epoch": epoch.number,
            "split": split,
            "term": term,
            "value": values[index],
            "is_best": epoch.is_best[index],
        }
        for epoch in epochs
        for split, terms in epoch.terms.items()
        for term, values in terms.items()
        for index, seed in enumerate(epoch.seeds)
    ]
    return rows_table(rows, "training_curve")
