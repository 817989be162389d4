"""Test random faults: kills, a full or failing disk, damaged and lost files, wrong clocks.

    python harness/faults.py --kills 200 --writes 60 --damages 40 --clocks 4 --seed 1

After each fault the lineage is run again. It must end with exactly the results of an undisturbed run, to the bit, and
leave nothing of the fault behind but what it quarantined. Every run is a process of its own, forked from one that has
loaded everything, so that a run of ten seconds takes ten seconds.
"""

import argparse
import errno
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from disturbed_runs import (
    CONFIG,
    SMALLEST,
    Bench,
    end,
    end_of_orphans,
    family,
    has_ended,
    processor_seconds,
    start,
    warm_up,
)
from projects import blank_pictures

MEMORY = Path("/dev/shm")
"""Used if it exists: files of a killed process survive there as on a disk, and it is faster."""


# --- faults -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blow:
    """A signal to a command, its process group, one or all of its workers, or the process they are forked from."""

    name: str
    to: str
    workers: int

    @property
    def what(self) -> str:
        """Description for people."""
        return f"{self.name} to {self.to}" + (f" of {self.workers} workers" if self.is_for_all else "")

    @property
    def is_for_all(self) -> bool:
        """Whether the whole command must end, not just one of its processes."""
        return self.to in ("command", "group")

    @property
    def number(self) -> signal.Signals:
        """The signal."""
        return signal.Signals[self.name.removesuffix(" twice")]

    @property
    def ends(self) -> set[int]:
        """Correct exit codes; a command that has not set its handlers yet ends like any program."""
        if not self.is_for_all:
            return {0, 1}
        return {-self.number} if self.number == signal.SIGKILL else {128 + self.number, -self.number}

    def targets(self, command: int, chance: random.Random) -> list[int]:
        """Return the ids to pass to `os.kill`; empty while there are no such processes."""
        if self.to == "command":
            return [command]
        if self.to == "group":
            return [-command]
        server = next((child for child in family(command) if child != command and list(family(child))[1:]), None)
        if server is None:
            return []
        workers = list(family(server))[1:]
        return {"forkserver": [server], "one worker": [chance.choice(workers)], "all workers": workers}[self.to]


_SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGINT twice")
_OF_COMMANDS = [Blow(name, *to) for name, to in product(_SIGNALS, (("command", 1), ("command", 2), ("group", 2)))]
_OF_CHILDREN = [
    *(Blow(name, "one worker", 2) for name in ("SIGKILL", "SIGTERM", "SIGINT")),
    Blow("SIGKILL", "all workers", 2),
    *(Blow(name, "forkserver", 2) for name in ("SIGKILL", "SIGTERM")),
]
MOST_BLOWS = 12
"""Most blows to a lineage before it may end."""
STOPPED = "stopped; results made so far are kept; run the command again to go on"
_seconds: dict[tuple[bool, int], float] = {}
"""Whether it is a first run, and number of workers -> processor seconds of an undisturbed run."""


def strike(bench: Bench, number: int) -> list[str]:
    """Send signals to a first run or, every second time, to a refresh, and to the runs that resume it.

    The moments are random in the first half of an undisturbed run's time, so that a lineage is struck several times on
    its way, in every stage. They are in processor time, and so independent of other load on the machine. In three of
    four lineages the signals go to commands and groups, in the others to their child processes, which a command may
    survive.
    """
    is_first, blows = number % 2 == 0, _OF_CHILDREN if number // 2 % 4 == 3 else _OF_COMMANDS
    seconds = {workers: _undisturbed_seconds(bench, is_first=is_first, workers=workers) for workers in (1, 2)}
    project, wanted = bench.fresh() if is_first else bench.stale()  # after the measurements, which use the same folder
    struck: list[str] = []
    for _ in range(bench.chance.randint(4, MOST_BLOWS)):
        blow = bench.chance.choice(blows)
        at = bench.chance.uniform(0.0, seconds[blow.workers] / 2)
        bench.log.write_text("")
        child = start(project, bench.log, workers=blow.workers)
        is_struck = _hit(blow, child, at, bench.chance)
        code = end(child)
        end_of_orphans()
        if is_struck and (code or not blow.is_for_all):  # else the run had ended earlier
            output = bench.log.read_text(encoding="utf-8", errors="replace")
            _require_right_end(blow, code, output)
            struck += [blow.what, f"in {_stage(output)}"]
        if not code:
            break
    if struck:
        bench.check(project, wanted, ", ".join(struck), with_history=blows is _OF_COMMANDS)
    return struck


def _stage(output: str) -> str:
    """Return what the run had started last."""
    begun = ["the start", *re.findall(r"^(.*?)(?: \[.*\])?: begins", output, re.MULTILINE)]
    return begun[-1].partition("/")[0]


