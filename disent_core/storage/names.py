"""Untrusted names as parts of paths."""

import re
import sys

from disent_core.errors import quoted

_SAFE_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]*")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_LONGEST_PART = 150
"""Characters: a file name has at most 255 bytes, and incomplete files add machine and process."""


def safe_part(name: str) -> str:
    """Return the name if it is a valid single path component."""
    if not _SAFE_PART.fullmatch(name) or ".." in name:
        raise ValueError(f"{quoted(name)} can't be part of a path: use letters, digits and _ . + @ -")
    if sys.platform == "win32" and (name.endswith(".") or _DEVICE.fullmatch(name)):
        raise ValueError(f"{quoted(name)} can't be a file on Windows: it is a device name or ends in a dot; rename it")
    if len(name) > _LONGEST_PART:
        raise ValueError(f"{quoted(name)} is too long for a file name; shorten it to {_LONGEST_PART} characters")
    return name
