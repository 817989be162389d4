"""`python -m tools.audit FILE`: list known vulnerabilities of the packages pinned in FILE, and unchecked packages.

`python -m tools.audit FILE OSV` queries no service, but reads an export of https://osv.dev: OSV is its `PyPI/all.zip`,
or the folder where this was unpacked.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ASK = ("pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off", "--format", "json", "--requirement")


def summary(answer: str) -> tuple[str, bool]:
    """Summarise `answer`, pip-audit's JSON; return the lines, and whether every package was checked and is sound."""
    packages = json.loads(answer)["dependencies"]
    unasked = [package for package in packages if "skip_reason" in package]
    lines = [
        f"{package['name']} {package['version']}: {flaw['id']}, corrected in {', '.join(flaw['fix_versions']) or '-'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    known = len(lines)
    if unasked:
        lines.append(f"not audited: {', '.join(package['name'] for package in unasked)}")
        lines.append(f"the first reason: {unasked[0]['skip_reason']}")
    lines.append(f"{known} known vulnerabilities in {len(packages) - len(unasked)} of {len(packages)} packages")
    if unasked:
        lines[-1] += f"; nothing is known about the other {len(unasked)}"
    return "\n".join(lines), bool(packages) and not known and not unasked


def main(file: str, export: str = "") -> int:
    """Return the exit code: 0 if all packages were checked and none has a known vulnerability."""
    if export:
        text, sound = offline_summary(Path(file).read_text(encoding="utf-8"), Path(export))
        print(text)
        return 0 if sound else 1
    asked = subprocess.run([sys.executable, "-m", *ASK, file], capture_output=True, text=True, check=False)
    try:
        text, sound = summary(asked.stdout)
    except ValueError:
        reason = (asked.stderr.strip() or "pip-audit has ended without an answer").splitlines()[-1]
        text, sound = f"no package was audited, the service that knows vulnerabilities did not answer: {reason}", False
    print(text)
    return 0 if sound else 1


# --- an export of OSV ---------------------------------------------------------------------------------------


def offline_summary(pins: str, export: Path) -> tuple[str, bool]:
    """Summarise the pinned packages; return the lines, and whether packages and advisories exist but none match."""
    pinned = re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)", pins)
    versions = {canonicalize_name(name): version for name, version in pinned}
    lines, read, newest = [], 0, ""
    for advisory in _advisories(export):
        affected = [part for part in advisory["affected"] if part.get("package", {}).get("ecosystem") == "PyPI"]
        if not affected or "withdrawn" in advisory:
            continue
        read, newest = read + 1, max(newest, advisory.get("modified", ""))
        for part in affected:
            name = canonicalize_name(part["package"]["name"])
            if name in versions and is_affected(part, versions[name]):
                lines.append(f"{name} {versions[name]}: {advisory['id']}, {advisory.get('summary', 'no summary')}")
    known = len(lines)
    if not versions:
        lines.append("no package was audited: the file pins none")
    if not read:
        lines.append(f"no package was audited: {export} has no advisory of PyPI; unpack PyPI/all.zip of osv.dev there")
    else:
        dated = f"{read:,} advisories, up to {newest[:10]}"
        lines.append(f"{known} known vulnerabilities in {len(versions)} packages; {dated}")
    return "\n".join(lines), bool(versions and read) and not known


def _advisories(export: Path) -> Iterator[dict[str, Any]]:
    """Yield the advisories of an archive or a folder."""
    if export.suffix == ".zip":
        with ZipFile(export) as archive:
            texts = [archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".json")]
    else:
        texts = (file.read_bytes() for file in sorted(export.rglob("*.json")))
    for text in texts:
        advisory = json.loads(text)
        if "affected" in advisory:
            yield advisory


def is_affected(part: dict[str, Any], version: str) -> bool:
    """Return whether a version is listed or lies in a range; one that can't be compared counts as affected."""
    if version in part.get("versions", ()):
        return True
    return any(_is_in(events["events"], version) for events in part.get("ranges", ()) if events["type"] == "ECOSYSTEM")


def _is_in(events: list[dict[str, str]], version: str) -> bool:
    """Return whether the last event up to the version introduced the vulnerability."""
    try:
        installed = Version(version)
        order = sorted((Version(at), kind) for event in events for kind, at in event.items() if kind != "limit")
    except InvalidVersion:
        return True
    inside = False
    for at, kind in order:
        if kind == "last_affected":
            inside = inside and installed <= at
        elif at <= installed:
            inside = kind == "introduced"
    return inside


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
