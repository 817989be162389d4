"""Make system calls fail in commands, and compare the outcomes; `every_call.py` runs it."""

import csv
import faulthandler
import hashlib
import http.client
import itertools
import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import duckdb
from disturbed_runs import SMALLEST, Bench, Project, end, end_of_orphans, has_ended, start, warm_up
from failing_calls import Calls
from faults import MEMORY
from projects import blank_pictures

_ABORTS = {-signal.SIGABRT, -signal.SIGSEGV}  # from Rust and C++ libraries that get no memory or thread
_TRACEBACK = re.compile(r"^Traceback", re.MULTILINE)  # not those inside events that Dagster could not store
_PANIC = " panicked at "  # a Rust panic, which a step can't catch
_PART = re.compile(r"part-\d+|\"number\": \d+")  # parts of an index: a resumed run takes the next number


# --- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """A command: its arguments, the file or folder that it writes, its number of workers, and the state before it."""

    name: str
    arguments: tuple[str, ...]
    output: str = ""
    workers: int = 1
    before: str = ""  # empty: only its input; or a project that is `new`, `stale` or `finished`
    index_of: tuple[str, ...] | None = None  # a server, and the options of `disent index` for what it serves


HEAD = "home/heads/tiny/dream/en-de.safetensors"
_HEAD = ("--head", HEAD, "--language", "en")
_SERVE = ("serve", "index", "--port", "0")
COMMANDS = (
    Tried("embed", ("embed", "texts.txt", "vectors.parquet", "--embedding", "all"), "vectors.parquet"),
    Tried("index", ("index", "texts.txt", "index"), "index"),
    Tried("train", ("train", "table.csv", "trained"), "trained"),
    Tried("embed by a head", ("embed", "texts.txt", "vectors.npy", *_HEAD), "vectors.npy", before="finished"),
    Tried("index of a head", ("index", "texts.txt", "index", *_HEAD), "index", before="finished"),
    Tried("export", ("export", HEAD, "exported"), "exported", before="finished"),
    Tried("serve", _SERVE, index_of=()),
    Tried("serve of a head", _SERVE, before="finished", index_of=_HEAD),
    Tried("publish", ("publish", "published"), "published", before="finished"),
    Tried("report", ("report",), "home/report.html", before="finished"),
    Tried("materialize", ("materialize",), before="new"),
    Tried("refresh", ("materialize",), before="stale"),
    Tried("refresh with two workers", ("materialize",), workers=2, before="stale"),
)
_QUERY = json.dumps({"queries": ["wake me up at nine", "call noon"], "by": "meaning"})
REQUESTS = (
    ("GET", "/", None),
    ("GET", "/?q=call+noon", None),
    ("POST", "/v1/search", _QUERY),
    ("POST", "/v1/embed", json.dumps({"texts": ["play the song two"] * 20})),
    ("GET", "/v1/ready", None),
)
"""Requests to a server: method, path, and body."""
_DIGITS = re.compile(r"(?<=\.\d{5})\d+")  # of scores and vectors, beyond the fifth
ANSWER_SECONDS = 20
START_POLLS = 6_000
"""Polls, 10 ms apart, after which a server counts as hanging."""
READY = re.compile(r"^Search page: http://(\S+)", re.MULTILINE)
VALUES = {"nine": "neun", "ten": "zehn", "six": "sechs", "noon": "mittag", "four": "vier", "two": "zwei", "one": "eins"}
SHAPES = {"wake me up at {}": "weck mich um {} auf", "play the song {}": "spiel das lied {}", "call {}": "ruf {} an"}


