"""Measure time and memory for many texts, stage by stage, from corpora to a head.

python -m bench.scale [--texts 100000] [--corpus bitext|utterances|distilled] [--home FOLDER]

The corpus is invented: a bitext of two languages with a text a side, or annotated utterances of one language. The
encoder is tiny; of `distilled` it is the teacher of another one, which is made from the bitext in 100 steps. Each stage
is one process, as on the command line with one worker; the system reports its processor time and its most resident
memory, of which pages of mapped files are a part that it may take back.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "core"))

from tiny_encoder import tiny_encoder
from tiny_teacher import save_teacher

STAGES = {
    "bitext": ("corpora", "targets", "embeddings", "heads"),
    "utterances": ("corpora", "negatives", "targets", "embeddings"),
    "distilled": ("corpora", "embeddings/student/student_aligned", "embeddings/student/student_encoder"),
}
WORDS = 50_000
CONFIG = """
[[corpora]]
name = "invented"
path = "corpus"
{corpus}

[[encoders]]
name = "tiny"
kind = "huggingface"
path = {encoder}
pooling = "mean"
max_length = 32
batch_tokens = 8192

[methods.dream_once]
method = "dream"
max_epochs = 1

[experiment]
pairs = ["{pair}"]
methods = ["{method}"]
seeds = [0]
device = "cpu"

[evaluation]
tasks = ["{task}"]
"""
STUDENT = """

[[encoders]]
name = "student"
kind = "distilled"
teacher = "tiny"
corpora = ["invented"]
max_length = 32
max_steps = 100
"""
CORPORA = {
    "bitext": {
        "corpus": 'format = "moses"\npairs = ["en-de"]\nsplits = [0.99, 0.005, 0.005]',
        "pair": "en-de", "method": "dream_once", "task": "heldout_retrieval",
    },
    "utterances": {
        "corpus": 'format = "massive"\nlanguages = ["en-US"]',
        "pair": "en", "method": "raw", "task": "template_retrieval",
    },
    "distilled": {
        "corpus": 'format = "moses"\npairs = ["en-de"]\nsplits = [0.99, 0.005, 0.005]' + STUDENT,
        "pair": "en-de", "method": "raw", "task": "heldout_retrieval",
    },
}  # fmt: skip
RUN = """
import os, pathlib, resource, sys
from disent_assets.warehouse import costs
from disent_assets.cli import main
costs.RESET_PEAK = pathlib.Path(os.devnull)  # the peak of all steps is asked for below
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""

MORE = 100
ADD = f"""
import resource, sys
from disent_assets.settings.environment import open_workspace
from disent_core.embeddings.arrays import Texts
from disent_core.lineage.embeddings import lazy_encoder, store
from disent_core.text import text_key
workspace = open_workspace()
encoder, vectors = lazy_encoder(workspace, "tiny").load("en"), store(workspace, "tiny", "en")
vectors.open_vectors()
before = resource.getrusage(resource.RUSAGE_SELF)
added = vectors.add(encoder, Texts.of_mapping({{text_key(text): text for text in map(str, range(-{MORE}, 0))}}))
assert added.encoded == {MORE} and len(vectors.open_vectors().keys) > {MORE}
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
print(seconds, used.ru_maxrss, file=sys.stderr)
"""


def words(chance: random.Random) -> list[str]:
    """Draw 3 to 10 words, of which low numbers are frequent."""
    return [f"w{int(WORDS ** chance.random())}" for _ in range(chance.randint(3, 10))]


def utterances(count: int) -> Iterator[str]:
    """Yield lines of a MASSIVE file; a third of the utterances have a slot."""
    chance = random.Random(0)
    for number in range(count):
        plain = words(chance)
        marked = list(plain)
        if number % 3 == 0:
            place = chance.randrange(len(plain))
            marked[place] = f"[slot_{number % 40} : {plain[place]}]"
        row = {
            "id": str(number),
            "locale": "en-US",
            "partition": "test" if number % 100 == 0 else "dev" if number % 100 == 1 else "train",
            "scenario": "invented",
            "intent": f"intent_{number % 60}",
            "utt": " ".join(plain),
            "annot_utt": " ".join(marked),
        }
        yield json.dumps(row) + "\n"


def write_corpus(folder: Path, kind: str, count: int) -> None:
    """Write a corpus of `count` texts."""
    folder.mkdir(parents=True)
    if kind == "utterances":
        with (folder / "en-US.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(utterances(count))
        return
    chance = random.Random(0)
    with (folder / "en-de.en").open("w") as english, (folder / "en-de.de").open("w") as german:
        for number in range(count // 2):
            sentence = words(chance)
            english.write(f"{' '.join(sentence)} {number}\n")
            german.write(f"{' '.join(reversed(sentence))} {number} de\n")


def measure(folder: Path, kind: str, count: int) -> Iterator[str]:
    """Yield a Markdown table row for each stage, for a second run of all, and for a run with a few more texts."""
    write_corpus(folder / "corpus", kind, count)
    if kind == "distilled":
        encoder = save_teacher(folder / "encoder", words=[f"w{number}" for number in range(WORDS)])
    else:
        encoder = tiny_encoder(folder / "encoder").folder
    config = CONFIG.format(encoder=json.dumps(str(encoder)), **CORPORA[kind])
    (folder / "disent.toml").write_text(config, encoding="utf-8")
    yield "| stage | processor seconds | seconds | peak memory, GB | texts a processor second |"
    yield "|---|---|---|---|---|"
    for stage in (*STAGES[kind], "all again"):
        chosen = [stage] if stage in STAGES[kind] else STAGES[kind]
        selection = " or ".join(f"key:{name}" if "/" in name else f"key:{name}/*" for name in chosen)
        yield row(stage, count, folder, RUN, "materialize", selection, "--workers", "1")
    yield row(f"{MORE} more texts of one language", MORE, folder, ADD)


def row(name: str, texts: int, folder: Path, *command: str) -> str:
    """Run a program and return its row of the table."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", *command],
        env=os.environ | {"DISENT_CONFIG": str(folder / "disent.toml"), "DISENT_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    used, peak = map(float, done.stderr.split()[-2:])
    seconds = time.perf_counter() - began
    return f"| {name} | {used:.1f} | {seconds:.0f} | {peak * 1024 / 1e9:.2f} | {texts / used:,.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--corpus", choices=STAGES, default="bitext")
    parser.add_argument("--home", type=Path, help="where the corpus and the results go; default: a temporary folder")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="disent-scale-") as temporary:
        for line in measure(chosen.home or Path(temporary), chosen.corpus, chosen.texts):
            print(line, flush=True)


if __name__ == "__main__":
    main()
