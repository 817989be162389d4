"""Measure what `disent train` makes of 300 to 11,514 rows: a model of its own, or `small` with a language more.

python -m bench.own_table [MASSIVE_TARBALL] [--locale pl-PL] [--rows 300 1000 3000 11514]

Rows are drawn from the train split of MASSIVE, English and another language. The test texts are 1,000 of the test
split, the same for every size; 200 dev rows fix the settings of the training.
"""

import argparse
import csv
import random
import tempfile
import time
from itertools import product
from pathlib import Path

import disent
from bench.negatives import DEFAULT_MASSIVE, massive_rows

HELD_OUT = {"dev": 200, "test": 1_000}  # rows


def drawn(archive: Path, locale: str) -> list[dict[str, str]]:
    """Return English rows with those of another locale, in random order."""
    other = locale.partition("-")[0]
    translations = {row["id"]: row["annot_utt"] for row in massive_rows(archive, locale)}
    rows = [{"en": row["annot_utt"], other: translations[row["id"]], "split": row["partition"]}
            for row in massive_rows(archive, "en-US") if row["id"] in translations]  # fmt: skip
    random.Random(0).shuffle(rows)
    return rows


def write(path: Path, rows: list[dict[str, str]], count: int) -> None:
    """Write the first `count` rows for training, and the held-out rows."""
    left = {"train": count, **HELD_OUT}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            left[row["split"]] -= 1
            if left[row["split"]] >= 0:
                writer.writerow(row)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.own_table", description=__doc__)
    parser.add_argument("archive", nargs="?", type=Path, default=DEFAULT_MASSIVE)
    parser.add_argument("--locale", default="pl-PL")
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1_000, 3_000, 11_514])
    options = parser.parse_args()
    rows = drawn(options.archive, options.locale)
    other = options.locale.partition("-")[0]
    shown = [
        ("translation", f"en-{other}"),
        ("translation", f"{other}-en"),
        *product(("shape", "values"), ("en", other)),
    ]
    print(f"| rows | model | {' | '.join(map(', '.join, shown))} | seconds |")
    print("| --- " * (len(shown) + 3) + "|")
    for count, extend in product(options.rows, (None, "small")):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder, "table.csv")
            write(table, rows, count)
            began = time.monotonic()
            trained = disent.train(table, Path(folder, "model"), extend=extend)
            seconds = time.monotonic() - began
        named = {"trained": "its own" if extend is None else f"`{extend}`, extended", "untrained": "untrained words"}
        for model in dict.fromkeys(row.model for row in trained.measured if row.model in named):
            of = {(row.measure, row.of): row for row in trained.measured if row.model == model}
            cells = [
                f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]" if (row := of.get(key)) else "" for key in shown
            ]
            print(f"| {count:,} | {named[model]} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