def write_inputs(folder: Path) -> None:
    """Write the texts and the table that the commands read."""
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
    """Return the contents of a file or of a folder's files; for a warehouse, its rows."""
    contents: dict[str, object] = {}
    for file in [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file()):
        name = file.relative_to(path).as_posix()
        if file.suffix == ".lock":
            continue
        if file.suffix == ".duckdb":
            with duckdb.connect(str(file), read_only=True, config={"threads": 1}) as connection:
                listed = "select schema_name || '.' || table_name from duckdb_tables() where not internal"
                for (table,) in connection.sql(listed).fetchall():
                    rows = connection.sql(f"from {table}").fetchall()
                    contents[f"{name} {table}"] = hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest()
        elif file.name == "index.json":
            contents[name] = _PART.sub("", file.read_text(encoding="utf-8"))
        else:
            contents[_PART.sub("part", name)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return contents


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass
class Series:
    """Faults in commands, and their outcomes."""

    folder: Path
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    defects: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.answers: list[list[tuple[int, str]]] = []
        self.place, self.log, self.chance = self.folder / "disturbed", self.folder / "log.txt", random.Random(self.seed)
        self.calls = Calls(self.place)

    @cached_property
    def bench(self) -> Bench:
        """A finished project, made on demand: only some commands need it, and it takes seconds."""
        warm_up()
        return Bench(self.folder, self.chance, SMALLEST)

    def run(self, tried: Tried, kind: str, each: int, most: int | None) -> None:
        """Make drawn calls of a kind fail in a command, one per run: `each` calls of up to `most` places."""
        self._prepare(tried)
        self.calls.choose(kind)
        code, output = self._run(tried)
        places: dict[str, list[int]] = {}
        for number, place in enumerate(self.calls.listed(), start=1):
            places.setdefault(place, []).append(number)
        self.calls.stop()
        assert code == 0, output
        wanted = self._result(tried)
        drawn: dict[int, str] = {}
        for place in self.chance.sample([*places], min(most or len(places), len(places))):
            first, *later = places[place]
            drawn |= dict.fromkeys([first, *self.chance.sample(later, min(each - 1, len(later)))], place)
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
        self.calls.choose(kind, at, lasting=lasting)
        try:
            code, output = self._run(tried)
        finally:
            failed = self.calls.stop()
        if not failed:
            return "not reached"
        what = f"{tried.name}: {kind} {at}{' and later' if lasting else ''} ({place})"
        is_abort = kind in ("memory", "fork") and (code in _ABORTS or (code == 1 and _PANIC in output))
        problem = None if is_abort else self._problem(code, output)
        try:
            if tried.index_of is not None:
                self._require_answers(wanted)
            elif tried.output and code == 0:
                assert self._result(tried) == wanted, "it ended well with another result"
            else:
                self._require_sound(tried, wanted, what, may_leave=kind == "unlink")
        except AssertionError as error:
            problem = f"{problem or ''}; afterwards: {error}"
        if problem:
            self.defects.setdefault(f"{tried.name}, {kind}, {place}: {problem}", []).append(what)
            print(f"DEFECT {what}: {problem}\n{output}", flush=True)
            return "defect"
        return "went on" if code == 0 else "aborted by a library" if is_abort else "ended with one line"

    def _prepare(self, tried: Tried) -> None:
        if tried.before:
            {"new": self.bench.fresh, "stale": self.bench.stale, "finished": self.bench.untouched}[tried.before]()
        else:
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir()
        write_inputs(self.place)
        (self.place / "tmp").mkdir()
        if tried.index_of is not None:
            kept = self.folder / tried.name
            if not kept.is_dir():
                code, output = self._run(Tried("index", ("index", "texts.txt", "index", *tried.index_of)))
                assert code == 0, output
                shutil.copytree(self.place / "index", kept)
            shutil.copytree(kept, self.place / "index", dirs_exist_ok=True)

    def _run(self, tried: Tried) -> tuple[int, str]:
        """Run the command to its end; return its exit code and its output."""

        def before() -> None:
            os.chdir(self.place)
            os.environ["TMPDIR"] = tempfile.tempdir = str(self.place / "tmp")
            if tried.index_of is not None:
                signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a new interpreter
                faulthandler.register(signal.SIGQUIT, chain=True)
            self.calls.begin()

        self.log.write_text("")
        child = start(Project(self.place), self.log, before, tried.workers, tried.arguments)
        if tried.index_of is not None:
            self.answers = self._ask(child)
        code = end(child)
        end_of_orphans()
        return code, self.log.read_text(encoding="utf-8", errors="replace")

    def _ask(self, child: int) -> list[list[tuple[int, str]]]:
        """Wait for a server, send it every request twice, then once more without faults, and end it.

        Return the answers of each round.
        """
        for _ in range(START_POLLS):
            if has_ended(child):
                return []
            if ready := READY.search(self.log.read_text(encoding="utf-8", errors="replace")):
                break
            time.sleep(0.01)
        else:
            os.kill(child, signal.SIGQUIT)  # a defect: the log shows where it hangs
            return []
        answers = [[_answer(ready[1], *request) for request in REQUESTS] for _ in range(2)]
        self.calls.stop()
        answers.append([_answer(ready[1], *request) for request in REQUESTS])
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGINT)
        return answers

    def _require_answers(self, wanted: Mapping[str, object]) -> None:
        """Require that a server answered, or said that it can't; and that it answered once calls succeeded again."""
        for number, answers in enumerate(self.answers):
            for request, answer, right in zip(REQUESTS, answers, wanted["answers"], strict=True):
                status, text = answer
                # oneDNN takes a slower kernel, with other last bits, or none ever again for a shape without memory.
                refuses = status == 503 and (number < 2 or "out of memory" in text)
                is_close = status == right[0] and _DIGITS.sub("", text) == _DIGITS.sub("", right[1])
                problem = f"{request[:2]} in round {number}: {status} {text[:300]}, not {right[0]} {right[1][:300]}"
                assert answer == right or refuses or is_close, problem

    def _result(self, tried: Tried) -> Mapping[str, object]:
        if tried.index_of is not None:
            return {"answers": self.answers[-1]}
        return contents(self.place / tried.output) if tried.output else {}

    def _problem(self, code: int, output: str) -> str | None:
        """Describe what is wrong with how the command ended, if anything."""
        last = (output.splitlines() or [""])[-1]
        if code not in (0, 1):
            return f"exit code {code}"
        if _TRACEBACK.search(output) or "For the traceback" in output:
            return f"a traceback: {last}"
        if code and not last.startswith("disent: "):
            return f"no line that says why: {last}"
        return None

    def _require_sound(self, tried: Tried, wanted: Mapping[str, object], what: str, *, may_leave: bool) -> None:
        """Run the command undisturbed and compare; it `may_leave` the temporary files that could not be removed."""
        if not tried.output:
            finished = self.bench.edited if tried.before == "stale" else self.bench.finished
            self.bench.check(Project(self.place), finished, what, may_leave=may_leave)
        else:
            code, output = self._run(tried)
            assert code == 0, f"the next run ends with {code}: {output}"
            assert self._result(tried) == wanted, "the next run makes something else"
        left = [] if may_leave else [*self.place.rglob("*.tmp*"), *(self.place / "tmp").iterdir()]
        left = [path for path in left if "dagster" not in path.parts and not path.name.startswith("torchinductor")]
        assert not left, f"{left} are left"


def _answer(address: str, method: str, path: str, body: str | None) -> tuple[int, str]:
    """Return the status and the text of an answer; 0 if the connection was closed."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER_SECONDS)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", errors="replace")
    except TimeoutError:
        return -1, f"no answer within {ANSWER_SECONDS} s"
    except (http.client.HTTPException, ConnectionError) as error:
        return 0, str(error)
    finally:
        connection.close()


def run(names: Sequence[str] | None, kinds: Sequence[str], each: int, most: int | None, seed: int) -> bool:
    """Make calls of these kinds fail in the commands; return whether nothing went wrong."""
    memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="disent-calls-", dir=memory) as folder, blank_pictures():
        series = Series(Path(folder), seed)
        for tried in COMMANDS:
            for kind in kinds if names is None or tried.name in names else ():
                series.run(tried, kind, each, most)
    for defect, where in series.defects.items():
        print(f"{len(where)} times {defect}")
    counted = ", ".join(f"{name} {count}" for name, count in sorted(series.outcomes.items()))
    print(f"{sum(series.outcomes.values())} faults: {counted}", flush=True)
    return not series.defects
