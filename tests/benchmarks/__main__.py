"""Run every benchmark and write docs/benchmarks.json and docs/benchmarks.md.

python -m tests.benchmarks [MASSIVE_TARBALL]
"""

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import encoding, negatives, precisions, products, retrieval, slots, tables, training

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    """Measure each peer and us in the same run: the ratios are comparable, the seconds depend on the machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("massive", type=Path, nargs="?", default=negatives.DEFAULT_MASSIVE)
    massive = parser.parse_args().massive
    everything = (
        negatives.run(massive),
        tables.run(massive.parents[1]),
        encoding.run(massive),
        precisions.run(massive),
        retrieval.run(),
        slots.run(massive),
        training.run(),
        products.run(),
    )
    rows = [row for rows in everything for row in rows]
    (DOCS / "benchmarks.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    page = DOCS / "benchmarks.md"
    head, _, tail = page.read_text(encoding="utf-8").partition("<!-- make bench -->")
    rest = tail.partition("<!-- end -->")[2]
    page.write_text(f"{head}<!-- make bench -->\n{table(rows)}\n<!-- end -->{rest}", encoding="utf-8")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| what | ours, s | peer, s | times faster | note |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [row["name"], row["ours_seconds"], row["peer_seconds"], row["ratio"], row["note"]]
        lines.append("| " + " | ".join("" if cell is None else f"{cell}" for cell in cells) + " |")
    return "\n".join([*lines, "", f"{platform.machine()}, Python {platform.python_version()}."])


if __name__ == "__main__":
    main()
