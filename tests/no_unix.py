"""Make this process look as on Windows: without the modules and functions of Unix. `python -c` imports it first."""

import errno
import multiprocessing.context
import os
import sys
from pathlib import Path

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "killpg", "sched_getaffinity", "statvfs", "O_DIRECTORY", "setsid"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("ForkProcess", "ForkContext", "ForkServerProcess", "ForkServerContext"):
    delattr(multiprocessing.context, name)
os.environ.setdefault("USERNAME", "user")  # which Windows always has
os.process_cpu_count = os.cpu_count  # as there; that of Python 3.13 asks the function that is gone

_open, _replace = os.open, os.replace


def _open_files_only(path, flags, *rest, **named):
    if not flags & os.O_CREAT and Path(path).is_dir() and "dir_fd" not in named:
        raise PermissionError(errno.EACCES, "a folder can't be opened", path)
    return _open(path, flags, *rest, **named)


os.open = _open_files_only
