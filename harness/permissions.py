"""Make file permissions apply to root as to any user, so that tests in a container can remove them."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION = 0x20080522
_OVERRIDES = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("process", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextmanager
def _as_any_user() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    library, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_VERSION, 0), (_Sets * 2)()
    assert library.capget(ctypes.byref(header), sets) == 0
    before = sets[0].effective
    sets[0].effective &= ~_OVERRIDES
    assert library.capset(ctypes.byref(header), sets) == 0
    try:
        yield
    finally:
        sets[0].effective = before
        assert library.capset(ctypes.byref(header), sets) == 0


@contextmanager
def taken_away(folder: Path, *, keep: int = 0o555) -> Iterator[None]:
    """Make everything in the folder read-only within the context or, with `keep=0`, unreadable."""
    paths = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path in reversed(paths):
        path.chmod(modes[path] & keep)
    try:
        with _as_any_user():
            yield
    finally:
        for path in paths:
            path.chmod(modes[path])
