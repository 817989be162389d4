"""What `make setup` installs is what pyproject.toml asks for, each file known by its hash."""

import json
import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

from tools import audit, supply_chain

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = PROJECT["dependency-groups"]
LOCKED_EXTRAS = ("cli", "train", "serve", "lineage", "export", "test")
LOCKS = ("test", *GROUPS, "duckdb-1.2.0")
APART = ("interop", "duckdb-1.2.0")  # installed into folders of their own
CUDA = re.compile(r"nvidia-|cuda-|triton")
"""What only some builds of torch need; torch pins it."""


def text(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def entries(name: str) -> list[str]:
    """Parts of a lock: a package, its hashes, why it is there."""
    return [part.strip() for part in re.split(r"\n(?=\S)", text(name)) if not part.startswith("#")]


def pins(*names: str) -> dict[str, str]:
    """Version of each package that locks install on this machine."""
    pinned = [Requirement(entry.split("\\")[0]) for name in names for entry in entries(name)]
    return {
        canonical(pin.name): str(pin.specifier).removeprefix("==")
        for pin in pinned
        if pin.marker is None or pin.marker.evaluate()
    }


TORCH = pins("torch")


def asked(group: str) -> list[str]:
    if group == "test":
        extras = PROJECT["project"]["optional-dependencies"]
        lines = [*PROJECT["project"]["dependencies"], *(line for group in LOCKED_EXTRAS for line in extras[group])]
        return [line for line in lines if not line.startswith("disent-embeddings[")]
    return GROUPS.get(group, [])


def not_met(requirements: list[Requirement], versions: dict[str, str]) -> list[str]:
    return [
        f"{need} by {versions.get(canonical(need.name))}"
        for need in requirements
        if not need.specifier.contains(versions.get(canonical(need.name), "0"), prereleases=True)
        or canonical(need.name) not in versions
    ]


def needs(name: str, extras: frozenset[str]) -> list[Requirement]:
    """What the installed package asks for on this machine, but for what only some builds of torch need."""
    requirements = [Requirement(line) for line in distribution(name).requires or ()]
    environments = [{"extra": extra} for extra in (*extras, "")]
    return [
        need
        for need in requirements
        if not CUDA.match(need.name)
        and (need.marker is None or any(need.marker.evaluate(environment) for environment in environments))
    ]


def reached(requirements: list[Requirement]) -> list[Requirement]:
    """`requirements`, and all that the installed packages need for them."""
    seen: dict[tuple[str, frozenset[str]], list[Requirement]] = {}
    ahead, needed = list(requirements), []
    while ahead:
        need = ahead.pop()
        needed.append(need)
        key = canonical(need.name), frozenset(need.extras)
        if key not in seen:
            seen[key] = needs(*key)
            ahead += seen[key]
    return needed


@pytest.mark.parametrize("group", ["test", *GROUPS])
def test_a_lock_has_what_pyproject_asks_for(group):
    versions = pins("test", group) | TORCH
    assert not_met([Requirement(line) for line in asked(group)], versions) == [], "run make lock"


def test_the_lock_has_exactly_the_required_packages():
    versions = pins("test") | TORCH
    all_needs = reached([Requirement(line) for line in asked("test")])
    assert not_met(all_needs, versions) == [], "run make lock"
    assert versions.keys() == {canonical(need.name) for need in all_needs}, "run make lock"


@pytest.mark.parametrize("name", LOCKS)
def test_locked_packages_are_pinned_with_hashes_and_exclude_torch_builds(name):
    pinned = re.compile(r"[a-z0-9-]+==[^ ]+( ; [^\n\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+(\n    # via [^\n]+)?")
    assert [entry for entry in entries(name) if not pinned.fullmatch(entry)] == []
    assert not re.search(r"://|index|find-links|^(torch|nvidia-|cuda-|triton)\b", text(name), re.MULTILINE)


def test_locks_agree():
    versions = [pins(name) for name in LOCKS if name not in APART]
    together = pins(*(name for name in LOCKS if name not in APART))
    assert [lock for lock in versions if not lock.items() <= together.items()] == []


def test_pip_requires_hashes_for_all_but_torch_and_this_project():
    targets = ["setup", "lint", "audit", "bench", "docs", *(f".venv/{name}" for name in APART)]
    recipes = subprocess.run(
        ["make", "--dry-run", "--always-make", *targets],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    installs = [line.split("install --quiet ")[1] for line in recipes.splitlines() if "pip install" in line]
    loose = {line for line in installs if "--no-deps" not in line or "--require-hashes" not in line}
    assert loose == {"--requirement requirements/torch.txt", "--no-deps --no-build-isolation --editable ."}


SOUND = {"name": "sound", "version": "1.0", "vulns": []}
UNASKED = {"name": "unasked", "skip_reason": "Dependency not found on PyPI and could not be audited: unasked (1.0)"}
BAD = {"name": "bad", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": []}]}


@pytest.mark.parametrize(
    ("packages", "message", "is_sound"),
    [
        ([SOUND], "0 known vulnerabilities in 1 of 1 packages", True),
        ([], "", False),
        ([SOUND, BAD], "bad 1.0: PYSEC-1, corrected in 1.1", False),
        ([SOUND, UNASKED], "not audited: unasked", False),
        ([SOUND, UNASKED], "in 1 of 2 packages; nothing is known about the other 1", False),
    ],
)
def test_an_audit_passes_only_without_vulnerable_or_unknown_packages(packages, message, is_sound):
    summary, passes = audit.summary(json.dumps({"dependencies": packages, "fixes": []}))
    assert message in summary
    assert passes == is_sound


def test_an_audit_without_its_service_fails_with_the_reason(monkeypatch, capsys):
    audited = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nConnectionError: no route")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: audited)
    assert audit.main("installed.txt") == 1
    assert capsys.readouterr().out == (
        "no package was audited, the service that knows vulnerabilities did not answer: ConnectionError: no route\n"
    )


ADVISORY = {
    "id": "GHSA-1",
    "modified": "2026-11-01T00:00:00Z",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Some_Package"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.2"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "2.0"}, {"last_affected": "2.3"}]},
            ],
            "versions": ["3.0rc1"],
        }
    ],
}


