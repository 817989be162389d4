"""What benchmarks share: rows of the result, sides that take turns, the processor, and what a process uses of it.

Memory is read on Linux only. `ru_maxrss` does not give the peak: in a child process, it starts at the parent's peak.
"""

import platform
import re
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any


def row(name: str, ours: float, peer: float, note: str, *, digits: int = 3, of_ratio: int = 2) -> dict[str, Any]:
    """Return one row of the result, from the seconds of both sides; a `ratio` above 1 means that we are faster."""
    return {
        "name": name,
        "ours_seconds": round(ours, digits),
        "peer_seconds": round(peer, digits),
        "ratio": round(peer / ours, of_ratio),
        "note": note,
    }


def in_turns(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median processor seconds of each side; sides take turns after one warm-up run each."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats + 1):
        for name, run in sides.items():
            started = time.process_time()
            run()
            if repeat:
                seconds[name].append(time.process_time() - started)
    return {name: median(measured) for name, measured in seconds.items()}


# --- the processor ----------------------------------------------------------------------------------------


def processor_seconds(*whose: int) -> float:
    """Return processor seconds of `whose` processes; by default, of this one and its finished children."""
    used = [resource.getrusage(who) for who in whose or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def processor_facts() -> dict[str, str]:
    """Return `model name`, `cpu family` and `model` of the processor, as far as the system states them."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").is_file() else ""
    return dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.+)$", text, re.MULTILINE))


def processor_name() -> str:
    """Return the processor's name or, if the system does not state it, its architecture."""
    return processor_facts().get("model name", platform.machine()).strip()


# --- memory -----------------------------------------------------------------------------------------------


def forget_peak() -> None:
    """Reset the peak to the current memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes(process: int | str = "self") -> int:
    """Return the peak resident memory of a process since it started or last called `forget_peak`."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


def peak_gigabytes() -> float:
    """Return the peak of this process in GB."""
    return peak_bytes() / 1e9
