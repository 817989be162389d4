"""Let one system call after another fail in a command, and compare what comes of it with an undisturbed run.

    python harness/every_call.py --each 2                        # every command, every kind, two calls of each place
    python harness/every_call.py --commands index --kinds write fsync

A first run of each command lists its calls of a kind: to open, write, flush, rename, remove or lock a file of the
project, to start a process or a thread, to allocate a large piece. Calls of one place (one function on files of one
name) are alike, so `--each` of them are drawn. Then the command runs once for every drawn call, which fails, and, every
second time, all later ones with it. It has to end well, or with one line and exit code 1; what the next run makes has
to be what an undisturbed one makes, to the bit. gcc compiles `failing_calls.c`, which is loaded before all else.
"""

import argparse
import csv
import ctypes
import errno
import hashlib
import itertools
import json
import mmap
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

KINDS = {
    "open": errno.EMFILE,
    "write": errno.ENOSPC,
    "fsync": errno.EIO,
    "rename": errno.EACCES,
    "unlink": errno.EACCES,
    "lock": errno.ENOLCK,
    "fork": errno.EAGAIN,
    "memory": errno.ENOMEM,
}
"""Kinds of calls, in the order of the enumeration in failing_calls.c, and how they fail."""
LARGE = 1 << 16
"""Bytes of the smallest allocation that may fail: smaller ones are of every statement, and run out last."""
STATE, LIST = "DISENT_FAILING_CALLS", "DISENT_LISTED_CALLS"
_NUMBER = re.compile(r"[0-9a-f]{8,}|\d+")
_PART = re.compile(r"part-\d+|\"number\": \d+")  # of an index: a run that goes on takes the next number