def _require_right_end(blow: Blow, code: int, output: str) -> None:
    assert code in blow.ends, f"{blow.what}: ended with {code}\n{output}"
    assert "Traceback" not in output, f"{blow.what}:\n{output}"
    assert output.count(STOPPED) == (blow.is_for_all and code > 0), f"{blow.what}:\n{output}"


def _undisturbed_seconds(bench: Bench, *, is_first: bool, workers: int) -> float:
    if (is_first, workers) not in _seconds:
        project, _ = bench.fresh() if is_first else bench.stale()
        child, seconds = start(project, bench.log, workers=workers), 0.0
        while not has_ended(child):
            seconds = max(seconds, processor_seconds(family(child)))
            time.sleep(0.01)
        assert end(child) == 0, bench.output()
        end_of_orphans()
        _seconds[is_first, workers] = seconds
    return _seconds[is_first, workers]


def _hit(blow: Blow, child: int, at: float, chance: random.Random) -> bool:
    """Send the signal once the processes have used `at` processor seconds and a target exists; false if never."""
    while not has_ended(child):
        if processor_seconds(family(child)) >= at and (targets := blow.targets(child, chance)):
            for target in targets:
                with suppress(ProcessLookupError):
                    os.kill(target, blow.number)
            if blow.name.endswith("twice"):
                time.sleep(chance.uniform(0.0, 0.4))
                with suppress(ProcessLookupError):
                    os.kill(targets[0], blow.number)
            return True
        time.sleep(0.003)
    return False


def fail_write(bench: Bench, number: int) -> str:
    """Make one of the writes fail as if the disk were full or broken."""
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
    """Run on a mounted disk of a few megabytes, and enlarge it afterwards. This needs the right to mount."""
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
    """Truncate some files, flip bits in them, empty or delete them; every second time, edit a text too.

    A damaged model is pretrained again on the current texts. After an edit it would differ, so it is spared then. So
    are vectors, because those of texts that the edit removed are not made again, and scores of sentences that are only
    kept to speed up the next edit, as they are made again at that edit.
    """
    is_edited = number % 2 == 1
    project, wanted = bench.stale() if is_edited else bench.untouched()
    spared = {"dagster", "bleu_scores", *(("encoders", "embeddings") if is_edited else ())}
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
    """Set the clock back or forward by days, and give files wrong timestamps."""
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


FAULTS = {"kills": strike, "writes": fail_write, "disks": fill_disk, "damages": damage, "clocks": jump}


def run(counts: dict[str, int], seed: int, *, smallest: bool = False) -> None:
    """Cause `counts` faults of each kind, all in the smallest lineage if `smallest`, and print their outcomes.

    Raises:
        AssertionError: if a lineage does not end like the undisturbed one.
    """
    warm_up()
    benches: dict[tuple[str, bool], Bench] = {}
    with tempfile.TemporaryDirectory(prefix="disent-faults-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for kind, count in counts.items():
            config, is_drawn = SMALLEST if kind == "kills" or smallest else CONFIG, kind == "disks"
            with nullcontext() if is_drawn else blank_pictures():  # blank ones would not fill a disk
                if (config, is_drawn) not in benches:
                    place = Path(folder) / str(len(benches))
                    benches[config, is_drawn] = Bench(place, random.Random(seed), config)
                _cause(kind, count, benches[config, is_drawn])
    print("every lineage ended as the undisturbed one")


def _cause(kind: str, count: int, bench: Bench) -> None:
    outcomes: Counter[str] = Counter()
    number = done = reported = 0
    while done < count:
        try:
            outcome = FAULTS[kind](bench, number)
        except AssertionError as error:
            kept = tempfile.mkdtemp(prefix="disent-fault-kept-")
            shutil.copytree(bench.folder / "disturbed", Path(kept) / "disturbed", dirs_exist_ok=True)
            raise AssertionError(f"{kind} {number}: {error}\nkept in {kept}") from error
        outcomes.update([outcome] if isinstance(outcome, str) else outcome)
        done += 1 if isinstance(outcome, str) else len(outcome) // 2
        number += 1
        if done // 10 > reported or done >= count:
            reported = done // 10
            listed = ", ".join(f"{name} {times}" for name, times in sorted(outcomes.items()))
            print(
                f"{kind}: {done} in {number} lineages ({listed}), {_processor_time():.0f} s of the processor",
                flush=True,
            )


def _processor_time() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in FAULTS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smallest", action="store_true", help="with one trained method, for faults of every kind")
    chosen = vars(parser.parse_args())
    run({kind: chosen[kind] for kind in FAULTS if chosen[kind]}, chosen["seed"], smallest=chosen["smallest"])
