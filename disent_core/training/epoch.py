"""Describe a training run and report its results: the loss terms of each epoch, and their table (the curve)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from disent_core.storage.tables import rows_table


@dataclass(frozen=True)
class Fit:
    """A training run of every seed. An interrupted run resumes from its checkpoint.

    Attributes:
        seeds: random seeds.
        checkpoint: file or folder of the training state; a checkpoint of other `inputs` is not used.
        inputs: fingerprint of everything that the weights depend on, including the vectors of the texts.
        device: `cpu` or `cuda`.
        initial: weights to start from, as `save` wrote them; given only if the settings ask for a warm start.
    """

    seeds: Sequence[int]
    checkpoint: Path
    inputs: str
    device: str = "cpu"
    initial: Path | None = None


@dataclass(frozen=True)
class Epoch:
    """Results of one pass over the training pairs: `terms[split][name]` has one value for each of `seeds`.

    `steps` counts all steps up to its end. `is_best`: the seed's dev score is its best so far. `is_replayed`: the epoch
    was read from a checkpoint instead of computed.
    """

    number: int
    seeds: tuple[int, ...]
    terms: Mapping[str, Mapping[str, tuple[float, ...]]]
    is_best: tuple[bool, ...]
    steps: int
    seconds: float
    is_replayed: bool = field(default=False, compare=False)


def curve_table(epochs: Sequence[Epoch], *, method: str, encoder: str, trained_on: str) -> pa.Table:
    """Make the `training_curve` table, with one row per seed, epoch and loss term."""
    head = {"method": method, "encoder": encoder, "trained_on": trained_on}
    rows = [
        {**head, "seed": seed, "epoch": epoch.number, "split": split, "term": term, "value": values[index],
         "is_best": epoch.is_best[index]}
        for epoch in epochs
        for split, terms in epoch.terms.items()
        for term, values in terms.items()
        for index, seed in enumerate(epoch.seeds)
    ]  # fmt: skip
    return rows_table(rows, "training_curve")
