"""Build the files of a release into dist/: `make release`.

The version in pyproject.toml must be that of the tag (`TAG`, e.g. v0.3.0, if set) and have a section in CHANGELOG.md,
which becomes dist/NOTES.md. dist/ also gets the wheel, the source distribution, the bill of materials (sbom.json), the
site (build/site) as an archive, and SHA256SUMS of them all. A model's wheel that `make model` has put into dist/ stays
if it is of this version.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

from tools.supply_chain import bill

ROOT = Path(__file__).resolve().parents[1]
DIST, SITE = ROOT / "dist", ROOT / "build" / "site"
SUMS = "SHA256SUMS"


def notes(changelog: str, version: str) -> str:
    """Return the changelog section of a version, without its heading."""
    section = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise ValueError(f"CHANGELOG.md has no section '## {version}'; rename 'Unreleased', with the date")
    return section[1].strip() + "\n"


def check_tag(tag: str, version: str) -> None:
    """Reject a tag that does not name the version."""
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but pyproject.toml has version {version}; they must agree (v{version})")


def checksums(folder: Path) -> str:
    """Return the checksums of all files in a folder, in the format of `sha256sum --check`."""
    files = [path for path in sorted(folder.iterdir()) if path.name != SUMS]
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def packed(folder: Path, name: str) -> bytes:
    """Return a folder as a .tar.gz below `name`; equal files give equal bytes."""
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"{name}/{path.relative_to(folder).as_posix()}")
            member.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(member, file)
    return content.getvalue()


def main() -> int:
    """Check, then build; return the exit code."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    try:
        check_tag(os.environ.get("TAG") or f"v{version}", version)
        text = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        if not (SITE / "index.html").is_file():
            raise ValueError("build/site has no site; run: make docs")
    except ValueError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    DIST.mkdir(exist_ok=True)
    models = {*DIST.glob(f"disent_*-{version}-*.whl")} - {*DIST.glob("disent_embeddings-*")}
    for path in {*DIST.iterdir()} - models:
        path.unlink()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", str(DIST)], check=True, cwd=ROOT)
    (DIST / "NOTES.md").write_text(text, encoding="utf-8")
    (DIST / "sbom.json").write_text(json.dumps(bill(), indent=1) + "\n", encoding="utf-8")
    (DIST / f"disent-site-{version}.tar.gz").write_bytes(packed(SITE, f"disent-site-{version}"))
    (DIST / SUMS).write_text(checksums(DIST), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
