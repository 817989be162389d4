"""What training reports: an epoch's loss terms, and the table of all of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from disent_core.optimisation.steps import EpochReport
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


def epochs_of_seed(reports: Iterable[EpochReport], seed: int, steps: int) -> Iterator[Epoch]:
    """What the stages of a seed's training report, numbered through; `steps` were taken before.

    The loss of a stage that has a name is a term of that name, too.
    """
    stage, before = "", steps
    for number, report in enumerate(reports, start=1):
        if report.stage != stage:
            stage, before = report.stage, steps
        steps = before + report.steps
        terms = {split: {name: (value,) for name, value in means.items()} for split, means in report.terms.items()}
        if stage:
            terms["train"] = {stage: terms["train"]["total"], **terms["train"]}
        replayed = report.is_replayed
        yield Epoch(number, (seed,), terms, (report.is_best,), steps, report.seconds, is_replayed=replayed)
