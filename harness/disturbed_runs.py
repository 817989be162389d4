"""Run a small lineage with every stage again and again, in warm processes, and compare the results.

Every command is forked from a process that has loaded everything, and so is the process that its workers come from. So
a run only takes the time of its work, and its processes, groups and signals are those of the command line.
"""

import gc
import importlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from ctypes import CDLL
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import forkserver, util
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parent))

# Loaded before forking; a process that has started threads must not be forked.
import dagster as dg
import duckdb  # noqa: F401
import rebuilds
import sklearn.manifold  # noqa: F401
from projects import KEPT, Project, new_project

from disent_assets.cli import main
from disent_assets.run.fork_server import PRELOADED
from disent_assets.settings.instance import UNFINISHED, open_instance

LOADED = [*PRELOADED, "torch", "transformers.models.xlm_roberta.modeling_xlm_roberta"]
PAIRS = """
[[corpora]]
name = "tatoeba"
format = "tatoeba"
path = "tatoeba"
"""
CONFIG = f"""
[[corpora]]
name = "sample"
format = "massive"
path = "corpus"
languages = ["en-US", "de-DE"]
{PAIRS}
[[encoders]]
name = "tiny"
kind = "scratch"
hidden_size = 16
heads = 2
layers = 1
intermediate_size = 32
vocab_size = 300
epochs = 1
checkpoint_seconds = 0.0

[experiment]
pairs = ["en-de"]
methods = ["raw", "dream", "fmda"]
seeds = [0]
device = "cpu"

[evaluation]
tasks = ["crosslingual_retrieval", "template_retrieval", "tatoeba_retrieval"]
bootstrap_samples = 20

[methods.dream]
max_epochs = 3
checkpoint_seconds = 0.0

[methods.fmda]
max_epochs = 1
"""
SMALLEST = (
    CONFIG.replace(PAIRS, "").replace(', "tatoeba_retrieval"', "").replace(', "fmda"', "").split("[methods.fmda]")[0]
)
"""All stages, with one trained method and without sentence pairs."""
KEEP = {"train": KEPT["train"] // 2, "dev": 8, "test": 8}
LIMIT = 60_000
"""Polls, 10 ms apart, after which a run counts as hanging; not seconds, as a machine may be suspended."""
ORPHANS = 6_000
"""Polls, 5 ms apart, for the workers of a killed command to end; on an idle machine one suffices."""
DELIVER_TO_ME = 36
"""`PR_SET_CHILD_SUBREAPER` of `prctl`: orphans of a child become children of this process."""


def new_lineage(folder: Path, config: str = CONFIG) -> Project:
    """Return a project with every stage, before its first run."""
    project = new_project(folder)
    project.config.write_text(config, encoding="utf-8")
    project.file("ja-JP").unlink()
    for locale in ("en-US", "de-DE"):
        left, kept = dict(KEEP), []
        for row in project.utterances(locale):
            left[row["partition"]] -= 1
            kept += [row] if left[row["partition"]] >= 0 else []
        project.write(locale, kept)
    pairs = [(f"this is sentence {number}", f"das ist satz {number}") for number in range(8)]
    (folder / "tatoeba").mkdir()
    for side, language in enumerate(("eng", "deu")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / "tatoeba" / f"tatoeba.deu-eng.{language}").write_text(lines, encoding="utf-8")
    return project


def edit(project: Project) -> None:
    """Change a word of one utterance."""
    rows = project.utterances("de-DE")
    for name in ("utt", "annot_utt"):
        rows[3][name] = f"unvergleichlich {rows[3][name]}"
    project.write("de-DE", rows)


# --- processes --------------------------------------------------------------------------------------------


def warm_up() -> None:
    """Load everything that a run loads, and become the parent of orphaned descendants."""
    for name in LOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder, open_instance(Path(folder)) as instance:
        assert _nothing_job.execute_in_process(instance=instance).success  # Dagster compiles a lot at first use
    CDLL(None).prctl(DELIVER_TO_ME, 1, 0, 0, 0)


@dg.op
def _nothing() -> None: ...


@dg.job
def _nothing_job() -> None:
    _nothing()


def start(
    project: Project,
    log: Path,
    before: Callable[[], None] = lambda: None,
    workers: int = 1,
    arguments: Sequence[str] = ("materialize",),
) -> int:
    """Fork a process that runs a command in its own process group; return its process id.

    Until the command has set its handlers, signals end it like any program.
    """
    if child := os.fork():
        with suppress(PermissionError):
            os.setpgid(child, child)  # parent or child, whichever comes first
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ |= project.environment | {"DISENT_WORKERS": str(workers)}
        if workers > 1:
            _start_forkserver()
        before()
        main(list(arguments), standalone_mode=False)
        code = 0
    except SystemExit as exit:
        code = int(exit.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _start_forkserver() -> None:
    """Fork the process from which the command forks its workers, instead of loading everything in a new interpreter."""
    sys.modules["__main__"] = ModuleType("__main__")  # else workers would run this script for its definitions
    spawn, util.spawnv_passfds = util.spawnv_passfds, _forked
    try:
        multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = spawn


def _forked(_: bytes, arguments: list[str], passed: list[int]) -> int:
    """Replace `multiprocessing.util.spawnv_passfds`: a fork of this process does the new interpreter's work."""
    if child := os.fork():
        return child
    try:
        gc.freeze()
        kept = sorted({0, 1, 2, *passed})
        for after, before in zip(kept, [*kept[1:], 1024], strict=True):
            os.closerange(after + 1, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exec(arguments[-1], {})
    finally:
        os._exit(0)


def family(process: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield process
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text(encoding="ascii").split():
                yield from family(int(child))


def processor_seconds(processes: Iterator[int]) -> float:
    """Return the processor seconds of living processes."""
    ticks = 0
    for process in processes:
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def has_ended(child: int) -> bool:
    """Return whether a child has ended, without reaping it."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end(child: int) -> int:
    """Wait for a process, or kill it if it hangs; return its exit code, or minus the signal that killed it."""
    for _ in range(LIMIT):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    for process in list(family(child)):
        os.kill(process, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("a run does not end")


def end_of_orphans() -> None:
    """Wait for the processes that a command has left behind, which must end by themselves."""
    with suppress(ChildProcessError):  # none is left
        for _ in range(ORPHANS):
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.005)
        left = [process for process in family(os.getpid()) if process != os.getpid()]
        for process in left:
            os.kill(process, signal.SIGKILL)
        raise AssertionError(f"{len(left)} processes are left")


def in_a_process(run: Callable[[], None]) -> bool:
    """Call a function in a forked process; return whether it raised nothing."""
    if child := os.fork():
        return end(child) == 0
    try:
        run()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


# --- lineages ---------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """An undisturbed lineage before and after an edit, and a folder for disturbed ones."""

    folder: Path
    chance: random.Random
    config: str = CONFIG

    def __post_init__(self) -> None:
        self.log = self.folder / "log.txt"
        self.finished = new_lineage(self._new("finished"), self.config)
        self._finish(self.finished)

    @cached_property
    def edited(self) -> Project:
        """The undisturbed lineage after the edit. It keeps the model: a rebuild would pretrain another."""
        project = self.finished.copy(self._new("edited"))
        edit(project)
        self._finish(project)
        return project

    def _finish(self, project: Project) -> None:
        self.run(project)
        assert in_a_process(partial(_record, project))

    def _new(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True)
        return folder

    def run(self, project: Project) -> None:
        """Run a project to its end."""
        code = end(start(project, self.log))
        if code:
            raise AssertionError(f"a run ended with {code}, see the end of {self.log}:\n{self.output()}")

    def output(self) -> str:
        """Return the last log lines of the runs."""
        return "".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-30:])

    def fresh(self) -> tuple[Project, Project]:
        """Return a lineage before its first run, and the one that it must equal in the end."""
        folder = self.folder / "disturbed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return new_lineage(folder, self.config), self.finished

    def untouched(self) -> tuple[Project, Project]:
        """Return a finished lineage, and the one that it must equal in the end."""
        folder = self.folder / "disturbed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.finished.folder, folder)
        return Project(folder), self.finished

    def stale(self) -> tuple[Project, Project]:
        """Return a finished lineage with a new edit, and the one that it must equal in the end."""
        project, _ = self.untouched()
        edit(project)
        return project, self.edited

    def check(
        self, project: Project, wanted: Project, fault: str, *, with_history: bool = False, may_leave: bool = False
    ) -> None:
        """Run a disturbed project and compare it with the undisturbed one, optionally with the history of metrics.

        After a failed step the warehouse is built without it, which the history records; a kill leaves no such trace.
        It `may_leave` temporary files if they could not be removed.
        """
        self.run(project)

        def compare() -> None:
            recorded = json.loads(_record_of(wanted).read_text(encoding="utf-8"))
            details = partial(rebuilds.differences, project, wanted)
            require_equal(_results(project), recorded, fault, with_history=with_history, details=details)
            left = [path for path in project.home.rglob("*.tmp*") if "dagster" not in path.parts]
            assert may_leave or not left, f"{fault}: {left} are left"
            assert unfinished_runs(project) == [], f"{fault}: runs that have no end"

        assert in_a_process(compare), fault


def _record_of(project: Project) -> Path:
    return project.folder / "results.json"


def _record(project: Project) -> None:
    _record_of(project).write_text(json.dumps(_results(project)), encoding="utf-8")


def _results(project: Project) -> dict[str, str]:
    """Return everything to compare, by name; views are left out, as the warehouse computes them from its tables."""
    read = rebuilds.tables(project.home) | rebuilds.heads(project.home) | rebuilds.embeddings(project.home)
    stored = rebuilds.warehouse(project.home, with_views=False)
    history = {"history": rebuilds.history(project.home)}
    return {name: rebuilds.fingerprint(value) for name, value in {**read, **stored, **history}.items()}


def require_equal(
    results: Mapping[str, str],
    wanted: Mapping[str, str],
    fault: str,
    *,
    with_history: bool = False,
    details: Callable[[], list[str]] = list,
) -> None:
    """Compare results by name; the history, which records commands that were started again, only if asked."""
    other = {name for name in results | wanted if results.get(name) != wanted.get(name)}
    if not with_history:
        other -= {"history"}
    if other:
        lines = [f"{fault}: {len(other)} differences", *sorted(other)[:10], *details()[:10]]
        raise AssertionError("\n".join(lines))


def unfinished_runs(project: Project) -> list[str]:
    """Return the statuses of the runs that Dagster shows as unfinished."""
    (path,) = (project.home / "dagster").rglob("runs.db")
    with closing(sqlite3.connect(path)) as connection:
        statuses = [status for (status,) in connection.execute("select status from runs")]
    return [status for status in statuses if status in {unfinished.value for unfinished in UNFINISHED}]
