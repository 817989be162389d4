"""Run inputs one by one: write each to a folder, read it, and classify the outcome."""

import random
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

from disent_core.errors import DisentError

from .mutate import Files
from .targets import Target

SECONDS_A_BYTE = 20e-6
"""Processor seconds allowed per byte, in addition to the target's fixed limit."""
LARGE_EVERY, LARGE_AT = 40, 11
"""One of 40 inputs is large: the one whose number leaves remainder 11."""
MEMORY_BYTES = 3 << 30
"""Memory that an input may use beyond what the process had at the start of the run."""
LONGEST_NAME = 255
"""Most bytes of a file name on Linux."""


class TooSlowError(BaseException):
    """An input exceeds its time limit; a BaseException, so that no reader catches it."""


@dataclass
class Result:
    """Outcomes of a target's inputs."""

    accepted: int = 0
    refused: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """Error and place -> number of the first input that fails there."""


def inputs(target: Target, seed: int, numbers: range) -> Iterator[tuple[int, Files]]:
    """Yield the inputs with these numbers; input `n` of a seed is always the same. Number 0 is not mutated."""
    for number in numbers:
        rng = random.Random(f"{seed}:{target.name}:{number}")
        change = target.enlarge if number % LARGE_EVERY == LARGE_AT else target.mutate
        yield number, change(target.files, rng) if number else dict(target.files)


def try_inputs(target: Target, folder: Path, seed: int, numbers: range) -> Result:
    """Read every input; any exception but a `DisentError` is a failure."""
    result = Result()
    for number, files in inputs(target, seed, numbers):
        write(files, folder)
        try:
            with limited_time(target.seconds + SECONDS_A_BYTE * sum(map(len, files.values()))):
                target.read(folder)
            result.accepted += 1
        except DisentError as error:
            result.refused += 1
            if not str(error).strip():
                result.failures.setdefault("an empty message", str(number))
        except (TooSlowError, Exception) as error:
            result.failures.setdefault(_signature(error), str(number))
    return result


def write(files: Files, folder: Path) -> None:
    """Write just these files, except impossible paths: below a file, at a folder, or with a name too long."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        if max(map(len, name.encode().split(b"/"))) > LONGEST_NAME:
            continue
        if not any(parent.is_file() for parent in path.parents) and not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit memory, so that a greedy input raises `MemoryError` instead of stopping the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Limit processor time, which does not depend on other load on the machine."""

    def ring(number: int, frame: FrameType | None) -> NoReturn:
        raise TooSlowError(f"more than {seconds:.1f} s")

    before = signal.signal(signal.SIGPROF, ring)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if time.process_time() - began > seconds:  # native code delayed the signal
        raise TooSlowError(f"more than {seconds:.1f} s")


def _signature(error: BaseException) -> str:
    """Return the kind of the error and the last place in the project's code that it passed."""
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "disent_" in code.co_filename:
            place = f"{Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {place}"
