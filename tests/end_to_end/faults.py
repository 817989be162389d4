"""Test random faults: kills, a full or failing disk, damaged and lost files, wrong clocks.

    python tests/end_to_end/faults.py --kills 200 --writes 60 --damages 40 --clocks 4 --seed 1

After each fault the lineage is run again. It must end with exactly the results of an undisturbed run, to the bit, and
leave nothing of the fault behind but what it quarantined. Every run is a process of its own, forked from one that has
loaded everything, so that a run of ten seconds takes ten seconds.
"""

import argparse
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Loaded before anything is forked; a process that has started threads must not be.
import conftest  # noqa: I001
import rebuilds
import duckdb  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import sklearn.manifold  # noqa: F401
import transformers  # noqa: F401
from conftest import KEPT, Project

from disent_assets import definitions  # noqa: F401
from disent_assets.cli import main

CONFIG = """
[[corpora]]
name = "sample"
format = "massive"
path = "corpus"
languages = ["en-US", "de-DE"]

[[corpora]]
name = "tatoeba"
format = "tatoeba"
path = "tatoeba"

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
KEEP = {"train": KEPT["train"] // 2, "dev": 8, "test": 8}
LIMIT_S = 300.0
MEMORY = Path("/dev/shm")
"""Used if it exists: what a killed process has written stays there too, and it is faster than a disk."""


def new_lineage(folder: Path) -> Project:
    """A project with every stage, before its first run."""
    project = conftest.new_project(folder)
    project.config.write_text(CONFIG, encoding="utf-8")
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


def start(project: Project, log: Path, before: Callable[[], None] = lambda: None) -> int:
    """Fork a process that materialises everything; returns its process id."""
    if child := os.fork():
        return child
    code = 1
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ |= project.environment
        before()
        main(["materialize"], standalone_mode=False)
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


def end(child: int) -> int:
    """Wait for a process, or kill it if it hangs; returns its exit code, negative for the signal that killed it."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"a run took more than {LIMIT_S:.0f} s")


def in_a_process(run: Callable[[], None]) -> bool:
    """Call a function in a forked process; returns whether it raised nothing."""
    if child := os.fork():
        return end(child) == 0
    try:
        run()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@dataclass
class Bench:
    """An undisturbed lineage before and after an edit, and a folder for disturbed ones."""

    folder: Path
    chance: random.Random

    def __post_init__(self) -> None:
        self.log = self.folder / "log.txt"
        self.finished = new_lineage(self._new("finished"))
        self.run(self.finished)
        self.edited = self.finished.copy(self._new("edited"))
        edit(self.edited)
        self.run(self.edited)  # it keeps the model: a rebuild would pretrain another one on the edited texts
        began = time.monotonic()
        self.run(self.fresh()[0])
        self.seconds = time.monotonic() - began

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
        """The last lines of the runs."""
        return "".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-30:])

    def fresh(self) -> tuple[Project, Project]:
        """A lineage before its first run, and the one that it must equal in the end."""
        folder = self.folder / "disturbed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return new_lineage(folder), self.finished

    def untouched(self) -> tuple[Project, Project]:
        """A finished lineage, and the one that it must equal in the end."""
        folder = self.folder / "disturbed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.finished.folder, folder)
        return Project(folder), self.finished

    def stale(self) -> tuple[Project, Project]:
        """A finished lineage with a new edit, and the one that it must equal in the end."""
        project, _ = self.untouched()
        edit(project)
        return project, self.edited

    def check(self, project: Project, wanted: Project, fault: str, *, with_history: bool = False) -> None:
        """Run a disturbed project and compare it with the undisturbed one, if asked with its history of metrics.

        After a failed step the warehouse is built without it, which the history records; a kill leaves no such trace.
        """
        self.run(project)

        def compare() -> None:
            different = rebuilds.differences(project, wanted)
            assert not different, f"{fault}: {len(different)} differences\n" + "\n".join(different[:10])
            if with_history:
                assert rebuilds.history(project.home) == rebuilds.history(wanted.home), f"{fault}: another history"
            left = [path for path in project.home.rglob("*.tmp*") if "dagster" not in path.parts]
            assert not left, f"{fault}: {left} are left"

        assert in_a_process(compare), fault


# --- faults -----------------------------------------------------------------------------------------------


def kill(bench: Bench, number: int) -> str:
    """Kill a first run or, every second time, a refresh at a random moment; one that ended before does not count."""
    while True:
        project, wanted = bench.fresh() if number % 2 == 0 else bench.stale()
        delay = bench.chance.uniform(0.0, bench.seconds)
        child = start(project, bench.log)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        if end(child) == -signal.SIGKILL:
            break
    bench.check(project, wanted, f"killed after {delay:.2f} s", with_history=True)
    return "refresh killed" if number % 2 else "first run killed"


