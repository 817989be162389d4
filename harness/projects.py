"""A project small enough to run in seconds: three languages, one tiny encoder, four methods."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import pyarrow.parquet as pq
from click.testing import CliRunner, Result
from matplotlib.figure import Figure

from disent.query import query
from disent_assets.cli import main
from disent_assets.definitions import build
from disent_assets.lineage import metadata, shown
from disent_assets.settings.environment import open_workspace
from disent_core.lineage.workspace import Workspace
from disent_core.methods.spec import describe_head

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "corpora" / "sample" / "1.1" / "data"
KEPT = {"train": 80, "dev": 20, "test": 20}
SCRATCH = """name = "tiny"
kind = "scratch"
hidden_size = 32
heads = 2
layers = 1
intermediate_size = 64
vocab_size = 600
epochs = 1
"""
CONFIG = f"""
[[corpora]]
name = "sample"
format = "massive"
path = "corpus"
languages = ["en-US", "de-DE", "ja-JP"]

[[encoders]]
{SCRATCH}
[experiment]
pairs = ["en-de", "en-ja"]
methods = ["raw", "dream", "fmda", "fmda_softmax"]
seeds = [0, 1]
device = "cpu"

[evaluation]
bootstrap_samples = 100

[methods.dream]
max_epochs = 6

[methods.fmda]
max_epochs = 3

[methods.fmda_softmax]
method = "fmda"
preset = "softmax"
max_epochs = 3
"""


@dataclass(frozen=True)
class Project:
    """A configuration, a corpus and a folder of results; the method `disent` runs the command line on it."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def config(self) -> Path:
        return self.folder / "disent.toml"

    @property
    def environment(self) -> dict[str, str]:
        """Environment with one worker, so that tests can patch functions in this process; tests of workers set more."""
        return {"DISENT_CONFIG": str(self.config), "DISENT_HOME": str(self.home), "DISENT_WORKERS": "1"}

    @property
    def workspace(self) -> Workspace:
        return open_workspace(self.environment)

    def disent(self, *arguments: str) -> Result:
        """Run the command line; raise exceptions that it does not turn into messages."""
        return CliRunner().invoke(
            main, arguments, env={**self.environment, "DAGSTER_HOME": None}, catch_exceptions=False
        )

    def materialize(self, *arguments: str) -> dict[str, int]:
        """Run successfully; return the counts of tables made, tables up to date, texts encoded and steps trained."""
        result = self.disent("materialize", *arguments)
        assert result.exit_code == 0, result.output
        return counts(result.stdout)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        return query(self.home / "warehouse.duckdb", sql).to_pylist()

    def file(self, locale: str) -> Path:
        return self.folder / "corpus" / "1.1" / "data" / f"{locale}.jsonl"

    def utterances(self, locale: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.file(locale).read_text(encoding="utf-8").splitlines()]

    def write(self, locale: str, rows: list[dict[str, str]]) -> None:
        self.file(locale).parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        self.file(locale).write_text("".join(lines), encoding="utf-8")

    def change_word(self, locale: str, word: str = "unvergleichlich", split: str = "train") -> None:
        """Change the first word of one utterance that has no slot there, which changes at most three texts."""
        rows = self.utterances(locale)
        row = next(row for row in rows if row["partition"] == split and not row["annot_utt"].startswith("["))
        for name in ("utt", "annot_utt"):
            row[name] = " ".join([word, *row[name].split(" ")[1:]])
        self.write(locale, rows)

    def write_lines(self, name: str, lines: list[str]) -> None:
        """Write a file in the project's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def configure(self, old: str, new: str) -> None:
        text = self.config.read_text(encoding="utf-8")
        assert old in text
        self.config.write_text(text.replace(old, new), encoding="utf-8")

    def only(self, *methods: str, pair: str = "en-de") -> None:
        """Reduce the configuration of `new_project` to these methods, one training set, its languages and one seed."""
        locales = [locale for locale in ("en-US", "de-DE", "ja-JP") if locale[:2] in re.split(r"\W", pair)]
        self.configure('["en-US", "de-DE", "ja-JP"]', json.dumps(locales))
        self.configure('["raw", "dream", "fmda", "fmda_softmax"]', json.dumps(methods))
        self.configure('pairs = ["en-de", "en-ja"]', f'pairs = ["{pair}"]')
        self.configure("seeds = [0, 1]", "seeds = [0]")

    def copy(self, folder: Path) -> "Project":
        return Project(Path(shutil.copytree(self.folder, folder / "project")))

    def computed(self) -> dict[str, str]:
        """Return `results` without the warehouse, which also records what is stale and what failed."""
        return {path: digest for path, digest in self.results().items() if not path.startswith("warehouse.")}

    def results(self) -> dict[str, str]:
        """Return path -> hash of every file of results, without locks, Dagster's state and records."""
        return {
            path.relative_to(self.home).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.home.rglob("*"))
            if path.is_file()
            and path.suffix != ".lock"
            and path.name != "configuration.json"  # contains the path of the configuration
            and path.relative_to(self.home).parts[0] not in ("dagster", "records")
            and path.relative_to(self.home).parts[:2] != ("cache", "observed")
            and not {"asset_state", "step_costs"} & {*path.parts}  # contain the time of recording
        }

    def weights(self) -> dict[str, str]:
        """Return the fingerprint of the weights of every head."""
        folder = self.home / "heads"
        return {
            path.relative_to(folder).with_suffix("").as_posix(): (describe_head(path) or ("", ""))[1]
            for path in sorted(folder.rglob("*.safetensors"))
        }

    @property
    def definitions(self) -> dg.Definitions:
        return build(self.workspace)

    @contextmanager
    def events(self) -> Iterator["Events"]:
        with dg.DagsterInstance.from_config(str(self.home / "dagster")) as instance:
            yield Events(instance)


