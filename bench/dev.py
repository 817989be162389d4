"""Time an edit of one line until it is in the warehouse, under a running UI and daemon.

python -m bench.dev [--code FOLDER] [--demo] [--edits 3] [--port 3990]

The project is that of the tests (three languages, four methods), or with --demo the sample corpora and `disent.toml` of
the code. `--code` is the root of another version, which then runs; it needs nothing but `dagster dev`. Everything else
on the machine should rest. Seconds of the processor are those of all processes, above what they use while nothing
happens.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

ROOT = Path(__file__).parents[1]
SAMPLE = Path("data", "corpora")
MAKE_PROJECT = (
    "import sys; sys.path.insert(0, 'harness'); from pathlib import Path; from projects import new_project; "
    "new_project(Path(sys.argv[1]))"
)
IDLE_SECONDS = 20


class Project:
    """A configuration with its corpora and results, possibly run by another version of the code."""

    def __init__(self, folder: Path, code: Path, *, is_demo: bool) -> None:
        self.folder, self.code = folder, code
        self.environment = {
            **os.environ,
            "DISENT_CONFIG": str(folder / "disent.toml"),
            "DISENT_HOME": str(folder / "home"),
            "PYTHONPATH": str(code),
        }
        if is_demo:
            shutil.copy(code / "disent.toml", folder)
            shutil.copytree(code / SAMPLE, folder / SAMPLE)
        else:
            subprocess.run([sys.executable, "-c", MAKE_PROJECT, str(folder)], cwd=code, check=True)

    @property
    def file(self) -> Path:
        """The file of German utterances."""
        return next(self.folder.rglob("de-DE.jsonl"))

    def materialize(self) -> None:
        """Make everything, so that only the edit remains to be processed."""
        disent = [sys.executable, "-c", "from disent_assets.cli import main; main()", "materialize"]
        subprocess.run(disent, cwd=self.code, env=self.environment, check=True)

    def edit(self, word: str) -> None:
        """Change the first word of one training utterance."""
        rows = [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]
        row = next(row for row in rows if row["partition"] == "train" and not row["annot_utt"].startswith("["))
        for name in ("utt", "annot_utt"):
            row[name] = " ".join([word, *row[name].split(" ")[1:]])
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        self.file.write_text("".join(lines), encoding="utf-8")

    def has(self, word: str) -> bool:
        """Return whether the warehouse has an utterance that begins with a word."""
        with duckdb.connect() as connection:
            connection.execute(f"attach '{self.folder / 'home' / 'warehouse.duckdb'}' as warehouse (read_only)")
            query = "select count(*) from warehouse.corpora.utterances where text like ?"
            return connection.execute(query, [f"{word} %"]).fetchall() != [(0,)]

    @contextmanager
    def served(self, port: int) -> Iterator[int]:
        """Run the UI and the daemon in a POSIX session of their own; yield its id."""
        settings = self.code / "disent_assets" / "settings" / "dagster.yaml"
        home = self.folder / "home" / "dagster"
        shutil.copy(settings, home)
        more = {"DAGSTER_HOME": str(home), "DISENT_UI": f"http://127.0.0.1:{port}"}
        command = [
            Path(sys.executable).with_name("dagster"),
            "dev",
            "--workspace",
            "workspace.yaml",
            "--port",
            str(port),
        ]
        with (self.folder / "dev.log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=self.code, env=self.environment | more, stdout=log, stderr=log, start_new_session=True
            )
            try:
                yield process.pid
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def processor_seconds(session: int) -> float:
    """Return processor seconds of all processes of a session and their reaped children."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def idle_rate(session: int) -> float:
    """Wait until the session is idle, and return its processor seconds per second."""
    last, before = 1.0, processor_seconds(session)
    while True:
        time.sleep(IDLE_SECONDS)
        now = processor_seconds(session)
        rate, before = (now - before) / IDLE_SECONDS, now
        if rate < 0.3 and abs(rate - last) < 0.05:
            return rate
        last = rate


def main() -> None:
    """Print a line of JSON for each edit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", type=Path, default=ROOT, help="root of the version that runs")
    parser.add_argument("--demo", action="store_true", help="the sample corpora with the configuration of the code")
    parser.add_argument("--edits", type=int, default=3)
    parser.add_argument("--port", type=int, default=3990)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder), arguments.code.resolve(), is_demo=arguments.demo)
        project.materialize()
        with project.served(arguments.port) as session:
            for number in range(arguments.edits):
                idle = idle_rate(session)
                before, started = processor_seconds(session), time.time()
                project.edit(word := f"edit{number}")
                while not project.has(word):
                    time.sleep(0.2)
                seconds = time.time() - started
                time.sleep(3)  # let the run end
                used = processor_seconds(session) - before - idle * (time.time() - started)
                line = {"edit_to_warehouse_seconds": seconds, "processor_seconds": used, "idle_rate": idle}
                print(json.dumps({name: round(value, 2) for name, value in line.items()}), flush=True)


if __name__ == "__main__":
    main()
