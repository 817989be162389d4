"""Sum the processor seconds of each method, run once on one encoder, from the published costs of a larger run.

python -m bench.once

All registered methods count. Of a method's names in configs/massive_minilm.toml, the most expensive stands for it, on
the first of `ENCODERS` that it was trained on. Training seconds come from docs/results/trainings.csv; those of
evaluations and encodings are in docs/benchmarks.md under "Each method once".
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from disent_core.config.load import load_config

ROOT = Path(__file__).parents[1]
ENCODERS = ("minilm_mean", "minilm_multi", "minilm_cls")
LANGUAGES, PAIRS, SEEDS = 4, 3, 3
ENCODING = (385 + 341 + 430) / 3
"""Seconds to encode a language, with token states."""
EVALUATIONS = {
    "raw": 7, "bertscore": 757, "dream": 37, "lexicon": 59, "fmda_softmax": 77, "facet": 212, "fine_tuned": 173,
    "twosl": 206, "twosl_no_filter": 206, "twosl_no_contrastive": 167,
}  # fmt: skip
"""Seconds for one training set with the method's configured seeds; `twosl` was not measured separately."""
EVALUATION = (14_200 - 1_321) / 158
"""Mean seconds of an evaluation over a whole run, for the other methods."""


class Trained(NamedTuple):
    """Trainings of a method under one of its names: numbers of pairs, seeds and trainings, and their seconds."""

    encoder: str
    name: str
    pairs: int
    seeds: int
    trainings: int
    training_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of the trainings and their evaluations."""
        return self.training_seconds + EVALUATIONS.get(self.name, EVALUATION) * self.trainings


def trained(rows: Iterable[Mapping[str, str]]) -> list[Trained]:
    """Sum up the trainings in docs/results/trainings.csv by encoder and method."""
    by_head: dict[tuple[str, str], list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        by_head[row["encoder"], row["method"]].append(row)
    return [
        Trained(
            *of,
            pairs=min(PAIRS, sum(row["trained_on"].count("+") + 1 for row in rows)),
            seeds=int(rows[0]["seeds"]),
            trainings=len(rows),
            training_seconds=sum(float(row["processor_seconds"]) for row in rows),
        )
        for of, rows in by_head.items()
    ]


def once(rows: Iterable[Trained], methods: Mapping[str, str]) -> list[Trained]:
    """Return the trainings that stand for each method; `methods` maps names to methods."""
    best: dict[str, Trained] = {}
    for row in sorted(rows, key=lambda row: (row.seconds, row.name)):
        if row.encoder in ENCODERS:
            before = best.get(methods[row.name], row)
            if ENCODERS.index(row.encoder) <= ENCODERS.index(before.encoder):
                best[methods[row.name]] = row
    return list(best.values())


def main() -> None:
    """Print one row for methods with equal encoder, pairs and seeds, and the sums."""
    methods = {name: of.method for name, of in load_config(ROOT / "configs/massive_minilm.toml").methods.items()}
    with (ROOT / "docs/results/trainings.csv").open(encoding="utf-8", newline="") as file:
        rows = trained(csv.DictReader(file))
    groups: dict[tuple[str, int, int], list[Trained]] = defaultdict(list)
    for row in once(rows, {name: method.name for name, method in methods.items()}):
        groups[row.encoder, row.pairs, row.seeds if methods[row.name].is_seeded else SEEDS].append(row)
    print("| methods | encoder | pairs | seeds | seconds | with three pairs and three seeds |\n" + "|---" * 6 + "|")
    rest = LANGUAGES * ENCODING + PAIRS * EVALUATIONS["raw"] + EVALUATIONS["bertscore"]
    total, whole = rest, rest
    for (encoder, pairs, seeds), members in sorted(groups.items(), key=lambda group: group[0][1:], reverse=True):
        names = ", ".join(sorted(f"`{row.name}`" for row in members))
        seconds = sum(row.seconds for row in members)
        more = seconds * PAIRS / pairs * SEEDS / seeds
        print(f"| {names} | `{encoder}` | {pairs} | {seeds} | {seconds:,.0f} | {more:,.0f} |")
        total, whole = total + seconds, whole + more
    print(f"| encodings; evaluations of `raw` and `bertscore` | | | | {rest:,.0f} | {rest:,.0f} |")
    print(f"| all | | | | {total:,.0f} | {whole:,.0f} |")


if __name__ == "__main__":
    main()
