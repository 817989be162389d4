"""Measure how the cost of the graph grows with languages, pairs and methods; nothing is encoded or trained.

python -m bench.graph [FOLDER]

Each row is a generated configuration on tiny corpora. `definitions` is what every command loads first, `disent status`
the whole command, in an empty home and in one whose partitions are all recorded as made; `sensors` is one tick of each
sensor then, if nothing has changed. All are seconds of the processor, in processes of their own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from resource import RUSAGE_CHILDREN

from bench.measuring import processor_seconds
from disent_core.corpora.formats.massive import LOCALES, language_of

CONFIG = """
[[corpora]]
name = "tiny"
format = {format}
path = "corpus"
{languages}

[[encoders]]
name = "tiny"
kind = "scratch"

[experiment]
pairs = {pairs}
methods = {methods}
seeds = [0]
{tables}"""
METHODS = ("raw", "centered", "dream")
CODES = [f"q{first}{second}" for first in "abcdefghij" for second in "abcdefghijklmnopqrstuvwxyz"]
"""Language codes that ISO 639 reserves for local use."""


# --- configurations ---------------------------------------------------------------------------------------


def write(
    folder: Path, form: str, languages: list[str], pairs: list[str], methods: list[str], tables: str = ""
) -> None:
    """Write a configuration."""
    named = f"languages = {json.dumps(languages)}" if languages else ""
    text = CONFIG.format(
        format=json.dumps(form), languages=named, pairs=json.dumps(pairs), methods=json.dumps(methods), tables=tables
    )
    (folder / "disent.toml").write_text(text, encoding="utf-8")


def all_pairs(folder: Path, count: int, methods: int = 0) -> None:
    """Write MASSIVE with all pairs of `count` languages; each of `methods` is DREAM with another number of epochs."""
    locales = list(dict.fromkeys(("en-US", *LOCALES)))[:count]
    data = folder / "corpus" / "1.1" / "data"
    data.mkdir(parents=True)
    for locale in locales:
        (data / f"{locale}.jsonl").write_text("".join(_utterances(locale)), encoding="utf-8")
    parts = [language_of(locale) for locale in locales]
    languages = [part if parts.count(part) == 1 else locale for part, locale in zip(parts, locales, strict=True)]
    names = [f"dream_{number}" for number in range(methods)]
    tables = "".join(
        f'\n[methods.{name}]\nmethod = "dream"\nmax_epochs = {number + 1}\n' for number, name in enumerate(names)
    )
    pairs = ["-".join(pair) for pair in combinations(languages, 2)]
    write(folder, "massive", locales, pairs, [*METHODS, *names], tables)


def _utterances(locale: str) -> Iterator[str]:
    for number in range(12):
        text = f"wake me at {number} {locale}"
        row = {"id": str(number), "locale": locale, "partition": ("train", "dev", "test")[number % 3],
               "scenario": "alarm", "intent": ("alarm_set", "alarm_query")[number % 2], "utt": text,
               "annot_utt": text.replace(str(number), f"[time : {number}]", 1)}  # fmt: skip
        yield json.dumps(row) + "\n"


def with_english(folder: Path, count: int) -> None:
    """Write bitext of English with other languages."""
    (folder / "corpus").mkdir(parents=True)
    for code in CODES[: count - 1]:
        for side in ("en", code):
            lines = "".join(f"line {number} {side}\n" for number in range(30))
            (folder / "corpus" / f"en-{code}.{side}").write_text(lines, encoding="utf-8")
    write(folder, "moses", [], [f"en-{code}" for code in CODES[: count - 1]], list(METHODS), "")


# --- measurements, in child processes ---------------------------------------------------------------------

DEFINITIONS = """
import time, dagster
from disent_assets.definitions import defs
started = time.process_time()
repository = defs().get_repository_def()
seconds = time.process_time() - started
graph = repository.asset_graph
print(sum(node.partitions_def.get_num_partitions() if node.partitions_def else 1 for node in graph.asset_nodes))
print(seconds)
"""
SENSORS = """
import time, dagster as dg
from disent_assets.definitions import defs
from disent_assets.settings.instance import open_instance
from disent.home import home_folder
definitions = defs()
repository = definitions.get_repository_def()
with open_instance(home_folder()) as instance, dg.build_sensor_context(instance, repository_def=repository) as context:
    for again in range(2):  # the first tick records what it has seen
        started = time.process_time()
        for sensor in definitions.sensors:
            sensor(context)
        seconds = time.process_time() - started
print(seconds)
"""
RECORD = "from bench.graph import record; record()"
STATUS = "from disent_assets.cli import main; main(['status'])"


def record() -> None:
    """Record every partition as made from the present content of its parents, with empty files."""
    from disent_assets.run.corpus_versions import read_sources
    from disent_assets.run.steps import observed_contents, steps_in
    from disent_assets.settings.environment import open_workspace
    from disent_core.lineage.state import Records, StepRecord, write_record

    workspace = open_workspace()
    steps = steps_in(workspace)
    published = observed_contents(read_sources(workspace))
    for step in steps:
        records = Records(workspace, steps, published)
        for name in step.partitions or [None]:
            contents = {"/".join(output): f"of {name}" for output in step.outputs}
            write_record(
                workspace, step.key, name, StepRecord(step.version, records.reads(step, name), contents, seconds=1.0)
            )
            for file in step.files(name):
                path = file.parent / "content" / file.name / "part-0.parquet" if "embeddings" in file.parts else file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()


def run(code: str, folder: Path) -> tuple[str, float]:
    """Return a program's output on a configuration, and its processor seconds."""
    environment = os.environ | {"DISENT_CONFIG": str(folder / "disent.toml"), "DISENT_HOME": str(folder / "home")}
    before = processor_seconds(RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, check=True, text=True, stdout=subprocess.PIPE
    )
    return done.stdout, processor_seconds(RUSAGE_CHILDREN) - before


def measured(folder: Path) -> tuple[int, list[float]]:
    """Return the number of partitions of a configuration, and the seconds in its row of the table."""
    partitions, definitions = run(DEFINITIONS, folder)[0].split()
    empty = run(STATUS, folder)[1]
    run(RECORD, folder)
    shown, made = run(STATUS, folder)
    assert " 0 missing" in shown
    return int(partitions), [float(definitions), empty, made, float(run(SENSORS, folder)[0])]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", help="where the configurations stay; a temporary one by default"
    )
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp())
    print("| configuration | partitions | definitions | `disent status`, nothing made | all made | sensors |")
    print("|---|---|---|---|---|---|")
    for name, make in CONFIGURATIONS.items():
        place = folder / name.replace(" ", "_").replace(",", "")
        place.mkdir(parents=True)
        make(place)
        partitions, seconds = measured(place)
        cells = [name, f"{partitions:,}", *(f"{value:.2f}" for value in seconds)]
        print(f"| {' | '.join(cells)} |", flush=True)


CONFIGURATIONS = {
    "4 languages, all pairs": lambda folder: all_pairs(folder, 4),
    "12 languages, all pairs": lambda folder: all_pairs(folder, 12),
    "24 languages, all pairs": lambda folder: all_pairs(folder, 24),
    "52 languages, all pairs": lambda folder: all_pairs(folder, 52),
    "200 languages with English": lambda folder: with_english(folder, 200),
    "12 languages, 103 methods": lambda folder: all_pairs(folder, 12, methods=100),
}

if __name__ == "__main__":
    main()
