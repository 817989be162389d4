"""Keep memory that a step frees for what it allocates next.

By default glibc hands large pieces back to the system at once. A training frees and allocates the same tensors in every
batch, and then every page of them is mapped and filled with zeros again.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of parameters in malloc.h."""
KEPT = 512 << 20
"""Bytes; a single piece of more than half of them is still handed back at once."""


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory inside, and hand it back at the end. Only glibc can do this; elsewhere nothing changes."""
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "mallopt"):
        yield
        return
    library.mallopt(MMAP_THRESHOLD, KEPT // 2)
    library.mallopt(TRIM_THRESHOLD, KEPT)
    try:
        yield
    finally:
        library.malloc_trim(0)
