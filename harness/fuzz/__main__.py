"""Run long fuzzing: `python -m harness.fuzz --inputs 7000 --seed 0 [TARGET ...]`.

With `--only N` the files of input N are written to `build/fuzz` and read, and the result is shown.
"""

import argparse
import faulthandler
import logging
import resource
import sys
import tempfile
import time
from pathlib import Path

from .run import Result, inputs, limited_memory, try_inputs, write
from .targets import TARGETS

CHUNK = 500
MEMORY = next((place for place in ("/dev/shm",) if Path(place).is_dir()), None)
"""Folder in memory, if there is one."""
CLEAR = "\r"


def main() -> int:
    """Fuzz, and return the exit code: 1 if any input failed."""
    parser = argparse.ArgumentParser(prog="python -m harness.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--inputs", type=int, default=7_000, help="of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="write this one input to build/fuzz and read it")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    if options.only is not None:
        return _show(names[0], options.seed, options.only)
    faulthandler.enable()
    logging.disable()
    print(f"seed {options.seed}, {options.inputs:,} inputs of each of {len(names)} targets", flush=True)
    began, failures, total = time.monotonic(), 0, 0
    with limited_memory():
        for name in names:
            result = _fuzz(name, options.seed, options.inputs)
            failures += len(result.failures)
            total += result.accepted + result.refused
    print(f"{total:,} inputs in {time.monotonic() - began:.0f} s, {failures} ways to fail")
    return 1 if failures else 0


def _fuzz(name: str, seed: int, count: int) -> Result:
    began, result = time.monotonic(), Result()
    with tempfile.TemporaryDirectory(prefix="disent-fuzz-", dir=MEMORY) as folder:
        for start in range(0, count, CHUNK):
            part = try_inputs(TARGETS[name], Path(folder, "in"), seed, range(start, min(start + CHUNK, count)))
            result.accepted += part.accepted
            result.refused += part.refused
            result.failures = part.failures | result.failures
            if sys.stdout.isatty():
                print(f"\r{name}: {min(start + CHUNK, count):,} of {count:,}", end="", flush=True)
    seconds, peak = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = (
        f"{result.accepted:>6,} accepted, {result.refused:>6,} refused, {count / seconds:>5,.0f}/s, {peak:,.0f} MB"
    )
    print(f"{CLEAR if sys.stdout.isatty() else ''}{name:16} {summary}", flush=True)
    for what, number in result.failures.items():
        print(f"  {what}: python -m harness.fuzz {name} --seed {seed} --only {number}", flush=True)
    return result


def _show(name: str, seed: int, number: int) -> int:
    folder = Path("build/fuzz")
    (chosen,) = inputs(TARGETS[name], seed, range(number, number + 1))
    write(chosen[1], folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            print(f"{path}: {path.read_bytes()[:2_000]!r}")
    TARGETS[name].read(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
