"""Build the files of a release into dist/: `make release`.

The version of pyproject.toml must be that of the tag (`TAG`, e.g. v0.3.0, if it is set) and have a section in
CHANGELOG.md, which becomes dist/NOTES.md.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def notes(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading."""
    section = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise ValueError(f"CHANGELOG.md has no section '## {version}'; rename 'Unreleased', with the date")
    return section[1].strip() + "\n"


def check_tag(tag: str, version: str) -> None:
    """Check that a tag names the version."""
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but pyproject.toml has version {version}; they must agree (v{version})")


def main() -> int:
    """Check, then build; return the exit code."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    try:
        check_tag(os.environ.get("TAG") or f"v{version}", version)
        text = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    except ValueError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", str(DIST)], check=True, cwd=ROOT)
    (DIST / "NOTES.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
