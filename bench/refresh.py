"""Compare a refresh of real MASSIVE with a first run, from corpora to embeddings, or of everything.

python -m bench.refresh [MASSIVE_TARBALL] [--config configs/massive_quick.toml] [--home FOLDER]
python -m bench.refresh --whole --config bench/refresh.toml

Each materialisation is a separate process, as on the command line, so its seconds include the start of Python. The
archive is unpacked into a copy, in which the first word of one German utterance is changed: of the training split, of
the test split, and both back.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_CHILDREN
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.measuring import processor_seconds, row
from bench.negatives import DEFAULT_MASSIVE

CONFIG = Path(__file__).parents[1] / "configs" / "massive_quick.toml"
LOCALES = ("en-US", "de-DE", "es-ES", "ja-JP")
SELECTION = ("+key:embeddings/*",)
WHOLE = ()
COSTS = Path("tables/warehouse/step_costs/all.parquet")
DISENT = "from disent_assets.cli import main; main()"


class Run(NamedTuple):
    """Wall-clock and processor seconds of a materialisation, its last line, and the costs of its steps."""

    seconds: float
    cpu: float
    summary: str
    stages: str


def unpack(tarball: Path, folder: Path) -> Path:
    """Unpack the archive's files of four languages; return the folder to use as the path of the corpus."""
    with tarfile.open(tarball) as archive:
        wanted = [
            member for member in archive.getmembers() if Path(member.name).name in {f"{name}.jsonl" for name in LOCALES}
        ]
        archive.extractall(folder, members=wanted, filter="data")
    return folder


def configure(config: Path, folder: Path, corpus: Path) -> Path:
    """Write the configuration with absolute paths and the unpacked copy as its corpus."""
    text = config.read_text(encoding="utf-8")
    text = re.sub(r'"[^"]*massive-dataset[^"]*\.tar\.gz"', json.dumps(str(corpus)), text, count=1)
    text = re.sub(r'"(\.\./[^"]*)"', lambda match: json.dumps(str((config.parent / match[1]).resolve())), text)
    path = folder / "disent.toml"
    path.write_text(text, encoding="utf-8")
    return path


def change_one(file: Path, split: str = "train") -> None:
    """Change the first word of one utterance of a split that has no slot there, so at most three texts are new."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    place = next(i for i, row in enumerate(rows) if row["partition"] == split and row["annot_utt"][0] != "[")
    for name in ("utt", "annot_utt"):
        rows[place][name] = " ".join(["unvergleichlich", *rows[place][name].split(" ")[1:]])
    lines[place] = json.dumps(rows[place], ensure_ascii=False) + "\n"
    file.write_text("".join(lines), encoding="utf-8")


def materialize(config: Path, home: Path, selection: Sequence[str]) -> Run:
    """Run the selected steps: everything up to and including the embeddings, or simply everything."""
    environment = os.environ | {"DISENT_CONFIG": str(config), "DISENT_HOME": str(home)}
    before, started, began = processor_seconds(RUSAGE_CHILDREN), time.perf_counter(), datetime.now(UTC)
    command = [sys.executable, "-c", DISENT, "materialize", *selection]
    done = subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE)
    seconds, cpu = time.perf_counter() - started, processor_seconds(RUSAGE_CHILDREN) - before
    return Run(seconds, cpu, done.stdout.strip(), _by_stage(home / COSTS, began))


def _by_stage(costs: Path, began: datetime) -> str:
    """Return the steps that have run since `began`, with their processor seconds, by stage."""
    steps = pq.read_table(costs)
    made = steps.filter(pc.greater_equal(steps["made_at"], began)).group_by("stage", use_threads=False)
    stages = made.aggregate([("processor_seconds", "sum"), ("stage", "count")]).to_pylist()
    return ", ".join(
        f"{row['stage']} {row['processor_seconds_sum']:.1f} s ({row['stage_count']} steps)" for row in stages
    )


def compared(name: str, refresh: Run, full: Run) -> dict[str, Any]:
    """Return one row of the result; the peer is a first run, and `note` gives the shares."""
    shares = f"{refresh.seconds / full.seconds:.2%} of the seconds, {refresh.cpu / full.cpu:.2%} of the processor's"
    note = f"{shares} ({refresh.cpu:.1f} and {full.cpu:.1f}); {refresh.summary}; {refresh.stages}; all: {full.summary}"
    return row(name, refresh.seconds, full.seconds, f"{note}; {full.stages}", digits=1, of_ratio=1)


def run(
    massive: Path = DEFAULT_MASSIVE,
    config: Path = CONFIG,
    folder: Path | None = None,
    selection: Sequence[str] = SELECTION,
) -> Iterator[dict[str, Any]]:
    """Run everything; then with no change, with a training and a test utterance changed, and with both restored."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        work = Path(temporary)
        corpus = unpack(massive, work / "massive")
        path, home = configure(config, work, corpus), work / "home"
        file = next(corpus.rglob("de-DE.jsonl"))
        original = file.read_bytes()
        changes: dict[str, Callable[[], object]] = {
            "nothing changed": lambda: None,
            "one training utterance changed": lambda: change_one(file),
            "one test utterance changed": lambda: change_one(file, "test"),
            "both changed back": lambda: file.write_bytes(original),
        }
        full = materialize(path, home, selection)
        upto = "of everything" if selection == WHOLE else "up to the embeddings"
        for what, change in changes.items():
            change()
            yield compared(f"refresh {upto}, {what}", materialize(path, home, selection), full)


def main() -> None:
    """Print every line as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("massive", type=Path, nargs="?", default=DEFAULT_MASSIVE)
    parser.add_argument("--config", type=Path, default=CONFIG, help="reads MASSIVE from its archive")
    parser.add_argument("--home", type=Path, help="folder below which results lie while it runs (default: temporary)")
    parser.add_argument("--whole", action="store_true", help="everything, with heads, evaluation and warehouse")
    arguments = parser.parse_args()
    selection = WHOLE if arguments.whole else SELECTION
    for line in run(arguments.massive, arguments.config, arguments.home, selection):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