@pytest.mark.parametrize(
    ("version", "is_sound"),
    [("1.1", False), ("1.2", True), ("1.10", True), ("2.0", False), ("2.3", False), ("2.3.1", True), ("3.0rc1", False)],
)
def test_an_audit_without_network_finds_the_versions_that_an_advisory_names(version, is_sound, tmp_path, capsys):
    (tmp_path / "GHSA-1.json").write_text(json.dumps(ADVISORY))
    (tmp_path / "installed.txt").write_text(f"some-package=={version}\nother==1.1 ; python_version > '3'\n")
    assert audit.main(str(tmp_path / "installed.txt"), str(tmp_path)) == (0 if is_sound else 1)
    assert ("some-package" in capsys.readouterr().out) == (not is_sound)


@pytest.mark.parametrize(
    ("pins", "advisories"), [("", [ADVISORY]), ("a==1\n", []), ("a==1\n", [{**ADVISORY, "withdrawn": "2026"}])]
)
def test_an_audit_without_checked_packages_fails(pins, advisories, tmp_path, capsys):
    with ZipFile(tmp_path / "all.zip", "w") as archive:
        for number, advisory in enumerate(advisories):
            archive.writestr(f"{number}.json", json.dumps(advisory))
    (tmp_path / "installed.txt").write_text(pins)
    assert audit.main(str(tmp_path / "installed.txt"), str(tmp_path / "all.zip")) == 1
    assert "no package was audited" in capsys.readouterr().out


def test_the_bill_of_materials_has_every_locked_package_with_its_hashes():
    bill = supply_chain.bill()
    every = {(canonical(name), version) for lock in supply_chain.LOCKS for name, version in all_pins(lock)}
    assert {(part["name"], part["version"]) for part in bill["components"]} == every
    assert [part["name"] for part in bill["components"] if not part["hashes"]] == ["torch"]
    assert supply_chain.bill() == bill


def test_the_page_of_licences_has_what_the_locks_install():
    page = supply_chain.PAGE.read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in page.splitlines() if row.startswith("| ") and not row.startswith("| package")]
    assert [(name.removeprefix("| "), version) for name, version, _ in rows] == list(supply_chain.on_linux())
    assert [row for row in rows if row[2] in ("", "not stated |")] == []


def all_pins(lock: str) -> list[tuple[str, str]]:
    return re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)", text(lock))