@dataclass(frozen=True)
class Events:
    """The events that Dagster has recorded."""

    instance: dg.DagsterInstance

    def all(self) -> list[Any]:
        runs = self.instance.get_runs()
        return [event for run in reversed(runs) for event in self.instance.all_logs(run.run_id)]

    def of(self, kind: dg.DagsterEventType) -> list[dg.DagsterEvent]:
        events = [entry.dagster_event for entry in self.all() if entry.dagster_event is not None]
        return [event for event in events if event.event_type == kind]

    def metadata(self) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
        """Yield asset, partition and metadata of every materialisation."""
        for event in self.of(dg.DagsterEventType.ASSET_MATERIALIZATION):
            made = event.step_materialization_data.materialization
            yield made.asset_key.to_user_string(), made.partition, {k: v.value for k, v in made.metadata.items()}


@contextmanager
def blank_pictures() -> Iterator[None]:
    """Make steps of this process store blank pictures, as drawing takes a third of a lineage's time."""

    def blank(plots: Path, made_of: str, drawings: Mapping[Path, object]) -> dict[str, dg.MetadataValue]:
        return metadata.pictures(plots, made_of, dict.fromkeys(drawings, partial(Figure, (0.02, 0.02))))

    with patch.object(shown, "pictures", blank):
        yield


@contextmanager
def drawn_pictures() -> Iterator[None]:
    """Make steps of this process draw again inside `blank_pictures`."""
    with patch.object(shown, "pictures", metadata.pictures):
        yield


def counts(summary: str) -> dict[str, int]:
    """Parse the four counts in the last line of a run."""
    match = re.fullmatch(
        r"(\S+) tables? made, (\S+) up to date; (\S+) texts? encoded, (\S+) steps? trained; [\d.]+ s\n", summary
    )
    assert match, summary
    numbers = (int(group.replace(",", "")) for group in match.groups())
    return dict(zip(("made", "up_to_date", "encoded", "steps"), numbers, strict=True))


def rows(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist()


def new_project(folder: Path) -> Project:
    """Return a project before its first run."""
    project = Project(folder)
    project.config.write_text(CONFIG, encoding="utf-8")
    kept: set[str] = set()
    for locale in ("en-US", "de-DE", "ja-JP"):
        utterances = [
            json.loads(line) for line in (SAMPLE / f"{locale}.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        kept = kept or {
            row["id"]
            for split, count in KEPT.items()
            for row in [row for row in utterances if row["partition"] == split][:count]
        }
        project.write(locale, [row for row in utterances if row["id"] in kept])
    return project
