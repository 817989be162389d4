"""Peak memory of a process, on Linux.

`ru_maxrss` does not give it: in a child process, it starts at the parent's peak.
"""

from pathlib import Path


def forget_peak() -> None:
    """Reset the peak to the current memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_gigabytes() -> float:
    """Return the peak resident memory of this process since it started or last called `forget_peak`."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) * 1024 / 1e9
