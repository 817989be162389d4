"""Preload failing_calls.c, choose which calls count and which fail, and list the calls that occurred."""

import ctypes
import errno
import mmap
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
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
"""Kinds of calls, in the order of the enumeration in failing_calls.c -> how they fail."""
LARGE = 1 << 16
"""Bytes of the smallest allocation that may fail: every statement makes smaller ones, and they fail last."""
STATE, LIST = "DISENT_FAILING_CALLS", "DISENT_LISTED_CALLS"
_NUMBER = re.compile(r"[0-9a-f]{8,}|disent-\w{8}\b|\d+")


class Layout(ctypes.Structure):
    """`struct state` of failing_calls.c."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("kind", "error", "lasting", "besides")),
        *((name, ctypes.c_long) for name in ("at", "count", "failed", "large")),
        ("under", ctypes.c_char * 1024),
    )


def is_loaded() -> bool:
    """Return whether this process has loaded the library."""
    return STATE in os.environ


def start_again() -> None:
    """Replace this process by one that has loaded the library, as will its children."""
    folder = Path(tempfile.mkdtemp(prefix="disent-library-"))
    library, state, calls = folder / "failing_calls.so", folder / "state", folder / "calls"
    command = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    state.write_bytes(bytes(ctypes.sizeof(Layout)))
    calls.touch()
    loaded = {"LD_PRELOAD": str(library), STATE: str(state), LIST: str(calls)}
    kept = {name: value for name, value in os.environ.items() if name != "RUST_BACKTRACE"}  # Rust hangs printing one
    os.execve(sys.executable, [sys.executable, *sys.argv], kept | loaded)


@dataclass
class Calls:
    """The calls of all processes but this one on the files of a folder."""

    folder: Path

    def __post_init__(self) -> None:
        self._listed = Path(os.environ[LIST])
        with Path(os.environ[STATE]).open("r+b") as file:
            self.state = Layout.from_buffer(mmap.mmap(file.fileno(), 0))
        self._chosen = 0
        self.state.besides, self.state.large, self.state.under = os.getpid(), LARGE, str(self.folder).encode()

    def choose(self, kind: str, at: int = 0, *, lasting: bool = False) -> None:
        """Choose the calls to count after `begin`: one of them fails, or all are listed."""
        os.truncate(self._listed, 0)
        self.state.at, self.state.lasting, self.state.count, self.state.failed = at, lasting, 0, 0
        self.state.error, self._chosen = KINDS[kind], 1 + [*KINDS].index(kind)

    def begin(self) -> None:
        """Start counting in all processes."""
        self.state.kind = self._chosen

    def stop(self) -> int:
        """Stop counting; return how many calls have failed."""
        self.state.kind = self._chosen = 0
        return self.state.failed

    def listed(self) -> list[str]:
        """Return the place of each call: its function and the name of its file, without numbers."""
        lines = self._listed.read_text(encoding="utf-8", errors="replace").splitlines()
        return [_NUMBER.sub("*", line.replace(str(self.folder), "")) for line in lines]
