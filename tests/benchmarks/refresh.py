"""What a refresh of real MASSIVE costs beside making everything, from corpora to embeddings, in one run.

python -m tests.benchmarks.refresh [MASSIVE_TARBALL] [--config configs/massive_quick.toml] [--home FOLDER]

Each materialisation is a process of its own, as on the command line: its seconds include starting Python. The
archive is unpacked into a copy, in which one German training utterance gets another first word, and later its own
again.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.negatives import DEFAULT_MASSIVE

CONFIG = Path(__file__).parents[2] / "configs" / "massive_quick.toml"
LOCALES = ("en-US", "de-DE", "es-ES", "ja-JP")
SELECTION = "+group:embeddings"
DISENT = "from disent_assets.cli import main; main()"


class Run(NamedTuple):
    """Seconds of the clock and of the processor, and the line with which a materialisation ends."""

    seconds: float
    cpu: float
    summary: str


def unpack(tarball: Path, folder: Path) -> Path:
    """The archive's files of four languages; returns the folder that a corpus has as its path."""
    with tarfile.open(tarball) as archive:
        wanted = [one for one in archive.getmembers() if Path(one.name).name in {f"{name}.jsonl" for name in LOCALES}]
        archive.extractall(folder, members=wanted, filter="data")
    return folder


def configure(config: Path, folder: Path, corpus: Path) -> Path:
    """The configuration with absolute paths, and the unpacked copy as its corpus."""
    text = config.read_text(encoding="utf-8")
    text = re.sub(r'"[^"]*massive-dataset[^"]*\.tar\.gz"', json.dumps(str(corpus)), text, count=1)
    text = re.sub(r'"(\.\./[^"]*)"', lambda found: json.dumps(str((config.parent / found[1]).resolve())), text)
    own = folder / "disent.toml"
    own.write_text(text, encoding="utf-8")
    return own


def change_one(file: Path) -> None:
    """Another first word in one training utterance that has no slot there: at most three texts are new."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    place = next(i for i, row in enumerate(rows) if row["partition"] == "train" and row["annot_utt"][0] != "[")
    for name in ("utt", "annot_utt"):
        rows[place][name] = " ".join(["unvergleichlich", *rows[place][name].split(" ")[1:]])
    lines[place] = json.dumps(rows[place], ensure_ascii=False) + "\n"
    file.write_text("".join(lines), encoding="utf-8")


def materialize(config: Path, home: Path) -> Run:
    """Up to and including the embeddings."""
    own = {"DISENT_CONFIG": str(config), "DISENT_HOME": str(home)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", DISENT, "materialize", SELECTION]
    done = subprocess.run(command, env=os.environ | own, check=True, text=True, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(time.perf_counter() - started, cpu, done.stdout.strip())


def row(name: str, refresh: Run, full: Run) -> dict[str, object]:
    """One line of the result: the peer is making everything; `note` has the shares."""
    shares = f"{refresh.seconds / full.seconds:.2%} of the seconds, {refresh.cpu / full.cpu:.2%} of the processor's"
    return {
        "name": name,
        "ours_seconds": round(refresh.seconds, 1),
        "peer_seconds": round(full.seconds, 1),
        "ratio": round(full.seconds / refresh.seconds, 1),
        "note": f"{shares} ({refresh.cpu:.1f} and {full.cpu:.1f}); {refresh.summary}; all: {full.summary}",
    }


def run(massive: Path = DEFAULT_MASSIVE, config: Path = CONFIG, folder: Path | None = None) -> list[dict[str, object]]:
    """Everything, nothing changed, one utterance changed, and the same utterance changed back."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        work = Path(made)
        corpus = unpack(massive, work / "massive")
        own, home = configure(config, work, corpus), work / "home"
        file = next(corpus.rglob("de-DE.jsonl"))
        full, nothing = materialize(own, home), materialize(own, home)
        original = file.read_bytes()
        change_one(file)
        changed = materialize(own, home)
        file.write_bytes(original)
        back = materialize(own, home)
    refreshes = (("nothing changed", nothing), ("one utterance changed", changed), ("changed back", back))
    return [row(f"refresh up to the embeddings, {what}", one, full) for what, one in refreshes]


def main() -> None:
    """Print every line as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("massive", type=Path, nargs="?", default=DEFAULT_MASSIVE)
    parser.add_argument("--config", type=Path, default=CONFIG, help="reads MASSIVE from its archive")
    parser.add_argument("--home", type=Path, help="folder below which results lie while it runs (default: temporary)")
    arguments = parser.parse_args()
    for line in run(arguments.massive, arguments.config, arguments.home):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
