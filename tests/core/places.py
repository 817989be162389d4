"""Where tests find the project's files, and real corpora where somebody has them.

Real corpora are no part of the project. `DISENT_REAL_CORPORA` names a folder of them; tests that need one are skipped
without it.
"""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SAMPLES = PROJECT / "data" / "corpora"
VARIABLE = "DISENT_REAL_CORPORA"


def real_corpus(name: str) -> Path:
    return Path(os.environ.get(VARIABLE) or PROJECT / "build" / "no_real_corpora") / name


def why_absent(path: Path) -> str:
    folder = os.environ.get(VARIABLE)
    return f"{folder} has no {path.name}" if folder else f"set {VARIABLE} to a folder of real corpora"


def needs_corpus(path: Path) -> pytest.MarkDecorator:
    """Skips a test where a real corpus is absent, and says how to bring it."""
    return pytest.mark.skipif(not path.exists(), reason=why_absent(path))
