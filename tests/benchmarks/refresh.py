"""Compare a refresh of real MASSIVE with a first run, from corpora to embeddings.

python -m tests.benchmarks.refresh [MASSIVE_TARBALL] [--config configs/massive_quick.toml] [--home FOLDER]

Each materialisation is a separate process, as on the command line, so its seconds include the start of Python. The
archive is unpacked into a copy, in which the first word of one German training utterance is changed, and later
changed back.
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
SELECTION = "+key:embeddings/*"
DISENT = "from disent_assets.cli import main; main()"


class Run(NamedTuple):
    """Seconds of the clock and of the processor, and the line with which a materialisation ends."""

    seconds: float
    cpu: float
    summary: str


def unpack(tarball: Path, folder: Path) -> Path:
    """The archive's files of four languages; returns the folder that a corpus has as its path."""
    with tarfile.open(tarball) as archive:
        wanted = [
            member for member in archive.getmembers() if Path(member.name).name in {f"{name}.jsonl" for name in LOCALES}
        ]
        archive.extractall(folder, members=wanted, filter="data")
    return folder


def configure(config: Path, folder: Path, corpus: Path) -> Path:
    """The configuration with absolute paths, and the unpacked copy as its corpus."""
    text = config.read_text(encoding="utf-8")
    text = re.sub(r'"[^"]*massive-dataset[^"]*\.tar\.gz"', json.dumps(str(corpus)), text, count=1)
    text = re.sub(r'"(\.\./[^"]*)"', lambda match: json.dumps(str((config.parent / match[1]).resolve())), text)
    path = folder / "disent.toml"
    path.write_text(text, encoding="utf-8")
    return path


def change_one(file: Path) -> None:
    """Change the first word of one training utterance that has no slot there: at most three texts are new."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    place = next(i for i, row in enumerate(rows) if row["partition"] == "train" and row["annot_utt"][0] != "[")
    for name in ("utt", "annot_utt"):
        rows[place][name] = " ".join(["unvergleichlich", *rows[place][name].split(" ")[1:]])
    lines[place] = json.dumps(rows[place], ensure_ascii=False) + "\n"
    file.write_text("".join(lines), encoding="utf-8")


def materialize(config: Path, home: Path) -> Run:
    """Run everything up to and including the embeddings."""
    environment = os.environ | {"DISENT_CONFIG": str(config), "DISENT_HOME": str(home)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", DISENT, "materialize", SELECTION]
    done = subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(time.perf_counter() - started, cpu, done.stdout.strip())


def row(name: str, refresh: Run, full: Run) -> dict[str, object]:
    """One line of the result; the peer is a first run, and `note` has the shares."""
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
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        work = Path(temporary)
        corpus = unpack(massive, work / "massive")
        path, home = configure(config, work, corpus), work / "home"
        file = next(corpus.rglob("de-DE.jsonl"))
        full, nothing = materialize(path, home), materialize(path, home)
        original = file.read_bytes()
        change_one(file)
        changed = materialize(path, home)
        file.write_bytes(original)
        back = materialize(path, home)
    refreshes = (("nothing changed", nothing), ("one utterance changed", changed), ("changed back", back))
    return [row(f"refresh up to the embeddings, {what}", refresh, full) for what, refresh in refreshes]


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
