"""The most memory that a process has had, on Linux.

`ru_maxrss` does not say it: in a process that another one started, it begins at the peak of that one.
"""

from pathlib import Path


def forget_peak() -> None:
    """Begin again: the peak so far is the memory of this moment."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_gigabytes() -> float:
    """The most resident memory of this process since it started or last forgot its peak."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) * 1024 / 1e9
