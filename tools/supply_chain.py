"""What the locks install: `python -m tools.supply_chain sbom` lists it as CycloneDX, `licences` as docs/licences.md.

The extras that users install are in the locks `test`, `scale` and `mteb`, and torch in a file of its own.
"""

import argparse
import json
import re
import uuid
from collections.abc import Iterator
from importlib.metadata import PackageMetadata, PackageNotFoundError, distribution, metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("test", "scale", "mteb", "torch")
PAGE = ROOT / "docs" / "licences.md"
HEAD = """\
# Licences

Made by `python -m tools.supply_chain licences` from the metadata of the packages that the locks of all extras install
on Linux (`requirements/test.txt`, `scale.txt`, `mteb.txt`, `torch.txt`). `make sbom` lists the same with their hashes,
and those of other platforms. disent is Apache-2.0; the licences of corpora are in [Corpora](corpora.md).

| package | version | licence |
|---|---|---|
"""
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_OSI = "License :: OSI Approved :: "


def locked() -> dict[tuple[str, str], tuple[Requirement, set[str]]]:
    """Return the requirement and the hashes of each package and version in the locks."""
    packages: dict[tuple[str, str], tuple[Requirement, set[str]]] = {}
    for lock in LOCKS:
        text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
        for part in re.split(r"\n(?=\w)", text):
            if part.startswith("#"):
                continue
            pin = Requirement(part.split("\\")[0].strip())
            key = (canonicalize_name(pin.name), str(pin.specifier).removeprefix("=="))
            packages.setdefault(key, (pin, set()))[1].update(_HASH.findall(part))
    return dict(sorted(packages.items()))


def on_linux() -> Iterator[tuple[str, str]]:
    """Yield the packages and versions installed on Linux."""
    for key, (pin, _) in locked().items():
        if pin.marker is None or pin.marker.evaluate({"sys_platform": "linux", "platform_system": "Linux"}):
            yield key


def bill() -> dict[str, Any]:
    """Return the software bill of materials as CycloneDX 1.6; equal locks give equal bills."""
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(hashes)],
        }
        for (name, version), (_, hashes) in locked().items()
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "disent-embeddings"}},
        "components": components,
    }


def licences() -> str:
    """Return the page of licences; raise PackageNotFoundError if a package is not installed here."""
    rows = []
    for name, version in on_linux():
        try:
            rows.append(f"| {name} | {version} | {licence(metadata(name))} |\n")
        except PackageNotFoundError as error:
            raise SystemExit(f"{name} {version} is not installed: install what {', '.join(LOCKS)} lock") from error
    return HEAD + "".join(rows)


def licence(package: PackageMetadata) -> str:
    """Return the licence in the metadata: SPDX expression, else classifiers, else the first line of a text or file."""
    if expression := package.get("License-Expression"):
        return expression
    classifiers = package.get_all("Classifier") or ()
    classified = [line.removeprefix(_OSI) for line in classifiers if line.startswith(_OSI)]
    file = package.get("License-File")
    text = package.get("License") or (file and distribution(package["Name"]).read_text(f"licenses/{file}")) or ""
    text = text.strip().split("\n", 1)[0][:60]
    return ", ".join(classified) or text.replace("|", "/") or "not stated"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sbom", "licences"])
    if parser.parse_args().what == "licences":
        PAGE.write_text(licences(), encoding="utf-8")
    else:
        print(json.dumps(bill(), indent=1))


if __name__ == "__main__":
    main()
