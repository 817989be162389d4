"""Measure memory and time for a large corpus, stage by stage, from corpora to sentence vectors.

python -m tests.benchmarks.resources [--utterances 1000000] [--home FOLDER]

The corpus is invented: so many utterances of one language in MASSIVE's format. The encoder is tiny. Each stage is a
separate process, as on the command line, whose peak memory the system reports.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))

from tiny_encoder import tiny_encoder

STAGES = ("corpora", "negatives", "targets", "embeddings")
CONFIG = """
[[corpora]]
name = "invented"
format = "massive"
path = "corpus"
languages = ["en-US"]

[[encoders]]
name = "tiny"
kind = "huggingface"
path = {encoder}
pooling = "mean"
max_length = 32

[experiment]
pairs = ["en"]
methods = ["raw"]
seeds = [0]
device = "cpu"

[evaluation]
tasks = ["template_retrieval"]
"""
RUN = """
import os, pathlib, resource, sys
from disent_assets import step_costs
from disent_assets.cli import main
step_costs.RESET_PEAK = pathlib.Path(os.devnull)  # the peak of all steps is asked for below
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def lines(count: int) -> Iterator[str]:
    """Utterances of 3 to 10 words from 50,000 words, of which low numbers are frequent; a third has a slot."""
    chance = random.Random(0)
    for number in range(count):
        words = [f"w{int(50_000 ** chance.random())}" for _ in range(chance.randint(3, 10))]
        marked = list(words)
        if number % 3 == 0:
            place = chance.randrange(len(words))
            marked[place] = f"[slot_{number % 40} : {words[place]}]"
        row = {
            "id": str(number),
            "locale": "en-US",
            "partition": "test" if number % 100 == 0 else "dev" if number % 100 == 1 else "train",
            "scenario": "invented",
            "intent": f"intent_{number % 60}",
            "utt": " ".join(words),
            "annot_utt": " ".join(marked),
        }
        yield json.dumps(row) + "\n"


def measure(folder: Path, count: int) -> Iterator[str]:
    """A line of a Markdown table for each stage, and for a second run of all of them."""
    data = folder / "corpus" / "1.1" / "data"
    data.mkdir(parents=True)
    with (data / "en-US.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(lines(count))
    encoder = tiny_encoder(folder / "encoder").folder
    (folder / "disent.toml").write_text(CONFIG.format(encoder=json.dumps(str(encoder))), encoding="utf-8")
    yield "| stage | seconds | peak memory, GB | bytes an utterance |"
    yield "|---|---|---|---|"
    for stage in (*STAGES, "all again"):
        selection = " or ".join(f"key:{name}/*" for name in STAGES) if stage == "all again" else f"key:{stage}/*"
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", RUN, "materialize", selection],
            env=os.environ | {"DISENT_CONFIG": str(folder / "disent.toml"), "DISENT_HOME": str(folder / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        peak = int(done.stderr.split()[-1]) * 1024
        seconds = time.perf_counter() - began
        yield f"| {stage} | {seconds:.0f} | {peak / 1e9:.2f} | {peak / count:,.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, default=1_000_000)
    parser.add_argument("--home", type=Path, help="where the corpus and the results go; default: a temporary folder")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="disent-resources-") as temporary:
        for line in measure(chosen.home or Path(temporary), chosen.utterances):
            print(line, flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{chosen.utterances:,} utterances; {used.ru_utime + used.ru_stime:.0f} s of processor time in all")


if __name__ == "__main__":
    main()