class Layout(ctypes.Structure):
    """`struct state` of failing_calls.c."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("kind", "error", "lasting", "besides")),
        *((name, ctypes.c_long) for name in ("at", "count", "failed", "large")),
        ("under", ctypes.c_char * 1024),
    )


def start_again(folder: Path) -> None:
    """Replace this process by one that has loaded the library, and whose children do."""
    library, state, calls = folder / "failing_calls.so", folder / "state", folder / "calls"
    command = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "failing_calls.c"), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    state.write_bytes(bytes(ctypes.sizeof(Layout)))
    calls.touch()
    loaded = {"LD_PRELOAD": str(library), STATE: str(state), LIST: str(calls)}
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | loaded)


@dataclass
class Calls:
    """The calls of all processes but this one, on files of a folder."""

    folder: Path

    def __post_init__(self) -> None:
        self._listed = Path(os.environ[LIST])
        with Path(os.environ[STATE]).open("r+b") as file:
            self.state = Layout.from_buffer(mmap.mmap(file.fileno(), 0))
        self.state.besides, self.state.large, self.state.under = os.getpid(), LARGE, str(self.folder).encode()

    def count(self, kind: str, at: int = 0, *, lasting: bool = False) -> None:
        """Count the calls of a kind from now on; let one fail, or list them all."""
        os.truncate(self._listed, 0)
        self.state.at, self.state.lasting, self.state.count, self.state.failed = at, lasting, 0, 0
        self.state.error, self.state.kind = KINDS[kind], 1 + [*KINDS].index(kind)

    def stop(self) -> int:
        """Count no more; return how many calls have failed."""
        self.state.kind = 0
        return self.state.failed

    def listed(self) -> list[str]:
        """Return the place of each call: its function and the name of its file, without numbers."""
        lines = self._listed.read_text(encoding="utf-8", errors="replace").splitlines()
        return [_NUMBER.sub("*", line.replace(str(self.folder), "")) for line in lines]


# --- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """A command: its arguments, the file or folder that it writes, and how many workers it has."""

    name: str
    arguments: tuple[str, ...]
    output: str
    workers: int = 1


HEAD = "home/heads/tiny/dream/en-de.safetensors"
COMMANDS = (
    Tried("materialize", ("materialize",), ""),
    Tried("materialize with two workers", ("materialize",), "", workers=2),
    Tried("refresh", ("materialize",), ""),
    Tried("embed", ("embed", "texts.txt", "vectors.parquet", "--embedding", "all"), "vectors.parquet"),
    Tried("embed as a matrix", ("embed", "texts.txt", "vectors.npy", "--head", HEAD), "vectors.npy"),
    Tried("index", ("index", "texts.txt", "index"), "index"),
    Tried("index of a head", ("index", "texts.txt", "index", "--head", HEAD, "--language", "en"), "index"),
    Tried("export", ("export", HEAD, "exported"), "exported"),
    Tried("train", ("train", "table.csv", "trained"), "trained"),
    Tried("publish", ("publish", "published"), "published"),
    Tried("report", ("report",), "home/report.html"),
)
VALUES = {"nine": "neun", "ten": "zehn", "six": "sechs", "noon": "mittag", "four": "vier", "two": "zwei", "one": "eins"}
SHAPES = {"wake me up at {}": "weck mich um {} auf", "play the song {}": "spiel das lied {}", "call {}": "ruf {} an"}


def write_inputs(folder: Path) -> None:
    """Write the texts and the table that commands read."""
    rows = [
        [english.format(f"[what : {value}]"), german.format(f"[what : {other}]"), english.split()[0], split]
        for english, german in SHAPES.items()
        for (value, other), split in zip(VALUES.items(), itertools.cycle(["train", "train", "dev", "test"]))
    ]
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["en", "de", "intent", "split"], *rows])
    texts = [shape.format(value) for shape in SHAPES for value in VALUES]
    (folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")


def contents(path: Path) -> Mapping[str, object]:
    """Return the contents of a file or of the files of a folder; of a warehouse its rows."""
    import duckdb

    found: dict[str, object] = {}
    for file in [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file()):
        name = file.relative_to(path).as_posix()
        if file.suffix == ".lock":
            continue
        if file.suffix == ".duckdb":
            with duckdb.connect(str(file), read_only=True) as connection:
                listed = "select schema_name || '.' || table_name from duckdb_tables() where not internal"
                for (table,) in connection.sql(listed).fetchall():
                    rows = connection.sql(f"from {table}").fetchall()
                    found[f"{name} {table}"] = hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest()
        elif file.name == "index.json":
            found[name] = _PART.sub("", file.read_text(encoding="utf-8"))
        else:
            found[_PART.sub("part", name)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass
class Series:
    """Faults of commands, and what came of them."""

    bench: "Bench"
    chance: random.Random
    outcomes: Counter[str] = field(default_factory=Counter)
    defects: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.bench.folder / "disturbed"
        self.calls = Calls(self.folder)
        write_inputs(self.bench.finished.folder)

    def run(self, tried: Tried, kind: str, each: int, most: int | None) -> None:
        """Let drawn calls of a kind fail in a command, one in each run: so many of each place, or of so many places."""
        self._prepare(tried)
        self.calls.count(kind)
        code, output = self._run(tried, self.calls)
        places: dict[str, list[int]] = {}
        for number, place in enumerate(self.calls.listed(), start=1):
            places.setdefault(place, []).append(number)
        self.calls.stop()
        assert code == 0, output
        wanted = self._found(tried)
        kept = self.chance.sample([*places], min(most or len(places), len(places)))
        drawn = {
            number: place
            for place, numbers in ((place, places[place]) for place in kept)
            for number in (numbers if len(numbers) <= each else [numbers[0], *self.chance.sample(numbers[1:], each - 1)])
        }
        started, outcomes = time.monotonic(), Counter[str]()
        for done, (number, place) in enumerate(sorted(drawn.items())):
            outcomes[self._fail(tried, kind, number, place, wanted, lasting=done % 2 == 1)] += 1
        self.outcomes += outcomes
        counted = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
        print(
            f"{tried.name}: {len(drawn)} of {sum(map(len, places.values()))} calls of {kind} in {len(places)} places: "
            f"{counted or 'none'}; {time.monotonic() - started:.0f} s",
            flush=True,
        )

    def _fail(
        self, tried: Tried, kind: str, at: int, place: str, wanted: Mapping[str, object], *, lasting: bool
    ) -> str:
        self._prepare(tried)
        self.calls.count(kind, at, lasting=lasting)
        try:
            code, output = self._run(tried, self.calls)
        finally:
            failed = self.calls.stop()
        if not failed:
            return "not reached"
        what = f"{tried.name}: {kind} {at}{' and later' if lasting else ''} ({place})"
        problem = self._problem(code, output)
        try:
            if tried.output and code == 0:
                assert self._found(tried) == wanted, "it ended well with another result"
            else:
                self._require_sound(tried, wanted, what)
        except AssertionError as error:
            problem = f"{problem or ''}; afterwards: {error}"
        if problem:
            self.defects.setdefault(f"{tried.name}, {kind}, {place}: {problem}", []).append(what)
            print(f"DEFECT {what}: {problem}\n{output}", flush=True)
            return "defect"
        return "went on" if code == 0 else "ended with one line"

    def _prepare(self, tried: Tried) -> None:
        from disturbed_runs import new_lineage

        if tried.name == "refresh":
            self.bench.stale()
        elif not tried.output:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            new_lineage(self.folder, self.bench.config)
        else:
            self.bench.untouched()
        (self.folder / "tmp").mkdir()

    def _run(self, tried: Tried, calls: Calls | None = None) -> tuple[int, str]:
        """Run the command to its end; calls are counted once its processes are there."""
        from disturbed_runs import Project, end, end_of_orphans, start

        def before() -> None:
            os.chdir(self.folder)
            os.environ["TMPDIR"] = tempfile.tempdir = str(self.folder / "tmp")

        self.bench.log.write_text("")
        code = end(start(Project(self.folder), self.bench.log, before, tried.workers, tried.arguments))
        end_of_orphans()
        return code, self.bench.log.read_text(encoding="utf-8", errors="replace")

    def _found(self, tried: Tried) -> Mapping[str, object]:
        return contents(self.folder / tried.output) if tried.output else {}

    def _problem(self, code: int, output: str) -> str | None:
        """Return what is wrong with how the command has ended."""
        last = (output.splitlines() or [""])[-1]
        if code not in (0, 1):
            return f"exit code {code}"
        if "Traceback" in output or "For the traceback" in output:
            return f"a traceback: {last}"
        if code and not last.startswith("disent: "):
            return f"no line that says why: {last}"
        return None

    def _require_sound(self, tried: Tried, wanted: Mapping[str, object], what: str) -> None:
        """Run the command undisturbed, and compare."""
        if not tried.output:
            wanted_project = self.bench.edited if tried.name == "refresh" else self.bench.finished
            from disturbed_runs import Project

            self.bench.check(Project(self.folder), wanted_project, what)
        else:
            code, output = self._run(tried)
            assert code == 0, f"the next run ends with {code}: {output}"
            assert self._found(tried) == wanted, "the next run makes something else"
        left = [path for path in self.folder.rglob("*.tmp*") if "dagster" not in path.parts]
        assert not left, f"{left} are left"
        left = [*(self.folder / "tmp").iterdir()]
        assert not left, f"{left} are left"


def run(names: Sequence[str], kinds: Sequence[str], each: int, most: int | None, seed: int) -> bool:
    """Let calls of the kinds fail in the commands; return whether nothing went wrong."""
    import disturbed_runs
    from faults import MEMORY, _blank

    from disent_core.report import style

    global Bench
    Bench = disturbed_runs.Bench
    disturbed_runs.warm_up()
    style._png = _blank
    with tempfile.TemporaryDirectory(prefix="disent-calls-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        series = Series(Bench(Path(folder), random.Random(seed), disturbed_runs.SMALLEST), random.Random(seed))
        for tried in COMMANDS:
            for kind in kinds if tried.name in names else ():
                series.run(tried, kind, each, most)
    for defect, where in series.defects.items():
        print(f"{len(where)} times {defect}")
    counted = ", ".join(f"{name} {count}" for name, count in sorted(series.outcomes.items()))
    print(f"{sum(series.outcomes.values())} faults: {counted}")
    return not series.defects


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", nargs="+", default=[tried.name for tried in COMMANDS], metavar="NAME")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--each", type=int, default=1, metavar="N", help="calls of each place")
    parser.add_argument("--places", type=int, metavar="N", help="only so many of a command and a kind")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if STATE not in os.environ:
        start_again(Path(tempfile.mkdtemp(prefix="disent-library-")))
    sys.exit(0 if run(chosen.commands, chosen.kinds, chosen.each, chosen.places, chosen.seed) else 1)
