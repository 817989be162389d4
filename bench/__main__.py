"""Run every benchmark and write docs/benchmarks.json and docs/benchmarks.md.

python -m bench [MASSIVE_TARBALL] [--only PART]

With `--only`, the rows of one part are measured again and replaced; those of the others stay, and so do all rows that
were measured on another processor.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import encoding, negatives, precisions, products, retrieval, slots, static_models, tables, training
from bench.measuring import processor_facts, processor_seconds

HEAD = ("| what | ours, s | peer, s | times faster | note |", "|---|---|---|---|---|")
DOCS = Path(__file__).parents[1] / "docs"
Rows = list[dict[str, Any]]
Part = dict[str, Any]
"""Rows and seconds of one part."""
Measured = dict[str, dict[str, Part]]
"""Processor -> name -> part."""


def parts(massive: Path) -> dict[str, Callable[[], Any]]:
    """Return every part by name, in the order of the table."""
    return {
        "negatives": lambda: negatives.run(massive),
        "tables": lambda: tables.run(massive.parents[1]),
        "encoding": lambda: encoding.run(massive),
        "static": lambda: static_models.run(massive),
        "precisions": lambda: precisions.run(massive),
        "retrieval": retrieval.run,
        "slots": lambda: slots.run(massive),
        "training": training.run,
        "products": products.run,
    }


def main() -> None:
    """Measure us and each peer in the same run: ratios are comparable, seconds depend on the machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("massive", type=Path, nargs="?", default=negatives.DEFAULT_MASSIVE)
    parser.add_argument("--only", choices=[*parts(Path())], help="measure one part again")
    arguments = parser.parse_args()
    chosen = parts(arguments.massive)
    for name in [arguments.only] if arguments.only else chosen:
        measured = timed(name, chosen[name])
        known = read(DOCS)
        write(known | {processor(): known.get(processor(), {}) | {name: measured}}, DOCS)


def processor() -> str:
    """Return the processor's name with its family and model, which distinguish generations of the same name."""
    facts = processor_facts()
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    return f"{facts['model name']}, family {facts.get('cpu family')}, model {facts.get('model')}"


def read(docs: Path) -> Measured:
    """Return every part as it was last measured."""
    return json.loads((docs / "benchmarks.json").read_text(encoding="utf-8"))


def write(measured: Measured, docs: Path) -> None:
    """Replace benchmarks.json, and the tables in benchmarks.md."""
    ordered = {
        machine: {name: of_machine[name] for name in parts(Path()) if name in of_machine}
        for machine, of_machine in sorted(measured.items())
    }
    (docs / "benchmarks.json").write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")
    page = docs / "benchmarks.md"
    head, _, tail = page.read_text(encoding="utf-8").partition("<!-- make bench -->")
    rest = tail.partition("<!-- end -->")[2]
    page.write_text(f"{head}<!-- make bench -->\n{tables_of(ordered)}\n<!-- end -->{rest}", encoding="utf-8")


def timed(name: str, part: Callable[[], Any]) -> Part:
    """Run a part and return its rows and its seconds, which are also printed to stderr."""
    started, before = time.perf_counter(), processor_seconds()
    rows = list(part())
    seconds, used = time.perf_counter() - started, processor_seconds() - before
    print(f"{name}: {seconds:.0f} s, {used:.0f} s of the processor", file=sys.stderr, flush=True)
    return {"seconds": round(seconds), "rows": rows}


def tables_of(measured: Measured) -> str:
    """Return all rows as Markdown, one table per processor, and the time of each part."""
    lines: list[str] = []
    for machine, of_machine in measured.items():
        lines += ["", f"**{machine}**", "", *HEAD]
        for row in (row for part in of_machine.values() for row in part["rows"]):
            cells = [row["name"], row["ours_seconds"], row["peer_seconds"], row["ratio"], row["note"]]
            lines.append("| " + " | ".join("" if cell is None else f"{cell}" for cell in cells) + " |")
        seconds = {name: part["seconds"] for name, part in of_machine.items()}
        took = ", ".join(f"{name} {each}" for name, each in seconds.items())
        lines += ["", f"Seconds of the clock of each part: {took}; together {sum(seconds.values())}."]
    return "\n".join(lines[1:])


if __name__ == "__main__":
    main()