def fail_write(bench: Bench, number: int) -> str:
    """Let one of the writes fail, because the disk is full or broken."""
    project, wanted = bench.fresh() if number % 2 == 0 else bench.stale()
    code, at = bench.chance.choice([errno.ENOSPC, errno.EIO]), bench.chance.randrange(1, 260 if number % 2 == 0 else 90)

    def break_disk() -> None:
        flush, left = os.fsync, [at]

        def failing(descriptor: int) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(code, os.strerror(code))
            flush(descriptor)

        os.fsync = failing

    bench.log.write_text("")
    ended = end(start(project, bench.log, break_disk))
    output = bench.output()
    assert ended in (0, 1), output
    assert ended == 0 or "start the same run again" in output, output
    assert "Traceback" not in output, output
    bench.check(project, wanted, f"write {at} failed with {errno.errorcode[code]}")
    return errno.errorcode[code] if ended else "ended before"


def fill_disk(bench: Bench, number: int) -> str:
    """Run on a mounted disk of a few megabytes, and enlarge it when it is full. This needs the right to mount."""
    project, wanted = bench.fresh()
    project.home.mkdir()
    size = bench.chance.randrange(1, 6_000)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(project.home)], capture_output=True, check=False
    )
    if mounted.returncode:
        return "no right to mount"
    try:
        bench.log.write_text("")
        ended = end(start(project, bench.log))
        output = bench.output()
        assert ended in (0, 1), output
        assert "Traceback" not in output, output
        subprocess.run(["mount", "-o", "remount,size=200m", str(project.home)], check=True)
        bench.check(project, wanted, f"a disk of {size} kB")
    finally:
        subprocess.run(["umount", "-l", str(project.home)], check=True)
    return "full" if ended else "large enough"


def damage(bench: Bench, number: int) -> str:
    """Cut, flip, empty or delete some files; every second time, edit a text too.

    A damaged model is pretrained again from the current texts. After an edit it would differ, so it is spared then, and
    so are vectors, because those of texts that the edit took out are not made again.
    """
    is_edited = number % 2 == 1
    project, wanted = bench.stale() if is_edited else bench.untouched()
    spared = {"dagster", "encoders", "embeddings"} if is_edited else {"dagster"}
    for _ in range(bench.chance.randint(1, 6)):
        files = [path for path in sorted(project.home.rglob("*")) if _is_result(path, project.home, spared)]
        _DAMAGES[bench.chance.randrange(len(_DAMAGES))](bench.chance.choice(files), bench.chance)
    bench.check(project, wanted, "damaged files")
    return "damaged and edited" if is_edited else "damaged"


def _is_result(path: Path, home: Path, spared: set[str]) -> bool:
    return path.is_file() and spared.isdisjoint(path.relative_to(home).parts) and path.suffix != ".lock"


def _flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _cut(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content) + 1)])


def _lose(path: Path, chance: random.Random) -> None:
    path.unlink()


def _scramble(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def _lose_folder(path: Path, chance: random.Random) -> None:
    shutil.rmtree(path.parent)


_DAMAGES = (_flip, _flip, _flip, _cut, _cut, _lose, _scramble, _lose_folder)


def jump(bench: Bench, number: int) -> str:
    """Set the clock back or forward by days, and give files wrong times."""
    project, wanted = bench.stale()
    days = bench.chance.uniform(-400, 400)
    for path in (*project.home.rglob("*"), *(project.folder / "corpus").rglob("*")):
        if path.is_file() and "dagster" not in path.parts and bench.chance.random() < 0.5:
            moment = time.time() + bench.chance.uniform(-1e8, 1e8)
            os.utime(path, (moment, moment))

    def turn_clock() -> None:
        now, now_ns = time.time, time.time_ns
        time.time = lambda: now() + days * 86_400
        time.time_ns = lambda: now_ns() + int(days * 86_400e9)

    assert end(start(project, bench.log, turn_clock)) == 0, bench.output()
    bench.check(project, wanted, f"the clock was {days:.0f} days off", with_history=True)
    return "turned"


FAULTS = {"kills": kill, "writes": fail_write, "disks": fill_disk, "damages": damage, "clocks": jump}


def run(counts: dict[str, int], seed: int) -> None:
    """Cause so many faults of each kind, and print their outcomes.

    Raises:
        AssertionError: if a lineage does not end like the undisturbed one.
    """
    with tempfile.TemporaryDirectory(prefix="disent-faults-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        began = time.monotonic()
        bench = Bench(Path(folder), random.Random(seed))
        print(f"seed {seed}; an undisturbed run takes {bench.seconds:.1f} s", flush=True)
        for kind, count in counts.items():
            outcomes: dict[str, int] = {}
            for number in range(count):
                try:
                    outcome = FAULTS[kind](bench, number)
                except AssertionError as error:
                    kept = tempfile.mkdtemp(prefix="disent-fault-kept-")
                    shutil.copytree(bench.folder / "disturbed", Path(kept) / "disturbed", dirs_exist_ok=True)
                    raise AssertionError(f"{kind} {number}: {error}\nkept in {kept}") from error
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
                if (number + 1) % 10 == 0 or number + 1 == count:
                    done = ", ".join(f"{name} {times}" for name, times in sorted(outcomes.items()))
                    print(f"{kind}: {number + 1} of {count} ({done}), {time.monotonic() - began:.0f} s", flush=True)
        print("every lineage ended as the undisturbed one")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in FAULTS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    chosen = vars(parser.parse_args())
    run({kind: chosen[kind] for kind in FAULTS if chosen[kind]}, chosen["seed"])
