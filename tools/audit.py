"""`python -m tools.audit FILE`: known vulnerabilities of the pinned packages in FILE, and what could not be asked."""

import json
import subprocess
import sys

ASK = ("pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off", "--format", "json", "--requirement")


def summary(answer: str) -> tuple[str, bool]:
    """Lines about `answer`, the JSON of pip-audit, and whether it says that every package is sound."""
    packages = json.loads(answer)["dependencies"]
    unasked = [package for package in packages if "skip_reason" in package]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, corrected in {', '.join(found['fix_versions']) or '-'}"
        for package in packages
        for found in package.get("vulns", ())
    ]
    known = len(lines)
    if unasked:
        lines.append(f"not audited: {', '.join(package['name'] for package in unasked)}")
        lines.append(f"the first reason: {unasked[0]['skip_reason']}")
    lines.append(f"{known} known vulnerabilities in {len(packages) - len(unasked)} of {len(packages)} packages")
    if unasked:
        lines[-1] += f"; nothing is known about the other {len(unasked)}"
    return "\n".join(lines), bool(packages) and not known and not unasked


def main(file: str) -> int:
    """Exit code: 0 if all packages were asked about and none has a known vulnerability."""
    asked = subprocess.run([sys.executable, "-m", *ASK, file], capture_output=True, text=True, check=False)
    try:
        text, sound = summary(asked.stdout)
    except ValueError:
        reason = (asked.stderr.strip() or "pip-audit has ended without an answer").splitlines()[-1]
        text, sound = f"no package was audited, the service that knows vulnerabilities did not answer: {reason}", False
    print(text)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
